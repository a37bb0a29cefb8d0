# SPDX-License-Identifier: MIT
"""Networks against ONNX Runtime, and what the module says to bad input."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")


class Builder:
    """Makes a network with random weights, node by node."""

    def __init__(self, opset=17):
        self.opset, self.nodes, self.weights, self.random = opset, [], [], np.random.default_rng(0)

    def weight(self, *shape, scale=None, low=None):
        array = (
            self.random.uniform(low, 1.5, shape)
            if low is not None
            else self.random.standard_normal(shape) * (scale or np.sqrt(2 / np.prod(shape[1:])))
        )
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def integers(self, *values):
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def __call__(self, kind, *inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def conv(self, x, channels_in, channels, kernel=3, stride=1, norm=True, relu=True, **attributes):
        attributes.setdefault("pads", [kernel // 2] * 4)
        if attributes.get("auto_pad"):
            attributes.pop("pads")
        x = self("Conv", x, self.weight(channels, channels_in, kernel, kernel), strides=[stride] * 2, **attributes)
        if norm:
            x = self(
                "BatchNormalization",
                x,
                self.weight(channels, low=0.5),
                self.weight(channels, scale=0.1),
                self.weight(channels, scale=0.1),
                self.weight(channels, low=0.5),
            )
        return self("Relu", x) if relu else x

    def model(self, output, shape):
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return model.SerializeToString()


def resnet(opset):
    net = Builder(opset)
    x, width = net("MaxPool", net.conv("x", 3, 16, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 16
    for stage in range(4):
        for block in range(2):
            channels, stride = 16 << stage, 2 if stage and not block else 1
            y = net.conv(net.conv(x, width, channels, 3, stride), channels, channels, relu=False)
            if stride == 2:
                x = net.conv(x, width, channels, 1, stride, relu=False)
            x, width = net("Relu", net("Add", y, x)), channels
    x = net("Flatten", net("GlobalAveragePool", x))
    return net.model(net("Gemm", x, net.weight(10, width), net.weight(10, scale=1), transB=1), ["N", 3, 64, 64])


def channels_last(opset):
    """As exporters from TensorFlow write it: NHWC outside, SAME padding, no folded normalization."""
    net = Builder(opset)
    x = net("Transpose", "x", perm=[0, 3, 1, 2])
    x = net.conv(x, 3, 8, 3, 2, auto_pad="SAME_UPPER")
    x = net(
        "AveragePool",
        net.conv(x, 8, 16, 5, auto_pad="SAME_LOWER"),
        kernel_shape=[3, 3],
        strides=[2, 2],
        auto_pad="SAME_UPPER",
    )
    x = net("Transpose", x, perm=[0, 2, 3, 1])
    x = net("ReduceMean", x, axes=[1, 2], keepdims=0)
    return net.model(net("Softmax", net("MatMul", x, net.weight(16, 5))), ["N", 33, 30, 3])


def transformer(opset):
    """One block of attention and a gated layer over sequences; shapes are computed by the graph."""
    net, width, heads = Builder(opset), 32, 4
    sizes = net(
        "Concat",
        net("Slice", net("Shape", "x"), net.integers(0), net.integers(2)),
        net.integers(heads, width // heads),
        axis=0,
    )

    def part():
        return net("Transpose", net("Reshape", net("MatMul", "x", net.weight(width, width)), sizes), perm=[0, 2, 1, 3])

    q, k, v = part(), part(), part()
    scores = net("Softmax", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), axis=3)
    mixed = net("Transpose", net("MatMul", scores, v), perm=[0, 2, 1, 3])
    x = net("Add", "x", net("Reshape", mixed, net("Shape", "x")))
    x = net("LayerNormalization", x, net.weight(width, low=0.5), net.weight(width, scale=0.1))
    hidden = net("MatMul", x, net.weight(width, 64))
    return net.model(
        net("MatMul", net("Mul", hidden, net("Sigmoid", hidden)), net.weight(64, width)), ["N", "T", width]
    )


@pytest.mark.parametrize(
    "make, opset, shape",
    [
        (resnet, 7, (3, 64, 64)),
        (resnet, 17, (3, 64, 64)),
        (channels_last, 11, (33, 30, 3)),
        (channels_last, 15, (33, 30, 3)),
        (transformer, 17, (7, 32)),
    ],
)
def test_agrees_with_onnx_runtime(make, opset, shape):
    model = make(opset)
    expected, session = onnxruntime.InferenceSession(model), dlprim.InferenceSession(model)
    for batch in (1, 8, 1):
        x = np.random.default_rng(batch).standard_normal((batch, *shape), dtype=np.float32)
        (wanted,) = expected.run(None, {"x": x})
        (got,) = session.run(None, {"x": x})
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        assert np.abs(got - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_external_data(tmp_path):
    model = onnx.load_from_string(resnet(17))
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, size_threshold=64)
    x = np.ones((1, 3, 64, 64), np.float32)
    inside, outside = (
        dlprim.InferenceSession(source).run(None, {"x": x})[0] for source in (resnet(17), tmp_path / "net.onnx")
    )
    assert np.array_equal(inside, outside)


def test_names_and_errors():
    session = dlprim.InferenceSession(resnet(17))
    assert [info.name for info in session.get_inputs()] == ["x"]
    assert session.get_inputs()[0].shape == ["N", 3, 64, 64]
    with pytest.raises(ValueError, match="expected the inputs"):
        session.run(None, {"y": np.zeros(1)})
    with pytest.raises(dlprim.ValidationError, match="float32"):
        session.run(None, {"x": np.zeros((1, 3, 64, 64))})
    with pytest.raises(dlprim.ValidationError, match="no ONNX model"):
        dlprim.InferenceSession(b"garbage")
    with pytest.raises(dlprim.ValidationError):
        dlprim.InferenceSession(resnet(17), device="no such device")
