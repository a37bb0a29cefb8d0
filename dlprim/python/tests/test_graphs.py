# SPDX-License-Identifier: MIT
"""Graphs as other frameworks write them, values given when running, external data and control flow, against ONNX
Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")
node = helper.make_node
TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(bool): TensorProto.BOOL,
}


def numbers(*shape, seed=0, low=-1, high=1):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype(np.float32)


def integers(*values):
    return np.array(values, np.int64)


def value_info(name, array):
    """With open sizes, but for those of Resize, which ONNX Runtime wants to know."""
    shape = array.shape if name == "sizes" else [None] * array.ndim
    return helper.make_tensor_value_info(name, TYPES[array.dtype], shape)


def make_model(nodes, feeds, outputs, weights=None, opset=17, listed=False):
    """`listed`: weights are inputs of the graph, too, as files before IR version 4 have them."""
    weights = weights or {}
    inputs = [value_info(name, array) for name, array in {**feeds, **(weights if listed else {})}.items()]
    graph = helper.make_graph(
        nodes,
        "net",
        inputs,
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    for output in graph.output:  # the runtime finds shapes by itself
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3 if listed else 8)


def compare(model, *feeds):
    """Both give the same for each of the inputs, one session run after run."""
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    expected, session = onnxruntime.InferenceSession(data, options), dlprim.InferenceSession(data)
    for feed in feeds:
        for wanted, got in zip(expected.run(None, feed), session.run(None, feed), strict=True):
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * max(1e-6, np.abs(wanted).max(initial=0)))


# TensorFlow: channels last outside, SAME padding, relu6, explicit padding, shapes computed in the graph.


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(
    "kernel, stride, size", [(3, 1, 7), (3, 2, 8), (3, 2, 7), (2, 2, 7), (5, 3, 11), (1, 2, 6), (4, 1, 9)]
)
def test_same_padding(auto_pad, kernel, stride, size):
    window = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "auto_pad": auto_pad}
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": auto_pad}
    weights = {"w": numbers(4, 3, kernel, kernel), "d": numbers(4, 1, kernel, kernel), "b": numbers(4)}
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Conv", ["t", "w", "b"], ["c"], **window),
        node("MaxPool", ["c"], ["m"], **pool),
        node("AveragePool", ["c"], ["a"], **pool),
        node("AveragePool", ["c"], ["p"], count_include_pad=1, **pool),
        node("Conv", ["c", "d"], ["g"], group=4, auto_pad="SAME_UPPER", kernel_shape=[kernel, kernel]),
        *[node("Transpose", [name], [name + "_last"], perm=[0, 2, 3, 1]) for name in "cmapg"],
    ]
    outputs = [name + "_last" for name in "cmapg"]
    if size - kernel < 3 * stride and auto_pad == "VALID":  # nothing would be left for the pools
        nodes = [n for n in nodes if not set(n.output) & set("map") and n.input[0] not in set("map")]
        outputs = ["c_last", "g_last"]
    feeds = [{"x": numbers(n, size, size + 2, 3)} for n in (1, 3)]
    compare(make_model(nodes, feeds[0], outputs, weights), *feeds)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel, stride", [(3, 2), (2, 2), (4, 2), (3, 1)])
def test_transposed_convolution_with_same_padding(auto_pad, kernel, stride):
    x = numbers(2, 3, 5, 6)
    layer = node(
        "ConvTranspose",
        ["x", "w"],
        ["y"],
        kernel_shape=[kernel] * 2,
        strides=[stride] * 2,
        auto_pad=auto_pad,
        **({"output_shape": [5 * stride, 6 * stride]} if kernel != stride else {}),
    )
    compare(make_model([layer], {"x": x}, ["y"], {"w": numbers(3, 4, kernel, kernel)}), {"x": x})


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_tensorflow_block(opset):
    """A separable block: Pad of channels last, BatchNormalization as Mul and Add, relu6, mean, Reshape by Shape."""
    weights = {
        "pads": integers(0, 1, 1, 0, 0, 1, 1, 0),
        "w": numbers(6, 3, 3, 3),
        "d": numbers(6, 1, 3, 3),
        "p": numbers(8, 6, 1, 1),
        "scale": numbers(6, 1, 1, low=0.5),
        "offset": numbers(6, 1, 1),
        "zero": np.float32(0),
        "six": np.float32(6),
        "start": integers(0),
        "end": integers(1),
        "rest": integers(-1),
        "v": numbers(8, 5),
        "axes": integers(1, 2),
    }
    mean = (
        node("ReduceMean", ["last", "axes"], ["mean"], keepdims=0)
        if opset >= 18
        else node("ReduceMean", ["last"], ["mean"], axes=[1, 2], keepdims=0)
    )
    nodes = [
        node("Pad", ["x", "pads"], ["padded"]),
        node("Transpose", ["padded"], ["t"], perm=[0, 3, 1, 2]),
        node("Conv", ["t", "w"], ["c"], strides=[2, 2]),
        node("Mul", ["c", "scale"], ["s"]),
        node("Add", ["s", "offset"], ["n"]),
        node("Clip", ["n", "zero", "six"], ["r"]),
        node("Conv", ["r", "d"], ["dw"], group=6, auto_pad="SAME_UPPER"),
        node("Conv", ["dw", "p"], ["pw"]),
        node("Transpose", ["pw"], ["last"], perm=[0, 2, 3, 1]),
        mean,
        node("Shape", ["mean"], ["sizes"]),
        node("Slice", ["sizes", "start", "end"], ["batch"]),
        node("Concat", ["batch", "rest"], ["shape"], axis=0),
        node("Reshape", ["mean", "shape"], ["flat"]),
        node("MatMul", ["flat", "v"], ["scores"]),
        node("Softmax", ["scores"], ["y"], axis=1),
    ]
    feeds = [{"x": numbers(n, 15, 12, 3)} for n in (2, 1)]
    compare(make_model(nodes, feeds[0], ["y"], {k: np.asarray(v) for k, v in weights.items()}, opset), *feeds)


# MXNet: old operator sets, attributes instead of inputs, weights among the inputs, normalization left as it is.


@pytest.mark.parametrize("opset, listed", [(7, True), (8, True), (9, True), (9, False)])
def test_mxnet_block(opset, listed):
    channels = {
        "gamma": np.ones(4, np.float32),
        "beta": numbers(4),
        "mean": numbers(4, seed=1),
        "var": numbers(4, low=0.5),
    }
    weights = {
        "w": numbers(4, 3, 3, 3),
        "b": numbers(4),
        "w2": numbers(4, 4, 3, 3),
        "slope": numbers(4, 1, 1),
        "fc": numbers(6, 36),
        "fc_b": numbers(6),
        **channels,
    }
    old = {"spatial": 1} if opset < 9 else {}
    norm = ["gamma", "beta", "mean", "var"]
    upsample = node("Upsample", ["q"], ["u"], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
    if opset >= 9:
        weights["scales"] = np.array([1, 1, 2, 2], np.float32)
        upsample = node("Upsample", ["q", "scales"], ["u"], mode="nearest")
    nodes = [
        node("Pad", ["x"], ["padded"], mode="constant", pads=[0, 0, 2, 1, 0, 0, 1, 0], value=0.5),
        node("Conv", ["padded", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[0, 1, 1, 0], strides=[2, 2]),
        node("BatchNormalization", ["c", *norm], ["n"], epsilon=1e-3, momentum=0.9, **old),
        node("PRelu", ["n", "slope"], ["r"]),
        node("Dropout", ["r"], ["kept"], ratio=0.4),
        node("Conv", ["kept", "w2"], ["c2"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c2", *norm], ["n2"], epsilon=1e-5, **old),
        node("Add", ["n2", "r"], ["sum"]),
        node("MaxPool", ["sum"], ["q"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 1, 1, 0]),
        upsample,
        node("AveragePool", ["u"], ["v"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1),
        node("LRN", ["v"], ["l"], size=3, alpha=0.01),
        node("Flatten", ["l"], ["f"]),
        node("Gemm", ["f", "fc", "fc_b"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"], axis=1),
    ]
    feeds = [{"x": numbers(n, 3, 9, 12)} for n in (1, 2)]
    model = make_model(nodes, feeds[0], ["y", "u"], weights, opset, listed)
    compare(model, *feeds)
    assert [info.name for info in dlprim.InferenceSession(model.SerializeToString()).get_inputs()] == ["x"]


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_old_attributes(opset):
    """What later operator sets made inputs of."""
    nodes = [
        node("Slice", ["x"], ["s"], axes=[1, 2], starts=[1, -3], ends=[3, 100]),
        node("Unsqueeze", ["s"], ["u"], axes=[0, 3]),
        node("Squeeze", ["u"], ["q"], axes=[0, 3]),
        node("Clip", ["q"], ["c"], min=-0.4, max=0.6),
        node("Clip", ["q"], ["low"], min=0.0),
        node("Pad", ["q"], ["p"], mode="reflect", pads=[0, 1, 1, 0, 0, 1]),
        node("Pad", ["q"], ["e"], mode="edge", pads=[0, 0, 1, 0, 0, 2]),
        node("Split", ["x"], ["a", "b"], axis=1, split=[1, 3]),
        node("ReduceSum", ["x"], ["r"], axes=[0, 2], keepdims=0),
        node("TopK", ["x"], ["t", "at"], k=2, axis=1),
        node("Softmax", ["x"], ["m"]),
        node("Dropout", ["x"], ["d", "mask"], ratio=0.3),
        node("Tile", ["x", "twice"], ["i"]),
        node("Cast", ["x"], ["k"], to=TensorProto.FLOAT),
    ]
    outputs = ["c", "low", "p", "e", "a", "b", "r", "t", "m", "d", "i", "k"]
    x = numbers(2, 4, 5)
    compare(make_model(nodes, {"x": x}, outputs, {"twice": integers(1, 2, 1)}, opset), {"x": x})


# Values that are no constants.

RUNNING = {  # operator, attributes, and two sets of inputs that differ in everything after the first
    "Reshape": ({}, [integers(3, -1), integers(2, 2, -1)]),
    "Expand": ({}, [integers(2, 1, 1), integers(3, 1, 4, 6)]),
    "Tile": ({}, [integers(1, 2), integers(3, 1)]),
    "Squeeze": ({}, [integers(0), integers(1)]),
    "Unsqueeze": ({}, [integers(0), integers(1, 3)]),
    "ReduceSum": ({"keepdims": 0}, [integers(0), integers(1, 0)]),
    "ReduceMax": ({}, [integers(1), integers(0)]),
    "CumSum": ({}, [np.array(0, np.int64), np.array(1, np.int64)]),
    "Slice": (
        {},
        [
            (integers(0), integers(3), integers(1), integers(2)),
            (integers(-1, 0), integers(-9, 5), integers(0, 1), integers(-1, 3)),
        ],
    ),
    "Pad": ({"mode": "edge"}, [integers(0, 1, 2, 0), integers(1, 0, 0, 3)]),
    "TopK": ({"axis": 1}, [integers(2), integers(3)]),
    "Split": ({"axis": 1}, [integers(1, 5), integers(4, 2)]),
    "Clip": ({}, [(np.float32(-0.2), np.float32(0.5)), (np.float32(0), np.float32(0.1))]),
    "Resize": ({"mode": "linear"}, [(None, None, integers(8, 9)), (None, None, integers(3, 12))]),
    "Gather": ({"axis": 1}, [integers(0, -1), integers(1, 1, 2)]),
    "MatMul": ({}, [numbers(6, 3), numbers(6, 5)]),
    "Gemm": ({"transB": 1}, [(numbers(3, 6), numbers(3)), (numbers(2, 6), numbers(2))]),
    "Trilu": ({}, [np.array(0, np.int64), np.array(-1, np.int64)]),
}


@pytest.mark.parametrize("kind", RUNNING)
def test_values_at_run_time(kind):
    attributes, sets = RUNNING[kind]
    x = {"Squeeze": numbers(1, 1, 5)}.get(kind, numbers(4, 6))
    sets = [values if isinstance(values, tuple) else (values,) for values in sets]
    names = ["" if v is None else "sizes" if kind == "Resize" else f"i{k}" for k, v in enumerate(sets[0])]
    feeds = [{"x": x, **{name: np.asarray(v) for name, v in zip(names, values) if name}} for values in sets]
    results = {"TopK": ["y", "places"], "Split": ["y", "z"]}.get(kind, ["y"])
    nodes = [node(kind, ["x", *names], results, **attributes)]
    compare(make_model(nodes, feeds[0], results if kind == "Split" else ["y"], opset=18), *feeds, feeds[0])


def test_layers_with_weights_at_run_time():
    def feed(seed):
        return {
            "x": numbers(2, 3, 6, 6, seed=seed),
            "w": numbers(4, 3, 3, 3, seed=seed),
            "b": numbers(4, seed=seed),
            "scale": numbers(4, seed=seed + 1),
            "mean": numbers(4, seed=seed + 2),
            "var": numbers(4, seed=seed, low=0.5),
            "up": numbers(4, 2, 2, 2, seed=seed),
            "slope": numbers(2, 1, 1, seed=seed),
        }

    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 0, 0, 1]),
        node("BatchNormalization", ["c", "scale", "b", "mean", "var"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("ConvTranspose", ["r", "up"], ["t"], strides=[2, 2]),
        node("PRelu", ["t", "slope"], ["y"]),
    ]
    compare(make_model(nodes, feed(0), ["y", "n"]), feed(0), feed(5))


# Weights beside the model.


@pytest.mark.parametrize("single", [True, False])
def test_external_data(tmp_path, single):
    x, weights = numbers(3, 5), {"w": numbers(5, 7), "v": numbers(7, 2)}
    constant = node("Constant", [], ["c"], value=numpy_helper.from_array(numbers(2)))
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["a", "v"], ["b"]),
        constant,
        node("Add", ["b", "c"], ["y"]),
    ]
    model = make_model(nodes, {"x": x}, ["y"], weights)
    inside = dlprim.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    onnx.save(
        model,
        tmp_path / "net.onnx",
        save_as_external_data=True,
        all_tensors_to_one_file=single,
        size_threshold=0,
        convert_attribute=True,
        **({"location": "weights.bin"} if single else {}),
    )
    stored = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    assert not any(tensor.raw_data for tensor in stored.graph.initializer)
    assert np.array_equal(inside, dlprim.InferenceSession(tmp_path / "net.onnx").run(None, {"x": x})[0])


# Control flow.


def graph_of(nodes, inputs, outputs):
    def info(name):
        return helper.make_tensor_value_info(
            name,
            {"i": TensorProto.INT64, "go": TensorProto.BOOL, "on": TensorProto.BOOL}.get(name, TensorProto.FLOAT),
            None if name not in ("i", "go", "on") else [],
        )

    return helper.make_graph(nodes, "inner", [info(name) for name in inputs], [info(name) for name in outputs])


@pytest.mark.parametrize("constant", [True, False])
def test_if(constant):
    """Branches of different shapes that read values around them; another condition in the next run where it is an
    input."""
    yes = graph_of([node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"])], [], ["r"])
    inner = node(
        "If",
        ["second"],
        ["b"],
        then_branch=graph_of([node("Neg", ["x"], ["m"])], [], ["m"]),
        else_branch=graph_of([node("Abs", ["x"], ["m"])], [], ["m"]),
    )
    nodes = [
        node("Not", ["condition"], ["second"]),
        node("If", ["condition"], ["y"], then_branch=yes, else_branch=graph_of([inner], [], ["b"])),
    ]
    for first in (True, False):
        weights, x = {"w": numbers(4, 6)}, {"x": numbers(3, 4)}
        flags = [{"condition": np.array(flag)} for flag in (first, not first)]
        model = make_model(
            nodes, x if constant else {**x, **flags[0]}, ["y"], {**weights, **flags[0]} if constant else weights
        )
        compare(model, *([x] if constant else [{**x, **flag} for flag in flags]))


@pytest.mark.parametrize(
    "count, limit", [("constant", True), ("constant", False), ("input", True), ("input", False), ("none", True)]
)
def test_loop(count, limit):
    """state = tanh(state w + trip), collected, so many times or (limit) until its sum is large enough."""
    body = graph_of(
        [
            node("MatMul", ["state", "w"], ["p"]),
            node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            node("Add", ["p", "f"], ["s"]),
            node("Tanh", ["s"], ["next"]),
            node("ReduceSum", ["next"], ["sum"], keepdims=0),
            node("Less", ["sum", "enough"], ["on"]),
            node("Identity", ["next"], ["kept"]),
        ],
        ["i", "go", "state"],
        ["on", "next", "kept"],
    )
    if not limit:
        body.node[-2].CopyFrom(node("Identity", ["go"], ["on"]))
    weights = {"w": numbers(3, 3), "enough": np.array(4, np.float32), "true": np.array(True)}
    trips = {"trips": np.array(5, np.int64)}
    nodes = [node("Loop", ["" if count == "none" else "trips", "true", "x"], ["last", "all"], body=body)]
    x = {"x": numbers(2, 3)}
    model = make_model(
        nodes,
        {**x, **(trips if count == "input" else {})},
        ["last", "all"],
        {**weights, **(trips if count == "constant" else {})},
    )
    compare(model, *([x] if count != "input" else [{**x, "trips": np.array(n, np.int64)} for n in (5, 2)]))


@pytest.mark.parametrize("reverse", [0, 1])
def test_scan(reverse):
    body = graph_of(
        [node("Add", ["state", "element"], ["s"]), node("Mul", ["s", "w"], ["next"]), node("Exp", ["next"], ["out"])],
        ["state", "element"],
        ["next", "out"],
    )
    nodes = [
        node(
            "Scan",
            ["start", "x"],
            ["last", "all"],
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_input_directions=[reverse],
            scan_output_axes=[1],
            scan_output_directions=[1 - reverse],
        )
    ]
    feeds = [{"start": numbers(3, seed=n), "x": numbers(3, n)} for n in (4, 6)]
    compare(make_model(nodes, feeds[0], ["last", "all"], {"w": numbers(3)}), *feeds)


def test_quantized_images_between_depthwise_convolutions():
    """Steps of scales between the convolutions of an inverted residual, whose images lie channels last on CPUs."""
    steps = {"a": 0.02, "b": 0.03, "c": 0.05, "d": 0.05}
    weights = {name: np.float32(step) for name, step in steps.items()} | {"zero": np.uint8(120)}
    weights |= {"w1": numbers(32, 16, 1, 1), "w2": numbers(32, 1, 3, 3), "w3": numbers(16, 32, 1, 1)}
    weights |= {"low": np.float32(0)}
    nodes = []

    def quantize(value, scale):
        nodes.append(node("QuantizeLinear", [value, scale, "zero"], [f"{value}_q"]))
        nodes.append(node("DequantizeLinear", [f"{value}_q", scale, "zero"], [f"{value}_s"]))
        return f"{value}_s"

    nodes.append(node("Conv", [quantize("x", "a"), "w1"], ["wide"]))
    nodes.append(node("Clip", ["wide", "low"], ["clipped"]))
    nodes.append(node("Conv", [quantize("clipped", "b"), "w2"], ["deep"], group=32, pads=[1, 1, 1, 1], strides=[2, 2]))
    nodes.append(node("Conv", [quantize("deep", "c"), "w3"], ["narrow"]))
    nodes.append(node("Relu", [quantize("narrow", "d")], ["y"]))
    feed = {"x": numbers(2, 16, 13, 10, low=-2, high=2)}
    data = make_model(nodes, feed, ["y"], weights).SerializeToString()
    options = onnxruntime.SessionOptions()  # as the graph says it, in float32
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = onnxruntime.InferenceSession(data, options).run(None, feed)[0]
    difference = np.abs(dlprim.InferenceSession(data).run(None, feed)[0] - wanted) / steps["d"]
    assert difference.max() < 2.1 and difference.mean() < 0.01  # where sums round to different steps
