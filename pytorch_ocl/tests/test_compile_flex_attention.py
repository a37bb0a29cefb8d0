# SPDX-License-Identifier: MIT
"""FlexAttention on ocl, compiled and not: score_mod, mask_mod, captured tensors, grouped heads, gradients."""

import math
import warnings

import pytest
import torch
from pytorch_ocl.inductor import flex_attention as expansion
from pytorch_ocl.inductor import flex_fused
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


def window(b, h, q, k):
    return (q >= k) & (q - k < 20)


def slopes(score, b, h, q, k):
    return score - (q - k) * 2.0 ** -(h + 1)


def scaled(score, b, h, q, k):
    return (0.01 * (q - k) - score / 2) * -1.5


def cut_off(score, b, h, q, k):
    return torch.where(q >= k, score, -math.inf)


def soft_cap(score, b, h, q, k):
    return 5 * torch.tanh(score / 5)


@pytest.fixture
def by_attention_kernels(monkeypatch):
    """Takes the attention kernels wherever they can serve; devices choose between them and products."""
    monkeypatch.setattr(flex_fused, "_takes", lambda *tensors: True)
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


@pytest.mark.parametrize(
    "score_mod, mask_mod, serves",
    [(None, causal, True), (None, None, True), (slopes, causal, True), (scaled, None, True), (scaled, window, True)]
    + [(cut_off, None, True), (slopes, None, True), (soft_cap, causal, True)],
)
@pytest.mark.parametrize("groups", [4, 2])
def test_attention_kernels_serve_what_adds_to_scores(
    device, by_attention_kernels, score_mod, mask_mod, serves, groups, monkeypatch
):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    if score_mod is soft_cap:
        serves = torch.ocl.get_device_properties(device).type == "cpu"  # float32
    served = []
    monkeypatch.setattr(expansion, "fused", lambda *args: served.append(flex_fused.fused(*args)) or served[-1])
    results = []
    for compiled in (False, True):
        query, key, value, _ = inputs(70, device, groups=groups)
        mask = mask_mod and create_block_mask(mask_mod, None, None, 70, 70, device=device)
        function = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
        out = function(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=groups < 4)
        out.square().sum().backward()
        results.append([t.detach() for t in (out, query.grad, key.grad, value.grad)])
    assert [function is not None for function in served] == [serves] * 2
    for found, wanted in zip(*results):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


@pytest.mark.parametrize("score_mod", [None, slopes])
def test_attention_kernels_pass_over_what_a_mask_leaves_out(device, by_attention_kernels, score_mod):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")

    def islands(b, h, q, k):
        return (q // 100 == k // 100) & (k // 128 != 3)

    results = []
    for compiled in (False, True):
        query, key, value, _ = inputs(530, device)
        mask = create_block_mask(islands, None, None, 530, 530, device=device)
        function = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
        out = function(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=True)
        out.square().sum().backward()
        results.append([t.detach() for t in (out, query.grad, key.grad, value.grad)])
        if compiled:  # a slice of keys that no query sees
            with torch.no_grad():
                key[:, :, 430:490] = value[:, :, 430:490] = math.nan
            masked = function(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=True)
            torch.testing.assert_close(masked.detach(), out.detach())
    for found, wanted in zip(*results):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


def spread(score, b, h, q, k):
    x = (q * 3 - k).to(torch.float32) / 7
    turned = torch.cos(x).cos() + torch.cos(x).sin()
    curved = torch.sin(x) * turned.abs() + torch.exp(-x * x) + torch.sigmoid(x) + torch.tanh(x) + torch.erf(x)
    return score + curved + torch.sqrt(x.abs()) + torch.log2(1 + x.abs()) + torch.maximum(x, 1 / (2 + x * x)).floor()


def counted(score, b, h, q, k):
    odd = ((q % 3 == 1) | (k // 5 % 2 == 0)) ^ ((q ^ k) & 4 > 0)
    return score + torch.where(odd, (q - k) // 3, -torch.fmod(k - q, 7)) + torch.clamp(q - k, -4, 4) + b * h


def bent(score, b, h, q, k):
    capped = 3 * torch.tanh(score / 3) * torch.sigmoid(score) - torch.exp2(-score.abs()) * (h + 1)
    return torch.where(q % 3 == 0, capped + (q - k) / 9, score * score / 4 + torch.maximum(score, score * 0.1))


def some(b, h, q, k):
    return torch.logical_or(torch.logical_not(q < k), (k - q) % (b + h + 2) != 1) & (
        (q >= 8) | (h == 1) | (q - 2 * k <= 3)
    )


@pytest.mark.parametrize(
    "score_mod, mask_mod",
    [(None, causal), (None, some), (slopes, None), (scaled, causal), (cut_off, some), (spread, None)]
    + [(counted, some), (soft_cap, causal), (bent, some)],
)
def test_attention_kernels_compute_what_is_added(device, by_attention_kernels, score_mod, mask_mod, monkeypatch):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    monkeypatch.setattr(flex_fused, "_computes", lambda query: True)
    monkeypatch.setattr(flex_fused, "_bias", None)
    results = []
    for compiled in (False, True):
        query, key, value, _ = inputs(70, device)
        mask = mask_mod and create_block_mask(mask_mod, 2, 4, 70, 70, device=device)
        function = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
        out = function(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=True)
        out.square().sum().backward()
        results.append([t.detach() for t in (out, query.grad, key.grad, value.grad)])
    for found, wanted in zip(*results):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32, torch.bool])
def test_attention_kernels_read_what_is_captured(device, by_attention_kernels, dtype, monkeypatch):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    monkeypatch.setattr(flex_fused, "_computes", lambda query: True)
    monkeypatch.setattr(flex_fused, "_bias", None)
    table = (torch.arange(4 * 70).view(4, 70) % 3).to(dtype).to(device)
    ends = torch.tensor([50, 64], device=device)
    limit = torch.tensor(9, device=device)
    mask = create_block_mask(lambda b, h, q, k: (k < ends[b]) & (q - k < limit * 5), 2, None, 70, 70, device=device)

    def added(score, b, h, q, k):
        return score + table[h, q] * 2 - table.transpose(0, 1)[-k, h] * 1

    results = []
    for function in (flex_attention, torch.compile(flex_attention, fullgraph=True)):
        query, key, value, _ = inputs(70, device)
        out = function(query, key, value, score_mod=added, block_mask=mask, enable_gqa=True)
        out.square().sum().backward()
        results.append([t.detach() for t in (out, query.grad, key.grad, value.grad)])
    for found, wanted in zip(*results):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


def test_captured_numbers_on_the_host(device, by_attention_kernels):
    slope = torch.tensor(0.5)
    query, key, value, _ = inputs(70, device)
    results = [
        function(query, key, value, score_mod=lambda score, b, h, q, k: score + slope * (q - k), enable_gqa=True)
        for function in (flex_attention, torch.compile(flex_attention))
    ]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_pages_of_others_are_not_read(device, by_attention_kernels):
    """Sequences with keys in pages, as PyTorch's PagedAttention lays them out; pages that none has hold anything."""
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    paged = pytest.importorskip("torch.nn.attention.experimental._paged_attention")
    length, page, pages = 256, 128, 8
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, length, 16).to(device) for _ in range(3))
    mask = create_block_mask(causal, 2, 1, length, length, device=device, BLOCK_SIZE=page)
    expected = flex_attention(query, key, value, score_mod=slopes, block_mask=mask)
    layout = paged.PagedAttention(pages, page, 2, device=device)
    for sequence in range(2):
        layout.reserve(torch.tensor(sequence, device=device), torch.tensor(length, device=device))
    keys, values = (torch.full((1, 4, pages * page, 16), math.nan, device=device) for _ in range(2))
    places = torch.arange(length, device=device).expand(2, length).contiguous()
    layout.assign(torch.arange(2, device=device), places, key, value, keys, values)
    found = torch.compile(flex_attention, fullgraph=True)(
        query,
        keys,
        values,
        score_mod=layout.get_score_mod(slopes),
        block_mask=layout.convert_logical_block_mask(mask),
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_attention_kernels_with_gradients_of_what_is_captured(device, by_attention_kernels):
    """The forward pass by them, the backward one by products."""
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    for found, wanted in zip(run(device, 70, True), expected(70)):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("by_kernels", [False, True])
def test_captured_tensors_of_other_dtypes_without_gradients(device, dtype, by_kernels, request, monkeypatch):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    if by_kernels:
        request.getfixturevalue("by_attention_kernels")
    served = []
    monkeypatch.setattr(expansion, "fused", lambda *args: served.append(flex_fused.fused(*args)) or served[-1])
    slope, place = torch.rand(4, device=device), torch.arange(64, device=device) // 8

    def score_mod(score, b, h, q, k):
        return (score.float() * 1.5 + slope[h] * (place[q] - place[k])).to(score.dtype)

    results = []
    for function in (torch.compile(flex_attention, fullgraph=True), flex_attention):
        query, key, value = (t.detach().to(dtype).requires_grad_() for t in inputs(64, device, groups=4)[:3])
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*runs? eagerly")
            out = function(query, key, value, score_mod=score_mod)
            out.square().sum().backward()
        results.append([t.detach() for t in (out, query.grad, key.grad, value.grad)])
    if by_kernels:
        assert [function is not None for function in served] == [True] * 2
    for found, wanted in zip(*results):
        close = 1e-4 if dtype == torch.float32 else 1e-2
        torch.testing.assert_close(found, wanted, rtol=close, atol=close * max(1, wanted.abs().max().item()))


def test_lengths_that_change(device):
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    for length in (48, 100):
        for found, wanted in zip(run(device, length, True, dynamic=True), expected(length)):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1, wanted.abs().max().item()))


def rows_without_a_key(device):
    query, key, value, _ = inputs(32, device, groups=4)
    with torch.no_grad():
        mask = create_block_mask(lambda b, h, q, k: q > k, None, None, 32, 32, device=device)
        found = torch.compile(flex_attention)(query, key, value, block_mask=mask)
    assert found[:, :, 0].abs().max().item() == 0 and found.isfinite().all()


def test_rows_without_a_key_are_zero(device):
    rows_without_a_key(device)


def test_rows_without_a_key_are_zero_by_attention_kernels(device, by_attention_kernels):
    rows_without_a_key(device)


@pytest.mark.parametrize("wants_logsumexp", [False, True])
def test_rows_without_a_key_by_attention_kernels(device, by_attention_kernels, wants_logsumexp):
    """Their logsumexp is -inf, and they add nothing to gradients."""
    mask = create_block_mask(lambda b, h, q, k: q > k, None, None, 32, 32, device=device)
    results = []
    for function in (torch.compile(flex_attention), flex_attention):
        query, key, value, _ = inputs(32, device, groups=4)
        found = function(query, key, value, score_mod=slopes, block_mask=mask, return_lse=wants_logsumexp)
        out, logsumexp = found if wants_logsumexp else (found, torch.zeros(2, 4, 32, device=device))
        out.square().sum().backward()
        results.append([t.detach() for t in (out, logsumexp, query.grad, key.grad, value.grad)])
    for found, wanted in zip(*results):
        assert not found.isnan().any()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_devices_that_flex_attention_does_not_take_are_refused():
    with pytest.raises(ValueError, match="FlexAttention is only supported"):
        flex_attention(*(torch.ones(1, 1, 8, 16, device="meta") for _ in range(3)))
