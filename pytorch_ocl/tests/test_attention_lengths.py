# SPDX-License-Identifier: MIT
"""Attention by the names of CUDA's kernels, and of sequences of unequal lengths."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import AuxRequest, varlen_attn

aten = torch.ops.aten
needs_gqa = pytest.mark.skipif(
    "enable_gqa" not in inspect.signature(varlen_attn).parameters, reason="this PyTorch's varlen_attn has no enable_gqa"
)
LENGTHS_Q, LENGTHS_K = [5, 1, 12, 7], [5, 9, 12, 3]


def floats(*sizes, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def starts(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def window_mask(queries, keys, left=-1, right=-1):
    """Which keys (columns) queries take when the last ones stand beside each other."""
    distance = torch.arange(keys) - (torch.arange(queries) + keys - queries)[:, None]
    return ((distance >= -left) | (left < 0)) & ((distance <= right) | (right < 0))


def reference(q, k, v, mask=None, scale=None):
    """Of (length, heads, width), in float64; 0 where a query takes no key."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    scores = q @ k.transpose(1, 2) * (scale or q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0).matmul(v).transpose(0, 1), scores.logsumexp(-1)


def packed(device, heads=4, key_heads=2, width=16):
    """Query, key and value of sequences side by side, on the CPU and the device."""
    host = [
        floats(sum(lengths), h, width, seed=seed).requires_grad_()
        for seed, (lengths, h) in enumerate([(LENGTHS_Q, heads), (LENGTHS_K, key_heads), (LENGTHS_K, key_heads)])
    ]
    return host, [x.detach().to(device).requires_grad_() for x in host]


@needs_gqa
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (3, 1)])
def test_sequences_of_unequal_lengths(device, window):
    (q, k, v), on_device = packed(device)
    out, lse = varlen_attn(
        *on_device,
        starts(LENGTHS_Q).to(device),
        starts(LENGTHS_K).to(device),
        max(LENGTHS_Q),
        max(LENGTHS_K),
        window_size=window,
        enable_gqa=True,
        return_aux=AuxRequest(lse=True),
    )
    parts = zip(q.split(LENGTHS_Q), k.split(LENGTHS_K), v.split(LENGTHS_K))
    expected, sums = zip(*(reference(*part, window_mask(len(part[0]), len(part[1]), *window)) for part in parts))
    expected, sums = torch.cat(expected), torch.cat(sums, 1)
    torch.testing.assert_close(out.cpu(), expected.float(), rtol=1e-5, atol=1e-5)
    some = sums.isfinite()
    torch.testing.assert_close(lse.cpu()[some], sums.float()[some], rtol=1e-5, atol=1e-5)
    weights = floats(*out.shape, seed=9)
    (out * weights.to(device)).sum().backward()
    (expected * weights).sum().backward()
    for host, own in zip((q, k, v), on_device):
        torch.testing.assert_close(own.grad.cpu(), host.grad, rtol=1e-4, atol=1e-5)


@needs_gqa
def test_sequences_do_not_synchronize(device):
    _, on_device = packed(device)
    begins = [starts(LENGTHS_Q).to(device), starts(LENGTHS_K).to(device)]
    torch.ocl.set_sync_debug_mode("error")
    try:
        varlen_attn(*on_device, *begins, max(LENGTHS_Q), max(LENGTHS_K), enable_gqa=True)
    finally:
        torch.ocl.set_sync_debug_mode("default")


def test_rows_of_no_sequence(device):
    q = floats(9, 2, 16).to(device)
    for begins in ([2, 5, 5, 7], [0, 0], [0]):
        starts_of = torch.tensor(begins, dtype=torch.int32, device=device)
        longest = max([b - a for a, b in zip(begins, begins[1:])], default=0)
        out = varlen_attn(q, q, q, starts_of, starts_of, longest, longest).cpu()
        inside = torch.zeros(9, dtype=torch.bool)
        inside[begins[0] : begins[-1]] = True
        assert not out[~inside].any() and out[inside].ne(0).all()
    none = varlen_attn(q[:0], q[:0], q[:0], starts_of, starts_of, 0, 0)
    assert none.shape == (0, 2, 16)
    torch.ocl.synchronize()


@needs_gqa
def test_keys_in_pages(device):
    pages, rows, used = floats(7, 4, 2, 16, seed=1), 4, [6, 11]
    values, table = floats(7, 4, 2, 16, seed=2), torch.tensor([[3, 0, -1], [5, 1, 6]], dtype=torch.int32)
    q = floats(3, 4, 16)
    out = varlen_attn(
        q.to(device),
        pages.to(device),
        values.to(device),
        torch.tensor([0, 1, 3], dtype=torch.int32, device=device),
        None,
        2,
        3 * rows,
        window_size=(-1, 0),
        enable_gqa=True,
        seqused_k=torch.tensor(used, dtype=torch.int32, device=device),
        block_table=table.to(device),
    )
    expected = []
    for queries, row, keys in zip(q.split([1, 2]), table, used):
        k, v = (x[row.clamp(min=0).long()].flatten(0, 1)[:keys] for x in (pages, values))
        expected.append(reference(queries, k, v, window_mask(len(queries), keys, right=0))[0])
    torch.testing.assert_close(out.cpu(), torch.cat(expected).float(), rtol=1e-5, atol=1e-5)


@needs_gqa
def test_result_in_given_memory(device):
    from torch.nn.attention.varlen import varlen_attn_out

    _, (q, k, v) = packed(device)
    begins = starts(LENGTHS_Q).to(device), starts(LENGTHS_K).to(device)
    longest = max(LENGTHS_Q), max(LENGTHS_K)
    out = torch.empty_like(q)
    with torch.no_grad():
        varlen_attn_out(out, q, k, v, *begins, *longest, enable_gqa=True)
        assert torch.equal(out, varlen_attn(q, k, v, *begins, *longest, enable_gqa=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_and_wide_heads(device, dtype):
    q, k, v = (floats(20, 2, 96, seed=seed).to(dtype) for seed in range(3))
    begins = torch.tensor([0, 13, 20], dtype=torch.int32, device=device)
    out = varlen_attn(*(x.to(device) for x in (q, k, v)), begins, begins, 13, 13, window_size=(-1, 0))
    assert out.dtype == dtype
    for part in (slice(0, 13), slice(13, 20)):
        length = part.stop - part.start
        expected = reference(q[part], k[part], v[part], window_mask(length, length, right=0))[0]
        torch.testing.assert_close(out[part].cpu().double(), expected, rtol=2e-2, atol=2e-2)


def test_hostile_starts_stay_in_the_tensors(device):
    q = floats(12, 2, 16).to(device)
    for begins in ([0, 60_000_000, 5], [-7, 3, 12], [12, 0, 12], [2**31 - 1, 4, 9]):
        where = torch.tensor(begins, dtype=torch.int32, device=device)
        out = varlen_attn(q, q, q, where, where, 6, 6)
        assert out.shape == q.shape
        torch.ocl.synchronize()


def test_slopes_of_distances(device):
    q, k, v = (floats(2, 6, 3, 16, seed=seed) for seed in range(3))
    slopes = torch.tensor([0.5, 0.25, 2.0])
    out = aten._flash_attention_forward(
        *(x.to(device) for x in (q, k, v)), None, None, 6, 6, 0.0, True, False, alibi_slopes=slopes.to(device)
    )[0]
    bias = -slopes[:, None, None] * (torch.arange(6)[:, None] - torch.arange(6)).abs()
    bias = bias.masked_fill(~window_mask(6, 6, right=0), float("-inf"))
    for i in range(2):
        expected = reference(q[i], k[i], v[i], bias)[0]
        torch.testing.assert_close(out[i].cpu(), expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [0, 1, 2])
def test_efficient_attention(device, mask):
    host = [floats(2, n, 3, 16, seed=n).requires_grad_() for n in (5, 8, 8)]
    bias = floats(2, 3, 5, 8, seed=7).requires_grad_()
    own = [x.detach().to(device).requires_grad_() for x in (*host, bias)]
    out, lse, *_ = aten._efficient_attention_forward(*own, None, None, None, None, 0.0, mask, True, scale=0.3)
    assert lse.shape == (2, 3, 32)
    causal = torch.ones(5, 8).tril({1: 0, 2: 3}.get(mask, 8)).bool()
    expected = torch.stack(
        [reference(*(x[i] for x in host), bias[i].masked_fill(~causal, float("-inf")), 0.3)[0] for i in range(2)]
    )
    torch.testing.assert_close(out.cpu(), expected.float(), rtol=1e-5, atol=1e-5)
    weights = floats(*out.shape, seed=9)
    (out * weights.to(device)).sum().backward()
    (expected * weights).sum().backward()
    for a, b in zip((*host, bias), own):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-5)


def test_efficient_attention_of_unequal_lengths(device):
    (q, k, v), own = packed(device, key_heads=4)
    begins = (starts(LENGTHS_Q).to(device), starts(LENGTHS_K).to(device))
    rows = [x[None] for x in own]
    out = aten._efficient_attention_forward(*rows, None, *begins, max(LENGTHS_Q), max(LENGTHS_K), 0.0, 0, True)[0]
    parts = zip(q.split(LENGTHS_Q), k.split(LENGTHS_K), v.split(LENGTHS_K))
    expected = torch.cat([reference(*part)[0] for part in parts])
    torch.testing.assert_close(out[0].cpu(), expected.float(), rtol=1e-5, atol=1e-5)
    out.square().sum().backward()
    expected.square().sum().backward()
    for host, x in zip((q, k, v), own):
        torch.testing.assert_close(x.grad.cpu(), host.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
)
def test_programs_that_allow_one_kernel(device, backend, set_variable):
    set_variable("DLPRIM_ATTENTION", "tiled")
    host = [floats(2, 3, 128, 32, seed=seed).requires_grad_() for seed in range(3)]
    own = [x.detach().to(device).requires_grad_() for x in host]
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(*own, is_causal=True)
        assert "FusedAttention" in out.grad_fn.name()
        out.square().sum().backward()
    expected = F.scaled_dot_product_attention(*host, is_causal=True)
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(host, own):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("core", [None, "split"])
def test_one_query_of_a_static_cache(device, set_variable, core):
    """Keys that a row of a mask leaves out at either end, near where kernels search on, in the middle; none left."""
    if core:
        set_variable("DLPRIM_ATTENTION", core)
    ranges = [(0, 1), (4499, 4500), (100, 3000), (2047, 2049), (2048, 4096), (0, 4500), (9, 9), (4400, 4495)]
    positions = torch.arange(4500)
    mask = torch.stack([(first <= positions) & (positions < end) for first, end in ranges])
    mask[5, 3000] = False
    q, k, v = (floats(len(ranges), heads, length, 16).half() for heads, length in ((4, 1), (2, 4500), (2, 4500)))
    found = F.scaled_dot_product_attention(
        *(x.to(device) for x in (q, k, v)), mask[:, None, None].to(device), enable_gqa=True
    )
    for i in range(len(ranges)):
        rows = (x[i].transpose(0, 1) for x in (q, k, v))
        expected = reference(*rows, mask[i])[0].transpose(0, 1)
        torch.testing.assert_close(found[i].double().cpu(), expected, rtol=2e-3, atol=2e-3)


def test_dropout_is_the_same_backward(device):
    q, k, v = (floats(1, 8, 2, 16, seed=seed).to(device).requires_grad_() for seed in range(3))
    torch.manual_seed(3)
    out = aten._flash_attention_forward(q, k, v, None, None, 8, 8, 0.5, False, False)
    (grad,) = torch.autograd.grad(out[0].sum(), v)
    torch.manual_seed(3)
    again = aten._flash_attention_forward(q, k, v, None, None, 8, 8, 0.5, False, False)[0]
    assert torch.equal(out[0], again)
    # Linear in the values: its gradient times the values is the result.
    torch.testing.assert_close((grad * v).sum(), out[0].sum(), rtol=1e-4, atol=1e-4)


def test_errors(device):
    q = floats(3, 2, 16).to(device)
    begins = torch.tensor([0, 3], dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match="expected keys as wide as queries, got 8 and 16"):
        aten._flash_attention_forward(q, q[..., :8], q[..., :8], begins, begins, 3, 3, 0.0, False, False)
    with pytest.raises(RuntimeError, match="one dtype"):
        aten._flash_attention_forward(q, q.half(), q, begins, begins, 3, 3, 0.0, False, False)
    with pytest.raises(RuntimeError, match="4 dims"):
        aten._flash_attention_forward(q, q, q, None, None, 3, 3, 0.0, False, False)
    with pytest.raises(RuntimeError, match="expected both of cum_seq_q and cum_seq_k"):
        aten._flash_attention_forward(q, q, q, begins, None, 3, 3, 0.0, False, False)
    with pytest.raises(RuntimeError, match="custom_mask_type of 0, 1 or 2, got 5"):
        aten._efficient_attention_forward(q[None], q[None], q[None], None, None, None, None, None, 0.0, 5)


@pytest.mark.parametrize("masked", [False, True])
def test_by_the_name_of_cudnn(device, masked):
    host = [floats(2, 3, 40, 32, seed=seed).requires_grad_() for seed in range(3)]
    own = [x.detach().to(device).requires_grad_() for x in host]
    mask = floats(2, 1, 40, 40, seed=5) if masked else None
    bias = mask.to(device) if masked else None
    out, sums = aten._scaled_dot_product_cudnn_attention(*own, bias, True, 0.0, not masked, scale=0.3)[:2]
    options = {"attn_mask": mask, "is_causal": not masked, "scale": 0.3}
    expected = F.scaled_dot_product_attention(*host, **options)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    assert sums.shape[:3] == (2, 3, 40)
    out.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(host, own):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-4)
