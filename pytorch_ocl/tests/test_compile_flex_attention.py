# SPDX-License-Identifier: MIT
"""FlexAttention on ocl, compiled and not: score_mod, mask_mod, captured tensors, grouped heads, gradients."""

import math
import warnings

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from pytorch_ocl import inductor


def causal(b, h, q, k):
    return q >= k


def inputs(length, device, heads=4, groups=2, batch=2):
    torch.manual_seed(0)
    shapes = [(batch, heads, length, 16), (batch, groups, length, 16), (batch, groups, length, 16), (heads,)]
    return [torch.randn(*shape).to(device).requires_grad_() for shape in shapes]


def run(device, length, compiled, dynamic=None):
    query, key, value, bias = inputs(length, device)
    function = torch.compile(flex_attention, fullgraph=True, dynamic=dynamic) if compiled else flex_attention
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs? eagerly")
        mask = create_block_mask(causal, None, None, length, length, device=device)
        out, logsumexp = function(
            query,
            key,
            value,
            score_mod=lambda score, b, h, q, k: score * 0.5 + bias[h] * (q - k) / length,
            block_mask=mask,
            enable_gqa=True,
            return_lse=True,
        )
        (out.square().sum() + logsumexp.sum()).backward()
    return [t.detach().cpu() for t in (out, logsumexp, query.grad, key.grad, value.grad, bias.grad)]


def expected(length):
    """The same by matrix products."""
    query, key, value, bias = inputs(length, "cpu")
    key_, value_ = (t.repeat_interleave(query.shape[1] // key.shape[1], 1) for t in (key, value))
    place = torch.arange(length)
    distance = place[:, None] - place
    scores = query @ key_.transpose(-1, -2) / 4 * 0.5 + bias[:, None, None] * distance / length
    scores = scores.masked_fill(distance < 0, -math.inf)
    out, logsumexp = scores.softmax(-1) @ value_, scores.logsumexp(-1)
    (out.square().sum() + logsumexp.sum()).backward()
    return [t.detach() for t in (out, logsumexp, query.grad, key.grad, value.grad, bias.grad)]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("length", [100, 128])
def test_scores_masks_and_gradients(device, length, compiled):
    if compiled and not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    for found, wanted in zip(run(device, length, compiled), expected(length)):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


def test_lengths_that_change(device):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    for length in (48, 100):
        for found, wanted in zip(run(device, length, True, dynamic=True), expected(length)):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


def test_rows_without_a_key_are_zero(device):
    query, key, value, _ = inputs(32, device, groups=4)
    with torch.no_grad():
        mask = create_block_mask(lambda b, h, q, k: q > k, None, None, 32, 32, device=device)
        found = torch.compile(flex_attention)(query, key, value, block_mask=mask)
    assert found[:, :, 0].abs().max().item() == 0 and found.isfinite().all()


def test_devices_that_flex_attention_does_not_take_are_refused():
    with pytest.raises(ValueError, match="FlexAttention is only supported"):
        flex_attention(*(torch.ones(1, 1, 8, 16, device="meta") for _ in range(3)))
