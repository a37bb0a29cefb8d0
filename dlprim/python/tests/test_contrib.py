# SPDX-License-Identifier: MIT
"""Operators of ONNX Runtime's domain com.microsoft, which its optimizers and quantizers write, against ONNX Runtime."""

import contextlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")
F32, F16, I32, I64, U8, S8 = np.float32, np.float16, np.int32, np.int64, np.uint8, np.int8
random = np.random.default_rng(0)


def numbers(*shape, dtype=F32):
    return random.uniform(-1, 1, shape).astype(dtype)


def whole(*shape, low=0, high=255, dtype=U8):
    return random.integers(low, high, shape).astype(dtype)


def one(value, dtype=F32):
    return np.array(value, dtype)


def model_of(op, inputs, outputs=1, weights=(), domain="com.microsoft", **attributes):
    """A network of one node. Inputs that are None are left out; those whose places are in `weights` are constants.
    Outputs are float32 until told otherwise."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)
        for i, (name, value) in enumerate(zip(names, inputs, strict=True))
        if value is not None and i not in weights
    ]
    constants = [numpy_helper.from_array(inputs[i], names[i]) for i in weights]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, domain=domain, **attributes)],
        "net",
        infos,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results if name],
        constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def typed(model):
    """Both as bytes and a session of the runtime, which finds the types of outputs."""
    for output in model.graph.output:
        output.ClearField("type")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for output, found in zip(model.graph.output, session.get_outputs(), strict=True):
        name = {"float": "float32"}.get(found.type[7:-1], found.type[7:-1])
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(name))
    return model.SerializeToString(), session


def feed_of(inputs, weights):
    return {f"x{i}": value for i, value in enumerate(inputs) if value is not None and i not in weights}


def check(op, inputs, outputs=1, weights=(), tolerance=1e-5, **attributes):
    data, session = typed(model_of(op, inputs, outputs, weights, **attributes))
    feed = feed_of(inputs, weights)
    expected = session.run(None, feed)
    for wanted, got in zip(expected, dlprim.InferenceSession(data).run(None, feed), strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        if wanted.dtype in (U8, S8):  # a step where rounding differs
            assert np.abs(got.astype(int) - wanted.astype(int)).max(initial=0) <= 1
        else:
            largest = max(1, np.abs(wanted).max(initial=0))
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * largest)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_mat_mul(transposed):
    a, b = ((4, 3) if transposed[0] else (3, 4)), ((5, 4) if transposed[1] else (4, 5))
    attributes = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.125}
    check("FusedMatMul", [numbers(2, *a), numbers(2, *b)], **attributes)
    check("FusedMatMul", [numbers(2, *a), numbers(*b)], weights=[1], **attributes)


def test_fused_mat_mul_with_batches_behind():
    check("FusedMatMul", [numbers(3, 2, 6, 4), numbers(2, 6, 4, 5)], transBatchA=1)
    check("FusedMatMul", [numbers(2, 6, 3, 4), numbers(4, 2, 6, 5)], transBatchB=1)


@pytest.mark.parametrize(
    "activation, numbers_",
    [
        ("Relu", None),
        ("Tanh", None),
        ("Sigmoid", None),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.1, 0.3]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)
@pytest.mark.parametrize("summed", [False, True])
def test_fused_conv(activation, numbers_, summed):
    inputs = [numbers(2, 3, 7, 6), numbers(4, 3, 3, 3), numbers(4)] + ([numbers(2, 4, 7, 6)] if summed else [])
    params = {"activation_params": numbers_} if numbers_ else {}
    check("FusedConv", inputs, weights=[1, 2], activation=activation, pads=[1, 1, 1, 1], kernel_shape=[3, 3], **params)


def test_fused_gemm():
    inputs = [numbers(3, 4), numbers(5, 4), numbers(5)]
    check("FusedGemm", inputs, weights=[1], transB=1, activation="Relu", alpha=0.5)
    check("FusedGemm", inputs, transB=1, activation="LeakyRelu", activation_alpha=0.3)


def test_activations():
    x, bias = numbers(2, 3, 8) * 4, numbers(8)
    check("Gelu", [x])
    check("BiasGelu", [x, bias])
    check("FastGelu", [x])
    check("FastGelu", [x, bias])
    check("QuickGelu", [x])
    check("QuickGelu", [x], alpha=1.0)


def test_skip_norms():
    x, skip, gamma, beta, bias = numbers(2, 3, 8), numbers(2, 3, 8), numbers(8), numbers(8), numbers(8)
    for inputs in ([x, skip, gamma], [x, skip, gamma, beta], [x, skip, gamma, beta, bias], [x, skip[:1], gamma, beta]):
        check("SkipLayerNormalization", inputs, ["y", "", "", "sum"], epsilon=1e-5)
    for inputs in ([x, skip, gamma], [x, skip, gamma, bias]):
        check("SkipSimplifiedLayerNormalization", inputs, ["y", "", "", "sum"], epsilon=1e-6)
    check("SkipLayerNormalization", [v.astype(F16) for v in (x, skip, gamma, beta)], tolerance=5e-3)
    check("SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1, epsilon=1e-5)


@pytest.mark.parametrize("segments", [False, True])
def test_embed_norm(segments):
    ids, mask = whole(2, 5, high=20, dtype=I32), one([[1, 1, 1, 0, 0], [1] * 5], I32)
    weights = [2, 3, 4, 5, 6] if segments else [2, 3, 5, 6]
    segment = [whole(2, 5, high=2, dtype=I32), numbers(2, 8)] if segments else [None, None]
    inputs = [ids, segment[0], numbers(20, 8), numbers(9, 8), segment[1], numbers(8), numbers(8), mask]
    check("EmbedLayerNormalization", inputs, 3, weights, epsilon=1e-6)
    positions = one([[4, 3, 2, 1, 0]] * 2, I32)
    check("EmbedLayerNormalization", [*inputs[:7], None, positions], 2, weights, epsilon=1e-6)


MASKS = {
    "none": None,
    "keys": one([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], I32),
    "ends": one([4, 2], I32),
    "ends and starts": one([4, 5, 1, 0], I32),
    "queries and keys": np.tril(np.ones((2, 5, 5), I32)),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(mask, causal):
    inputs = [numbers(2, 5, 8), numbers(8, 24), numbers(24), MASKS[mask]]
    check("Attention", inputs, weights=[1, 2], num_heads=2, unidirectional=causal)


def test_attention_with_past_and_other_sizes():
    x, weights, bias = numbers(2, 3, 8), numbers(8, 24), numbers(24)
    check("Attention", [x, weights, bias, None, numbers(2, 2, 2, 4, 4)], 2, num_heads=2, unidirectional=1)
    check("Attention", [x, weights, bias, None, None, numbers(2, 2, 3, 3)], num_heads=2, scale=0.3)
    check("Attention", [x, numbers(8, 28), numbers(28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])


def test_multi_head_attention():
    q, k, v, bias = numbers(2, 3, 8), numbers(2, 5, 8), numbers(2, 5, 12), numbers(28)
    check("MultiHeadAttention", [q, k, v], num_heads=2)
    check("MultiHeadAttention", [q, k, v, bias], num_heads=2, scale=0.4)
    check("MultiHeadAttention", [q, k, v, None, MASKS["keys"]], num_heads=2, mask_filter_value=-1e4)
    check("MultiHeadAttention", [q, k, v, None, None, numbers(1, 2, 3, 5)], num_heads=2)
    check("MultiHeadAttention", [q, q, q, None, None, None, numbers(2, 2, 4, 4), numbers(2, 2, 4, 4)], 3, num_heads=2)
    check("MultiHeadAttention", [q, numbers(2, 2, 5, 4), numbers(2, 2, 5, 4)], num_heads=2)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("window", [-1, 2])
def test_group_query_attention(packed, rotary, window):
    size, heads, kv_heads = 16, 4, 2
    tables = [numbers(16, size // 2), numbers(16, size // 2)] if rotary else [None, None]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": rotary, "local_window_size": window}
    for length, past, ends in ((4, 0, [3, 3]), (1, 5, [5, 5]), (1, 5, [5, 3]), (3, 4, [6])):
        batch = len(ends)
        q, k, v = numbers(batch, length, heads * size), *(numbers(batch, length, kv_heads * size) for _ in range(2))
        inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
        inputs += [numbers(batch, kv_heads, past, size) for _ in range(2)]
        inputs += [one(ends, I32), one(max(ends) + 1, I32), *tables]
        check("GroupQueryAttention", inputs, 3, **attributes)


@pytest.mark.parametrize("window", [-1, 2])
def test_scores_of_nothing(window):
    """Each head's softmax has one more number in its denominator: e to a score of its own, or to 0."""
    attributes = {"num_heads": 4, "kv_num_heads": 2, "local_window_size": window}
    for length, past, ends in ((4, 0, [3, 3]), (1, 5, [5, 5]), (3, 4, [6])):
        batch = len(ends)
        inputs = [numbers(batch, length, 64), *(numbers(batch, length, 32) for _ in range(2))]
        inputs += [numbers(batch, 2, past, 16) for _ in range(2)] + [one(ends, I32), one(max(ends) + 1, I32)]
        check("GroupQueryAttention", inputs, 3, smooth_softmax=1, **attributes)
        check("GroupQueryAttention", [*inputs, *[None] * 4, 3 * numbers(4)], 3, **attributes)


def test_rotary_embedding():
    tables = [numbers(9, 4), numbers(9, 4)]
    for interleaved in (0, 1):
        check("RotaryEmbedding", [numbers(2, 3, 16), one([4], I64), *tables], interleaved=interleaved)
        check(
            "RotaryEmbedding", [numbers(2, 2, 3, 8), one([[0, 1, 2], [5, 3, 1]], I64), *tables], interleaved=interleaved
        )


def norm_of_groups(x, gamma, beta, groups, swish):
    n, h, w, c = x.shape
    parts = x.reshape(n, h * w, groups, c // groups).astype(np.float64)
    mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * gamma + beta
    return y / (1 + np.exp(-y)) if swish else y


@pytest.mark.parametrize("swish", [0, 1])
def test_what_the_runtime_has_on_gpus_alone(swish):
    x, gamma, beta, skip, bias = numbers(2, 3, 5, 8), numbers(8), numbers(8), numbers(2, 3, 5, 8), numbers(8)

    def run(op, inputs, outputs=1, **attributes):
        return dlprim.InferenceSession(model_of(op, inputs, outputs, **attributes).SerializeToString()).run(
            None, feed_of(inputs, ())
        )

    (y,) = run("GroupNorm", [x, gamma, beta], groups=4, activation=swish)
    np.testing.assert_allclose(y, norm_of_groups(x, gamma, beta, 4, swish), atol=1e-5)
    y, total = run("SkipGroupNorm", [x, gamma, beta, skip, bias], 2, groups=4, activation=swish)
    np.testing.assert_allclose(total, x + skip + bias, atol=1e-6)
    np.testing.assert_allclose(y, norm_of_groups(x + skip + bias, gamma, beta, 4, swish), atol=1e-5)
    (y,) = run("BiasAdd", [x, bias, skip])
    np.testing.assert_allclose(y, x + skip + bias, atol=1e-6)
    (y,) = run("BiasSplitGelu", [x, bias])
    (gelu,) = run("Gelu", [(x + bias)[..., 4:].copy()])
    np.testing.assert_allclose(y, (x + bias)[..., :4] * gelu, atol=1e-5)
    weights = numbers(6, 8, 3, 3)
    (y,) = run("NhwcConv", [x, weights, numbers(6)], pads=[1, 1, 1, 1])
    assert y.shape == (2, 3, 5, 6)
    wanted = sum(
        np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))[:, i : i + 3, j : j + 5] @ weights[:, :, i, j].T
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_allclose(y - y[:1, :1, :1], wanted - wanted[:1, :1, :1], atol=1e-4)


@pytest.mark.parametrize("dtype, zero", [(U8, 128), (S8, -3)])
def test_integers_with_scales(dtype, zero):
    low, high = (0, 255) if dtype == U8 else (-128, 127)
    x, y = (whole(2, 4, 6, 6, low=low, high=high, dtype=dtype) for _ in range(2))
    a, b, c = [one(0.02), one(zero, dtype)], [one(0.03), one(5, dtype)], [one(0.05), one(7, dtype)]
    check("QLinearAdd", [x, *a, y, *b, *c])
    check("QLinearMul", [x, *a, y[:, :, :1], *b, *c])
    check("QLinearSigmoid", [x, *a, one(1 / 256), one(0, dtype)])
    check("QLinearLeakyRelu", [x, *a, *c], alpha=0.2)
    check("QLinearGlobalAveragePool", [x, *a, *b], channels_last=0)
    check("QLinearAveragePool", [x, *a, *b], kernel_shape=[3, 2], strides=[2, 1], channels_last=0)
    check("QLinearConcat", [*c, x, *a, y, *b], axis=1)
    check("QLinearSoftmax", [x[:, 0, 0], *a, one(1 / 256), one(0, dtype)], axis=-1, opset=13)
    check("QLinearWhere", [x > 3, x, *a, y, *b, *c])
    check("QuantizeLinear", [numbers(3, 4), *a])
    check("DequantizeLinear", [x, *a])


def test_products_of_integers():
    a, b, c = whole(3, 4), whole(4, 5), whole(5, low=-99, high=99, dtype=I32)
    scales = [one(0.02), one(120, U8)], [one(0.03), one(130, U8)]
    check("QGemm", [a, *scales[0], b, *scales[1], c, one(0.05), one(100, U8)])
    check("QGemm", [a, *scales[0], b.T.copy(), *scales[1]], alpha=0.5, transB=1)
    check("MatMulIntegerToFloat", [a, b, one(0.02), one(0.03), one(120, U8), one(130, U8), numbers(5)])
    check("MatMulIntegerToFloat", [a, b, one(0.02), numbers(5) + 2], tolerance=1e-5)
    x, w = numbers(2, 3, 4), whole(4, 5, low=-100, high=100, dtype=S8)
    check("DynamicQuantizeMatMul", [x, w, one(0.03), one(4, S8), numbers(5)])
    inputs = [whole(2, 5, 8), whole(8, 24, low=-99, high=99, dtype=S8), numbers(24), one(0.02), one(0.01)]
    check("QAttention", [*inputs, MASKS["keys"], one(120, U8), one(3, S8)], num_heads=2)


def test_dynamic_lstm():
    """The runtime quantizes inputs and states to 8 bits, here they stay as they are."""
    inputs = [
        numbers(5, 2, 4),
        whole(1, 4, 12, low=-99, high=99, dtype=S8),
        whole(1, 3, 12, low=-99, high=99, dtype=S8),
    ]
    inputs += [numbers(1, 24), None, None, None, None, one([0.005]), one([0], S8), one([0.005]), one([0], S8)]
    check("DynamicQuantizeLSTM", inputs, 3, weights=[1, 2, 8, 9, 10, 11], hidden_size=3, tolerance=2e-2)


@pytest.mark.parametrize("k, block", [(64, 32), (48, 16), (40, 16), (128, 128)])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floating"])
@pytest.mark.parametrize("rows", [1, 20])
def test_weights_of_few_bits(k, block, bits, zeros, rows):
    n, blocks = 24, -(-k // block)
    weights = whole(n, blocks, block * bits // 8)
    zero = {
        "none": None,
        "packed": whole(n, -(-blocks * bits // 8)),
        "floating": random.uniform(0, 2**bits, (n, blocks)).astype(F32),
    }[zeros]
    inputs = [numbers(rows, k), weights, numbers(n, blocks) / 2**bits, zero, None, numbers(n)]
    if bits == 8 and zeros == "floating":
        pytest.skip("the runtime has no such kernel")
    check("MatMulNBits", inputs, weights=[1, 2, 5], K=k, N=n, bits=bits, block_size=block, tolerance=2e-5)


@pytest.mark.parametrize("bits, zeros", [(4, False), (4, True), (8, True)])
def test_gather_of_packed_rows(bits, zeros):
    table = whole(7, 64 * bits // 8)
    zero = whole(7, 4 * bits // 8) if zeros else None
    inputs = [table, one([[0, 6, 3], [2, 2, -1]], I64), numbers(7, 4), zero]
    check("GatherBlockQuantized", inputs, weights=[0, 2, *([3] if zeros else [])], bits=bits, block_size=16)


@pytest.mark.parametrize("kind, type_", [("int4", TensorProto.INT4), ("uint4", TensorProto.UINT4)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2), (2, 1)])
def test_gather_of_four_bits(kind, type_, zeros, axes):
    low = -8 if kind == "int4" else 0
    shape = [6, 20, 33]
    blocks = [-(-size // 16) if i == axes[1] else size for i, size in enumerate(shape)]

    def four_bits(name, sizes):
        return helper.make_tensor(name, type_, sizes, whole(*sizes, low=low, high=low + 16, dtype=np.int8).ravel())

    constants = [four_bits("w", shape), numpy_helper.from_array(numbers(*blocks), "s")]
    constants += [four_bits("z", blocks)] if zeros else []
    names = ["w", "i", "s"] + (["z"] if zeros else [])
    attributes = {"gather_axis": axes[0], "quantize_axis": axes[1], "block_size": 16}
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **attributes)
    info = helper.make_tensor_value_info("i", TensorProto.INT64, [None, None])
    graph = helper.make_graph([node], "g", [info], [helper.make_value_info("y", onnx.TypeProto())], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    data, session = typed(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    feed = {"i": one([[0, 3, 1], [5, 2, 2]], I64)}
    (wanted,), (got,) = session.run(None, feed), dlprim.InferenceSession(data).run(None, feed)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("segments", [False, True])
def test_embed_norm_of_integers(segments):
    ids, mask = whole(2, 5, high=20, dtype=I32), one([[1, 1, 1, 0, 0], [1] * 5], I32)
    tables = [whole(20, 8), whole(9, 8), whole(2, 8) if segments else None, whole(8), whole(8)]
    scales = [one(s) if t is not None else None for s, t in zip((0.01, 0.02, 0.015, 0.012, 0.013), tables, strict=True)]
    zeros = [one(z, U8) if t is not None else None for z, t in zip((120, 130, 99, 7, 140), tables, strict=True)]
    segment = whole(2, 5, high=2, dtype=I32) if segments else None
    inputs = [ids, segment, *tables, mask, *scales, *zeros]
    places = [i for i in range(2, len(inputs)) if inputs[i] is not None and i != 7]
    check("QEmbedLayerNormalization", inputs, 2, places, epsilon=1e-6)


HOSTILE = {
    "Attention": ([numbers(2, 5, 8), numbers(8, 24), numbers(24)], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 8]}),
    "MultiHeadAttention": ([numbers(2, 5, 8)] * 3, {"num_heads": 2}),
    "GroupQueryAttention": (
        [numbers(1, 1, 8), numbers(1, 1, 8), numbers(1, 1, 8), *[numbers(1, 2, 3, 4)] * 2, one([3], I32), one(4, I32)],
        {"num_heads": 2, "kv_num_heads": 2, "local_window_size": 1},
    ),
    "RotaryEmbedding": (
        [numbers(2, 3, 16), one([4], I64), numbers(9, 4), numbers(9, 4)],
        {"num_heads": 2, "rotary_embedding_dim": 8},
    ),
    "MatMulNBits": ([numbers(1, 32), whole(4, 2, 8), numbers(4, 2)], {"K": 32, "N": 4, "bits": 4, "block_size": 16}),
    "MoE": ([numbers(3, 8), numbers(3, 2), numbers(2, 4, 8), numbers(2, 4), numbers(2, 8, 4)], {"k": 2}),
    "QMoE": (
        [numbers(3, 8), numbers(3, 2), *[whole(2, 8, 8), numbers(2, 8), numbers(2, 8)] * 2],
        {"k": 1, "expert_weight_bits": 8, "swiglu_fusion": 0},
    ),
    "GatherBlockQuantized": (
        [whole(7, 8), one([1, 2], I64), numbers(7, 1)],
        {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
    ),
    "GroupNorm": ([numbers(1, 2, 2, 4), numbers(4), numbers(4)], {"groups": 2}),
    "QLinearConcat": ([one(1.0), one(0, U8), whole(2, 2), one(1.0), one(0, U8)], {"axis": 0}),
    "FusedConv": ([numbers(1, 2, 3, 3), numbers(2, 2, 1, 1)], {"group": 1, "pads": [0] * 4, "activation": "Relu"}),
}


@pytest.mark.parametrize("op", HOSTILE)
def test_any_attribute_and_shape_is_refused_or_runs(op):
    inputs, attributes = HOSTILE[op]

    def attempt(values, given):
        try:
            dlprim.InferenceSession(model_of(op, values, **given).SerializeToString()).run(None, feed_of(values, ()))
        except (dlprim.Error, dlprim.ValidationError, dlprim.IndexError, dlprim.OutOfMemoryError):
            return 1
        finally:
            with contextlib.suppress(dlprim.IndexError):  # an index that a kernel found wrong
                dlprim.Context().make_execution_context().finish()
        return 0

    dlprim.InferenceSession(model_of(op, inputs, **attributes).SerializeToString()).run(None, feed_of(inputs, ()))
    refused = 0
    for name, value in attributes.items():
        for number in (-(2**63), -1, 0, 1, 2**31, 2**63 - 1):
            changed = [number] * len(value) if isinstance(value, list) else number
            if not isinstance(value, str):
                refused += attempt(inputs, {**attributes, name: changed})
    for i, value in enumerate(inputs):
        others = [value[None], np.repeat(value[None], 3, 0), value.reshape(-1)]
        others += [value[..., :0], value[..., :-1]] if value.ndim else []
        for other in others:
            refused += attempt([*inputs[:i], np.ascontiguousarray(other), *inputs[i + 1 :]], attributes)
    assert refused > 0
