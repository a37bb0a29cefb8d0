# SPDX-License-Identifier: MIT
"""What files may hold beyond operators: nodes in any order, constants of few bits, parameters that broadcast."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")
random = np.random.default_rng(0)


def numbers(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


FOUR_BITS = {"int4": (TensorProto.INT4, np.int8, -8), "uint4": (TensorProto.UINT4, np.uint8, 0)}


def four_bits(name, kind, shape):
    values = random.integers(kind[2], kind[2] + 16, shape).astype(kind[1])
    return helper.make_tensor(name, kind[0], shape, values.ravel())


@pytest.mark.parametrize("kind", FOUR_BITS)
@pytest.mark.parametrize("raw", [False, True])
def test_constants_of_four_bits(kind, raw):
    """Weights that DequantizeLinear reads: whole, for each column, and in blocks of rows; an odd number of them."""
    weights, zero = four_bits("w", FOUR_BITS[kind], (9, 5)), four_bits("z", FOUR_BITS[kind], (3, 5))
    if raw:
        weights = numpy_helper.from_array(numpy_helper.to_array(weights), "w")
    scales = [numpy_helper.from_array(numbers(*shape), name) for name, shape in (("s", ()), ("c", (5,)), ("b", (3, 5)))]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["w0"]),
        helper.make_node("DequantizeLinear", ["w", "c"], ["w1"], axis=1),
        helper.make_node("DequantizeLinear", ["w", "b", "z"], ["w2"], axis=0, block_size=3),
        *(helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(3)),
    ]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [2, 5]) for i in range(3)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 9])], outputs, [weights, zero, *scales]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": numbers(2, 9)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    for wanted, got in zip(expected, dlprim.InferenceSession(model.SerializeToString()).run(None, feed), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    model.graph.node[0].CopyFrom(helper.make_node("Cast", ["w"], ["w0"], to=TensorProto.FLOAT))
    with pytest.raises(dlprim.NotSupportedError, match="'w' of element type u?int4"):
        dlprim.InferenceSession(model.SerializeToString())


def test_nodes_in_any_order():
    """Some of the runtime's tools put nodes before those whose results they read, inside of others, too."""
    inner = [helper.make_node("Add", ["t", "b"], ["o"]), helper.make_node("Neg", ["a"], ["t"])]
    info = helper.make_tensor_value_info
    branch = helper.make_graph(inner, "branch", [], [info("o", TensorProto.FLOAT, None)])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        helper.make_node("Mul", ["a", "a"], ["b"]),
        helper.make_node("Exp", ["x"], ["a"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [3]), info("c", TensorProto.BOOL, [])],
        [info("y", TensorProto.FLOAT, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = numbers(3)
    (y,) = dlprim.InferenceSession(model.SerializeToString()).run(None, {"x": x, "c": np.array(True)})
    np.testing.assert_allclose(y, np.exp(x) ** 2 - np.exp(x), rtol=1e-5)
    model.graph.node[2].input[0] = "b"
    with pytest.raises(dlprim.ValidationError, match="not defined before it"):
        dlprim.InferenceSession(model.SerializeToString())


def test_many_nodes_in_reverse():
    count = 20000
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in reversed(range(count))]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("v0", TensorProto.FLOAT, [1])], [info(f"v{count}", TensorProto.FLOAT, [1])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (y,) = dlprim.InferenceSession(model.SerializeToString()).run(None, {"v0": np.array([2], np.float32)})
    assert y == [2]


def test_one_scale_for_a_vector():
    """The axis is that of channels by default, which a vector does not have."""
    info, constant = helper.make_tensor_value_info, numpy_helper.from_array
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        helper.make_node("DequantizeLinear", ["c", "s"], ["w"]),
    ]
    constants = [
        constant(np.array([0.01], np.float32), "s"),
        constant(np.array([3], np.uint8), "z"),
        constant(np.arange(5, dtype=np.int32), "c"),
    ]
    outputs = [info(name, TensorProto.FLOAT, None) for name in "yw"]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [None])], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    feed = {"x": numbers(5)}
    expected = onnxruntime.InferenceSession(model).run(None, feed)
    for wanted, got in zip(expected, dlprim.InferenceSession(model).run(None, feed), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_empty_batches():
    """Open sizes beside one of 0, as torch.export's exporter writes them; pools, resizing and products of no image."""
    info = helper.make_tensor_value_info
    shapes = {"a": [0, 4, -1, 2], "b": [0, -1], "c": [0, 0, -1]}
    floats = {"e": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 1.5], np.float32)}
    constants = [numpy_helper.from_array(np.array(sizes), name) for name, sizes in shapes.items()]
    constants += [numpy_helper.from_array(value, name) for name, value in floats.items()]
    nodes = [
        *(helper.make_node("Reshape", ["x", name], ["r" + name], allowzero=1) for name in shapes),
        helper.make_node("MaxPool", ["x"], ["pool", "places"], kernel_shape=[2, 2]),
        helper.make_node("AveragePool", ["x"], ["average"], kernel_shape=[2, 2]),
        helper.make_node("Resize", ["x", "e", "scales"], ["large"], mode="linear"),
        helper.make_node("Resize", ["x", "e", "e", "sizes"], ["sized"], mode="nearest"),
        helper.make_node("Einsum", ["x", "x"], ["products"], equation="nchw,ncdw->nchd"),
        helper.make_node("Einsum", ["x", "x"], ["sums"], equation="nchw,mdhw->cd"),
        helper.make_node("Shape", ["x"], ["n"], start=0, end=2),
        helper.make_node("Concat", ["n", "hw"], ["sizes"], axis=0),
    ]
    constants.append(numpy_helper.from_array(np.array([5, 7]), "hw"))
    outputs = [info(name, TensorProto.FLOAT, None) for name in ("ra", "rb", "rc", "pool", "average", "large", "sized")]
    outputs += [info(name, TensorProto.FLOAT, None) for name in ("products", "sums")]
    outputs.append(info("places", TensorProto.INT64, None))
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [None, 4, 6, 8])], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    feed = {"x": np.zeros((0, 4, 6, 8), np.float32)}
    got = dlprim.InferenceSession(model).run(None, feed)
    pooled = (0, 4, 5, 7)
    expected = [(0, 4, 24, 2), (0, 192), (0, 0, 192), pooled, pooled, (0, 4, 12, 12), pooled, (0, 4, 6, 6), (4, 4)]
    assert [y.shape for y in got] == [*expected, pooled]
    assert not got[-2].any()
