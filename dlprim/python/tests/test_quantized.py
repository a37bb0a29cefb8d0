# SPDX-License-Identifier: MIT
"""Graphs of bytes with scales, whose products, sums and functions CPUs compute on the bytes, against ONNX Runtime,
which runs them as they say it, in float32."""

from contextlib import nullcontext

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")
node = helper.make_node
SIGNED, UNSIGNED = np.int8, np.uint8


class Graph:
    """A graph being written. Steps of values are what the largest of them need, as a quantizer chooses them."""

    def __init__(self, seed=0):
        self.nodes, self.constants, self.random = [], {}, np.random.default_rng(seed)

    def constant(self, array):
        self.constants[name := f"c{len(self.constants)}"] = np.asarray(array)
        return name

    def add(self, op, *inputs, **attributes):
        self.nodes.append(node(op, list(inputs), [name := f"v{len(self.nodes)}"], **attributes))
        return name

    def quantized(self, value, scale, zero):
        """Bytes of a value, and what they stand for. `zero` has their type."""
        parameters = [self.constant(np.float32(scale)), self.constant(zero)]
        data = self.add("QuantizeLinear", value, *parameters)
        return data, self.add("DequantizeLinear", data, *parameters)

    def weights(self, shape, axis=0, each=True):
        """Random weights as int8 with a scale for each slice or for all."""
        data = self.random.integers(-127, 128, shape).astype(SIGNED)
        slices = shape[axis] if each else 1
        scale = self.random.uniform(0.5, 1.5, slices) / 127 / np.sqrt(data.size / shape[axis])
        scale = scale.astype(np.float32)
        zero = np.zeros(slices, SIGNED)
        inputs = [data, scale if each else scale[0], zero if each else zero[0]]
        return self.add("DequantizeLinear", *map(self.constant, inputs), axis=axis)

    def model(self, inputs, output, opset=17):
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * a.ndim) for n, a in inputs.items()]
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", infos, [result], constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        ).SerializeToString()


def check(data, feed, step, most=1.01, mean=0.02):
    """Results differ by a step at most, and rarely: where sums are rounded the other way."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = onnxruntime.InferenceSession(data, options).run(None, feed)[0]
    session = dlprim.InferenceSession(data)
    for _ in range(2):
        got = session.run(None, feed)[0]
        assert got.shape == wanted.shape and np.abs(wanted).max() > 8 * step
        difference = np.abs(got - wanted) / step
        assert difference.max() < most and difference.mean() < mean


def image(*shape):
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize("zero", [UNSIGNED(128), SIGNED(-5)])
@pytest.mark.parametrize(
    "x, w, attributes",
    [
        ((2, 24, 9, 11), (40, 24, 3, 3), {"pads": [1, 0, 1, 2]}),
        ((1, 3, 20, 21), (24, 3, 5, 5), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 96, 12, 7), (96, 1, 3, 3), {"group": 96, "pads": [1, 1, 1, 1], "strides": [2, 1]}),
        ((2, 16, 12, 7), (16, 1, 3, 3), {"group": 16, "dilations": [2, 1]}),
        ((2, 16, 12, 7), (32, 4, 3, 3), {"group": 4}),
        ((2, 20, 30), (17, 20, 4), {"strides": [3]}),
        ((1, 8, 5, 6, 7), (16, 8, 2, 3, 2), {}),
    ],
)
@pytest.mark.parametrize("biased", [False, True])
def test_convolutions(x, w, attributes, zero, biased):
    g = Graph()
    inputs = [g.quantized("x", 4 / 255, zero)[1], g.weights(w, each=biased)]
    if biased:
        inputs.append(g.constant(g.random.uniform(-1, 1, w[0]).astype(np.float32)))
    y = g.quantized(g.add("Conv", *inputs, **attributes), 0.05, zero)[1]
    check(g.model({"x": image(*x)}, y), {"x": image(*x)}, 0.05)


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
@pytest.mark.parametrize("zero", [0, 100])
def test_activations_at_the_end_of_the_range(activation, zero):
    """They change nothing where bytes end at 0, or at 6."""
    g = Graph()
    bounds = [g.constant(np.float32(0)), g.constant(np.float32(6))] if activation == "Clip" else []
    y = g.add("Conv", g.quantized("x", 4 / 255, UNSIGNED(128))[1], g.weights((32, 24, 3, 3)))
    step = 6 / 255
    y = g.quantized(g.add(activation, g.add("Mul", y, g.constant(np.float32(1))), *bounds), step, UNSIGNED(zero))[1]
    z = g.quantized(g.add(activation, g.add("Conv", y, g.weights((32, 32, 1, 1))), *bounds), step, UNSIGNED(zero))[1]
    check(g.model({"x": image(1, 24, 9, 9)}, z), {"x": image(1, 24, 9, 9)}, step, most=2.01)


def test_products_of_matrices():
    g = Graph()
    x = g.quantized("x", 4 / 255, UNSIGNED(130))[1]
    h = g.add("Add", g.add("MatMul", x, g.weights((36, 70), axis=1)), g.constant(image(70)))
    h = g.quantized(h, 0.06, SIGNED(3))[1]
    y = g.quantized(g.add("MatMul", h, g.weights((70, 33), axis=1, each=False)), 0.06, SIGNED(0))[1]
    check(g.model({"x": image(3, 11, 36)}, y), {"x": image(3, 11, 36)}, 0.06)


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_with_a_real_result(transposed):
    g = Graph()
    x = g.quantized("x", 4 / 255, UNSIGNED(130))[1]
    w = g.weights((50, 36) if transposed else (36, 50), axis=1 - transposed)
    y = g.add("Gemm", x, w, g.constant(image(50)), transB=transposed)
    check(g.model({"x": image(13, 36)}, y), {"x": image(13, 36)}, 1e-3, most=0.05, mean=0.01)


def test_an_inverted_residual_with_a_gate():
    """SiLU as Sigmoid and Mul, a gate of means, a sum with what came in, and a maximum."""
    g = Graph()

    def silu(value, step):
        x = g.quantized(value, step, UNSIGNED(128))[1]
        s = g.quantized(g.add("Sigmoid", x), 1 / 255, UNSIGNED(0))[1]
        return g.quantized(g.add("Mul", x, s), step, UNSIGNED(20))[1]

    x = g.quantized("x", 4 / 255, UNSIGNED(128))[1]
    h = silu(g.add("Conv", x, g.weights((72, 24, 1, 1))), 0.04)
    h = silu(g.add("Conv", h, g.weights((72, 1, 3, 3)), group=72, pads=[1, 1, 1, 1]), 0.04)
    mean = g.quantized(g.add("GlobalAveragePool", h), 0.005, UNSIGNED(128))[1]
    gate = g.quantized(g.add("Conv", mean, g.weights((72, 72, 1, 1))), 0.02, UNSIGNED(128))[1]
    gate = g.quantized(g.add("HardSigmoid", gate), 1 / 255, UNSIGNED(0))[1]
    h = g.quantized(g.add("Mul", gate, h), 0.03, UNSIGNED(20))[1]
    h = g.quantized(g.add("Conv", h, g.weights((24, 72, 1, 1))), 0.03, UNSIGNED(128))[1]
    h = g.quantized(g.add("Add", h, x), 0.04, UNSIGNED(128))
    y = g.add("MaxPool", h[1], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = g.add("Flatten", g.quantized(y, 0.04, UNSIGNED(128))[1])
    y = g.quantized(y, 0.04, UNSIGNED(128))[1]
    check(g.model({"x": image(2, 24, 10, 12)}, y), {"x": image(2, 24, 10, 12)}, 0.04, most=3.01, mean=0.1)


@pytest.mark.parametrize("zero", [UNSIGNED(100), SIGNED(-20)])
def test_joined_images(zero):
    """Of the result's scale and of others, and the largest of what is joined."""
    g = Graph()
    x = g.quantized("x", 4 / 255, zero)[1]
    parts = [
        g.quantized(g.add("Conv", x, g.weights((channels, 20, 1, 1))), step, zero)[1]
        for channels, step in [(24, 0.03), (16, 0.02), (33, 0.05)]
    ]
    y = g.quantized(g.add("Concat", *parts, axis=1), 0.03, zero)[1]
    y = g.quantized(g.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2]), 0.03, zero)[1]
    check(g.model({"x": image(2, 20, 9, 7)}, y), {"x": image(2, 20, 9, 7)}, 0.03, most=2.01, mean=0.05)


def test_functions_of_one_byte():
    g = Graph()
    x = g.quantized("x", 4 / 255, SIGNED(-10))[1]
    half, two = g.constant(np.float32(0.5)), g.constant(np.float32([[2]]))
    gelu = g.add("Mul", g.add("Mul", x, g.add("Add", g.add("Erf", g.add("Mul", x, half)), half)), two)
    y = g.quantized(gelu, 0.02, UNSIGNED(60))[1]
    z = g.quantized(g.add("Sub", g.add("Tanh", y), x), 0.02, SIGNED(0))[1]  # of two bytes that are functions of one
    check(g.model({"x": image(5, 333)}, z), {"x": image(5, 333)}, 0.02, mean=0.05)


@pytest.mark.parametrize(
    "zero, weights_zero", [(UNSIGNED(7), None), (UNSIGNED(7), UNSIGNED(131)), (SIGNED(-4), SIGNED(3))]
)
@pytest.mark.parametrize("constant", [False, True])
def test_products_of_integers(zero, weights_zero, constant):
    """Exact, of weights that are constants or are not."""
    type = SIGNED if weights_zero is None else weights_zero.dtype
    random = np.random.default_rng(3)
    low, high = np.iinfo(type).min, np.iinfo(type).max + 1
    w = random.integers(low, high, (45, 38)).astype(type)
    x = random.integers(np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max + 1, (2, 19, 45)).astype(zero.dtype)
    arrays = {"x": x, "w": w, "zero": np.asarray(zero)}
    if weights_zero is not None:
        arrays["w_zero"] = np.asarray(weights_zero)
    kept = {k: v for k, v in arrays.items() if k not in ("x", *(() if constant else ("w",)))}
    feed = {k: v for k, v in arrays.items() if k not in kept}
    types = {np.dtype(SIGNED): TensorProto.INT8, np.dtype(UNSIGNED): TensorProto.UINT8}
    infos = [helper.make_tensor_value_info(k, types[v.dtype], v.shape) for k, v in feed.items()]
    graph = helper.make_graph(
        [node("MatMulInteger", list(arrays), ["y"])],
        "net",
        infos,
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(v, k) for k, v in kept.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    less = 0 if weights_zero is None else int(weights_zero)
    wanted = (x.astype(np.int64) - int(zero)) @ (w.astype(np.int64) - less)
    session = dlprim.InferenceSession(model.SerializeToString())
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, feed)[0], wanted)


def test_a_quantizer_s_dynamic_product():
    """Bytes that are chosen when running, and what a quantizer writes around their product."""
    g = Graph()
    w = g.random.integers(-127, 128, (64, 48)).astype(SIGNED)
    g.nodes.append(node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]))
    sums = g.add("MatMulInteger", "q", g.constant(w), "z", g.constant(SIGNED(0)))
    scales = g.add("Mul", "s", g.constant(g.random.uniform(0.001, 0.003, 48).astype(np.float32)))
    y = g.add("Add", g.constant(image(48)), g.add("Mul", g.add("Cast", sums, to=TensorProto.FLOAT), scales))
    check(g.model({"x": image(5, 7, 64)}, y), {"x": image(5, 7, 64)}, 1e-3, most=0.05, mean=0.01)


@pytest.mark.parametrize("shape", [(3, 1), (1, 1, 3), (1, 3)])
def test_addends_that_are_no_rows(shape):
    g = Graph()
    x = g.quantized("x", 4 / 255, UNSIGNED(130))[1]
    y = g.add("Add", g.add("MatMul", x, g.weights((20, 3), axis=1)), g.constant(image(*shape)))
    y = g.quantized(y, 0.06, SIGNED(0))[1]
    check(g.model({"x": image(3, 20)}, y), {"x": image(3, 20)}, 0.06)


def test_functions_that_add_dimensions():
    g = Graph()
    y = g.add("Mul", g.quantized("x", 4 / 255, UNSIGNED(130))[1], g.constant(np.float32([[[[1.5]]]])))
    check(g.model({"x": image(4, 5)}, g.quantized(y, 0.03, SIGNED(0))[1]), {"x": image(4, 5)}, 0.03)


def test_parameters_from_nodes():
    """Scales, weights and zero points that Constant nodes give."""
    g = Graph()
    y = g.add("Conv", g.quantized("x", 4 / 255, UNSIGNED(130))[1], g.weights((24, 16, 3, 3)))
    y = g.quantized(y, 0.03, SIGNED(0))[1]
    literals = [
        node("Constant", [], [name], value=numpy_helper.from_array(array)) for name, array in g.constants.items()
    ]
    g.nodes[:0], g.constants = literals, {}
    check(g.model({"x": image(1, 16, 9, 9)}, y), {"x": image(1, 16, 9, 9)}, 0.03)


@pytest.mark.parametrize("wrong", ["Relu", "Add", "Conv", "MatMul", "GlobalAveragePool", "Identity"])
@pytest.mark.parametrize("inputs", [0, 1])
def test_missing_inputs_are_errors(wrong, inputs):
    g = Graph()
    given = [g.quantized("x", 4 / 255, UNSIGNED(130))[1]][:inputs]
    y = g.quantized(g.add(wrong, *given), 0.03, UNSIGNED(0))[1]
    refused = inputs == 0 or wrong in ("Add", "Conv", "MatMul")
    with pytest.raises((dlprim.Error, dlprim.ValidationError)) if refused else nullcontext():
        dlprim.InferenceSession(g.model({"x": image(1, 4, 3, 3)}, y)).run(None, {"x": image(1, 4, 3, 3)})


def test_long_chains_end():
    g = Graph()
    y = g.quantized("x", 4 / 255, UNSIGNED(130))[1]
    for _ in range(20000):
        y = g.add("Neg", y)
    y = g.quantized(y, 0.03, UNSIGNED(100))[1]
    dlprim.InferenceSession(g.model({"x": image(2, 3)}, y)).run(None, {"x": image(2, 3)})


@pytest.mark.parametrize("domain", ["dlprim.quantized", "dlprim.training"])
def test_forms_of_the_library_are_not_for_files(domain):
    table = [numpy_helper.from_array(np.zeros(256, UNSIGNED), "t")]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("Table" if "quantized" in domain else "BatchNormalization", ["x", "t"], ["y"], domain=domain)],
        "net",
        [info("x", TensorProto.UINT8, [4])],
        [info("y", TensorProto.UINT8, None)],
        table,
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    with pytest.raises(dlprim.NotSupportedError, match="no such operator"):
        dlprim.InferenceSession(helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString())
