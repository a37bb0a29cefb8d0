# SPDX-License-Identifier: MIT
"""MoE and QMoE of ONNX Runtime's domain against ONNX Runtime, or against what its documentation says."""

import numpy as np
import pytest
from test_contrib import F32, check, model_of, numbers, whole

import dlprim

TOKENS, WIDTH, INNER, EXPERTS = 5, 32, 64, 4
SWIGLU = {"activation_type": "swiglu", "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.5}


def biased(fused, third=False):
    """Weights and biases of the layers, of products that are fused or not."""
    parts = [numbers(EXPERTS, INNER * (2 if fused else 1), WIDTH), numbers(EXPERTS, INNER * (2 if fused else 1))]
    parts += [numbers(EXPERTS, WIDTH, INNER), numbers(EXPERTS, WIDTH)]
    return parts + ([numbers(EXPERTS, INNER, WIDTH), numbers(EXPERTS, INNER)] if third else [])


@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
def test_activations(activation, normalized):
    inputs = [numbers(TOKENS, WIDTH), 3 * numbers(TOKENS, EXPERTS), *biased(False)]
    check("MoE", inputs, k=2, activation_type=activation, normalize_routing_weights=normalized)
    one = [numbers(1, 1, WIDTH), numbers(1, EXPERTS), *biased(False)]
    check("MoE", one, weights=[2, 3, 4, 5], k=3, activation_type=activation, normalize_routing_weights=normalized)


def test_pairs():
    inputs = [3 * numbers(1, TOKENS, WIDTH), numbers(TOKENS, EXPERTS), *biased(True)]
    check("MoE", inputs, k=2, swiglu_fusion=1, **SWIGLU)
    inputs[3] = inputs[5] = None
    check("MoE", inputs, k=1, swiglu_fusion=1, **{**SWIGLU, "activation_beta": 0.0})


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def mixed(x, scores, shares, expert, k):
    """For each token the sum of what its `k` experts give."""
    result = np.zeros_like(x)
    for t, row in enumerate(scores):
        for e in np.argsort(-row, kind="stable")[:k]:
            result[t] += shares[t, e] * expert(int(e), x[t])
    return result


def run(op, inputs, **attributes):
    data = model_of(op, inputs, **attributes).SerializeToString()
    return dlprim.InferenceSession(data).run(None, {f"x{i}": x for i, x in enumerate(inputs) if x is not None})[0]


@pytest.mark.parametrize("activation", ["swiglu", "silu"])
def test_third_weights(activation):
    """As documented: the runtime's CPU kernels do not take them."""
    x, scores = 3 * numbers(TOKENS, WIDTH), numbers(TOKENS, EXPERTS)
    w1, b1, w2, b2, w3, b3 = parts = biased(False, third=True)

    def expert(e, row):
        gate, other = w1[e] @ row + b1[e], w3[e] @ row + b3[e]
        if activation == "silu":
            return w2[e] @ (gate * sigmoid(gate) * other) + b2[e]
        gate, other = np.minimum(gate, 1.5), np.clip(other, -1.5, 1.5)
        return w2[e] @ (gate * sigmoid(1.702 * gate) * (other + 1)) + b2[e]

    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    attributes = SWIGLU if activation == "swiglu" else {"activation_type": "silu"}
    got = run("MoE", [x, scores, *parts], k=2, **attributes)
    np.testing.assert_allclose(got, mixed(x, scores, shares, expert, 2), rtol=1e-4, atol=1e-3)


def packed(q, bits):
    if bits == 8:
        return q.astype(np.uint8)
    q = np.concatenate([q, np.zeros((*q.shape[:-1], q.shape[-1] % 2), q.dtype)], -1)
    return (q[..., 0::2] | q[..., 1::2] << 4).astype(np.uint8)


def quantized(bits, block, zeros, fused=True):
    """Inputs of QMoE behind the scores, as packed, and each layer's weights as numbers."""
    inputs, points, real = [], [], []
    for n, k in [(INNER * (2 if fused else 1), WIDTH), (WIDTH, INNER)]:
        q = whole(EXPERTS, n, k, high=1 << bits, dtype=np.int64)
        scales = np.random.default_rng(n).uniform(0.2, 0.5, (EXPERTS, n, k // block if block else 1)) / 2**bits
        z = whole(*scales.shape, high=1 << bits, dtype=np.int64) if zeros else np.full(scales.shape, 1 << (bits - 1))
        each = block or k
        real.append(((q - z.repeat(each, 2)) * scales.repeat(each, 2)).astype(F32))
        scales, z = (scales, z) if block else (scales[..., 0], z[..., 0])
        inputs += [packed(q, bits), scales.astype(F32), numbers(EXPERTS, n)]
        points.append(packed(z, bits) if zeros else None)
    return [*inputs, None, None, None, *points], real


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized(bits, block, zeros):
    """The runtime rounds what it multiplies with blocks of 8 bits to 8 bits, too."""
    attributes = {"k": 2, "expert_weight_bits": bits, **({"block_size": block} if block else {})}
    tolerance = 5e-2 if bits == 8 and block else 1e-5
    for activation, fused in [({"activation_type": "silu"}, False), ({**SWIGLU, "swiglu_fusion": 1}, True)]:
        inputs = [numbers(TOKENS, WIDTH), numbers(TOKENS, EXPERTS), *quantized(bits, block, zeros, fused)[0]]
        constants = [i for i in range(2, len(inputs)) if inputs[i] is not None]
        check("QMoE", inputs, weights=constants, tolerance=tolerance, **attributes, **activation)


def test_shares_of_their_own():
    """Scores choose, other numbers say what the chosen count; products lie one behind the other."""
    inputs, (w1, w2) = quantized(4, 16, False)
    b1, b2 = inputs[2], inputs[5]
    x, scores, shares = numbers(TOKENS, WIDTH), numbers(TOKENS, EXPERTS), numbers(TOKENS, EXPERTS)

    def expert(e, row):
        gate, other = np.split(w1[e] @ row + b1[e], 2)
        return w2[e] @ (gate * sigmoid(gate) * other) + b2[e]

    all_inputs = [x, scores, *inputs, None, shares]
    got = run("QMoE", all_inputs, k=2, block_size=16, activation_type="swiglu", swiglu_fusion=2)
    np.testing.assert_allclose(got, mixed(x, scores, shares, expert, 2), rtol=1e-4, atol=1e-4)


def test_what_does_not_fit():
    inputs = [numbers(TOKENS, WIDTH), numbers(TOKENS, EXPERTS), *biased(False)]
    for more, wrong in [({"k": 5}, "do not fit"), ({"activation_type": "swiglu"}, "third weights are missing")]:
        with pytest.raises(ValueError, match=wrong):
            run("MoE", inputs, **more)
    with pytest.raises(ValueError, match="4 and 8 bits"):
        run("QMoE", [*inputs[:2], *quantized(4, 32, False)[0]], expert_weight_bits=2)
