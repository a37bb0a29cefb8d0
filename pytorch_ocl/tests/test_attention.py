# SPDX-License-Identifier: MIT
"""Attention against the CPU, with no operator left to the CPU."""

import copy

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend


@pytest.fixture(autouse=True)
def nothing_on_the_cpu():
    torch.ocl.reset_fallbacks()
    yield
    assert not torch.ocl.fallbacks()


@pytest.fixture(params=[("mma", torch.float16), ("tiled", torch.float32)], ids=["mma", "tiled"])
def fused(request, set_variable):
    """The dtype to test a fused kernel with, which this device may not choose by itself."""
    candidate, dtype = request.param
    set_variable("DLPRIM_ATTENTION", candidate)
    return dtype


def assert_same(actual, expected, tolerance=1e-4):
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance)


def queries_keys_values(key_heads=4):
    torch.manual_seed(0)
    return torch.randn(2, 4, 5, 8), torch.randn(2, key_heads, 7, 8), torch.randn(2, key_heads, 7, 8)


def masks_of(kind):
    """Masks for torch.nn.MultiheadAttention over three sequences of 6: "attention", "padding", "both" or None."""
    masks = {}
    if kind in ("attention", "both"):
        masks["attn_mask"] = torch.ones(6, 6).triu(1).bool()
    if kind in ("padding", "both"):
        masks["key_padding_mask"] = torch.arange(6) >= torch.tensor([[6], [4], [2]])
    return masks


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.arange(35).view(5, 7) % 3 != 0},
        {"attn_mask": torch.linspace(-1, 1, 35).view(5, 7)},
        {"enable_gqa": True},
    ],
    ids=["plain", "causal", "scale", "bool_mask", "float_mask", "gqa"],
)
def test_scaled_dot_product_attention(device, options):
    inputs = queries_keys_values(2 if "enable_gqa" in options else 4)
    results = []
    for where in (device, "cpu"):
        moved = [x.detach().to(where).requires_grad_() for x in inputs]
        out = attend(*moved, **{k: v.to(where) if torch.is_tensor(v) else v for k, v in options.items()})
        out.square().sum().backward()
        results.append([out] + [x.grad for x in moved])
    for x, y in zip(*results):
        assert_same(x, y)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": -0.3},
        {"enable_gqa": True},
        {"attn_mask": (torch.arange(35).view(5, 7) % 3 != 0) & (torch.arange(5).view(5, 1) != 2)},
        {"attn_mask": torch.linspace(-1, 1, 14).view(2, 1, 1, 7)},
    ],
    ids=["plain", "causal", "scale", "gqa", "bool_mask", "float_mask"],
)
def test_fused_kernels(device, fused, options):
    inputs = queries_keys_values(2 if "enable_gqa" in options else 4)
    results = []
    for where in (device, "cpu"):
        moved = [x.detach().to(where, fused).requires_grad_() for x in inputs]
        kept = {k: v.to(where) if torch.is_tensor(v) else v for k, v in options.items()}
        if "attn_mask" in kept and kept["attn_mask"].is_floating_point():
            kept["attn_mask"] = kept["attn_mask"].to(fused)
        with sdpa_kernel(SDPBackend.OVERRIDEABLE if where == device else SDPBackend.MATH):
            out = attend(*moved, **kept)
        out.float().square().sum().backward()
        results.append([out] + [x.grad for x in moved])
    for x, y in zip(*results):
        assert_same(x, y, 1e-4 if fused == torch.float32 else 1e-2)


@pytest.mark.parametrize("core", ["rows", "tiled", "products"])
def test_rows_masked_by_finite_numbers(device, set_variable, core):
    """Large negative numbers swallow scores: a row of nothing else gets the mean of the values, finite gradients."""
    set_variable("DLPRIM_ATTENTION", core)
    gradients = core != "rows"
    mask = torch.zeros(5, 7)
    mask[1:3] = torch.tensor([[torch.finfo(torch.float32).min], [-1e9]])
    mask[3, 2:] = mask[4] = mask[1, 0]
    mask[4, :3] = -torch.inf
    results = []
    for where in (device, "cpu"):
        moved = [x.detach().to(where).requires_grad_(gradients) for x in queries_keys_values()]
        with sdpa_kernel(SDPBackend.OVERRIDEABLE if where == device else SDPBackend.MATH):
            out = attend(*moved, attn_mask=mask.to(where))
        if gradients:
            out.square().sum().backward()
        results.append([out] + [x.grad for x in moved if gradients])
    assert_same(results[0][0], results[1][0])
    for x, y in zip(results[0][1:], results[1][1:]):
        assert_same(x, y, 1e-2)


@pytest.mark.parametrize("grad", [False, True])
def test_bool_masks_are_the_kernels_own(device, fused, grad):
    """Kernels pass over keys that large masks leave out for all queries, so that these may hold anything."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 550, 16) for _ in range(3))
    queries, keys = torch.arange(550)[:, None], torch.arange(550)
    mask = (queries >= keys) & ((queries - keys < 100) | (keys < 30)) & ~((keys >= 256) & (keys < 512))
    wanted = [x.clone().requires_grad_(grad) for x in (q, k, v)]
    expected = attend(*wanted, attn_mask=mask)
    if not grad:
        k[:, :, 320:384] = v[:, :, 320:384] = float("nan")
    found = [x.to(device, fused).requires_grad_(grad) for x in (q, k, v)]
    out = attend(*found, attn_mask=mask.to(device))
    tolerance = 1e-4 if fused == torch.float32 else 2e-2
    assert_same(out.float(), expected, tolerance)
    if grad:
        expected.square().sum().backward()
        out.float().square().sum().backward()
        for a, b in zip(found, wanted):
            assert_same(a.grad.float(), b.grad, 5 * tolerance)


def test_bool_masks_of_wrong_sizes(device, fused):
    q = torch.ones(2, 2, 9, 16, device=device, dtype=fused)
    for shape in ((9, 8), (3, 1, 9, 9), (1, 1, 1, 9, 9)):
        with pytest.raises((RuntimeError, IndexError)):
            attend(q, q, q, attn_mask=torch.ones(shape, dtype=torch.bool, device=device))


def test_fused_dropout(device, fused):
    q, k, v = (x.to(device, fused).requires_grad_() for x in queries_keys_values())
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        out = attend(q, k, v, dropout_p=0.4)
        results.append(out.detach().cpu())
        # The result is linear in v: both sums are equal only where the gradient drops what the result dropped.
        (grad,) = torch.autograd.grad(out.float().sum(), v)
        assert_same((grad.float() * v.detach().float()).sum(), out.detach().float().sum().cpu(), 1e-2)
    assert torch.equal(*results) and not torch.equal(results[0], attend(q, k, v, dropout_p=0.4).detach().cpu())


def test_fused_results_need_no_copies(device, fused):
    x = torch.randn(2, 6, 3, 4, 8).to(device, fused)  # batch, length, (q, k, v), heads, width
    q, k, v = (part.transpose(1, 2) for part in x.unbind(2))
    out = attend(q, k, v)
    assert out.transpose(1, 2).is_contiguous()
    assert_same(out.float(), attend(*(part.cpu().float() for part in (q, k, v))), 1e-2)


def test_what_fused_kernels_do_not_take(device, fused):
    q, k, v = (x.to(device, fused) for x in queries_keys_values())
    mask = torch.zeros(5, 7, device=device, dtype=fused).requires_grad_()
    attend(q, k, v, attn_mask=mask).float().sum().backward()
    assert mask.grad.shape == mask.shape
    with sdpa_kernel(SDPBackend.OVERRIDEABLE), pytest.raises(RuntimeError, match="[Nn]o viable backend"):
        attend(q, k, v, attn_mask=mask)
    each = torch.func.vmap(lambda q, k, v: attend(q[None], k[None], v[None])[0])(q, k, v)
    assert_same(each.float(), attend(q, k, v).cpu().float(), 1e-2)


def test_fused_under_autocast(device, fused):
    q, k, v = (x.to(device) for x in queries_keys_values())
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        out = attend(q, k, v)
    assert out.dtype == torch.bfloat16
    assert_same(out.float(), attend(*queries_keys_values()), 3e-2)


@pytest.mark.parametrize("mask", [None, "attention", "padding", "both"])
def test_fused_multihead_attention(device, fused, mask):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    on_device, x = copy.deepcopy(module).to(device, fused), torch.randn(3, 6, 16)
    masks = masks_of(mask)
    moved = {k: v.to(device) for k, v in masks.items()}
    with torch.no_grad():
        expected = module(x, x, x, need_weights=False, **masks)[0]
        actual = on_device(*[x.to(device, fused)] * 3, need_weights=False, **moved)[0]
    assert_same(actual.float(), expected, 1e-4 if fused == torch.float32 else 1e-2)


def test_dropout_keeps_the_mean(device):
    ones = torch.ones(8, 8, 64, 64, device=device)
    assert abs(attend(ones, ones, ones, dropout_p=0.3).mean().item() - 1) < 0.02


def test_sdpa_kernel_is_honoured(device):
    """Kernels alone serve where products are faster, too: small float32 with gradients. float64 has no kernels."""
    results = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        inputs = [x.to(device).requires_grad_() for x in queries_keys_values()]
        with sdpa_kernel(backend):
            out = attend(*inputs)
        assert ("Fused" in out.grad_fn.name()) == (backend is not SDPBackend.MATH)
        out.square().sum().backward()
        results.append([out] + [x.grad for x in inputs])
    for found in results[1:]:
        for x, y in zip(found, results[0]):
            assert_same(x, y.cpu())
    wide = [x.to(device, torch.float64) for x in queries_keys_values()]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="[Nn]o viable backend"):
        attend(*wide)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("mask", [None, "attention", "padding", "both"])
def test_multihead_attention(device, mask, train):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True).train(train)
    on_device, x = copy.deepcopy(module).to(device), torch.randn(3, 6, 16)
    masks = masks_of(mask)
    moved = {k: v.to(device) for k, v in masks.items()}
    with torch.set_grad_enabled(train):
        for weights in (True, False):
            expected = module(x, x, x, need_weights=weights, **masks)
            actual = on_device(*[x.to(device)] * 3, need_weights=weights, **moved)
            assert_same(actual[0], expected[0])
            if weights:
                assert_same(actual[1], expected[1])
    if train:
        expected[0].square().sum().backward()
        actual[0].square().sum().backward()
        for p, q in zip(on_device.parameters(), module.parameters()):
            assert_same(p.grad, q.grad)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}], ids=["post_relu", "pre_gelu"])
def test_transformer_encoder(device, options, train):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True, **options)
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(train)
    on_device, x = copy.deepcopy(module).to(device), torch.randn(3, 6, 16)
    with torch.set_grad_enabled(train):
        actual, expected = on_device(x.to(device)), module(x)
    assert_same(actual, expected)
    if train:
        expected.square().sum().backward()
        actual.square().sum().backward()
        for p, q in zip(on_device.parameters(), module.parameters()):
            assert_same(p.grad, q.grad, 1e-3)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_padded_batch_through_the_encoder(device):
    torch.manual_seed(0)
    module = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    on_device, x = copy.deepcopy(module).to(device), torch.randn(3, 6, 16)
    padding = torch.arange(6) >= torch.tensor([[6], [4], [2]])
    with torch.no_grad():
        expected = module(x, src_key_padding_mask=padding)
        actual = on_device(x.to(device), src_key_padding_mask=padding.to(device))
    assert_same(actual.cpu()[~padding], expected[~padding])


@pytest.mark.parametrize("length", [5, 3000])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float16])
def test_rows_of_which_nothing_may_be_attended_to(length, dtype):
    x = torch.randn(4, length).half()
    x[1] = -torch.inf
    x[2, 1:] = -torch.inf
    expected, got = (torch.ops.aten._safe_softmax(v, -1, dtype) for v in (x, x.to("ocl")))
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-5)
    assert got.dtype == expected.dtype and not got[1].any()
    whole = torch.ones(2, dtype=torch.int32, device="ocl")
    with pytest.raises(NotImplementedError, match="softmax.*not implemented for 'Int'"):
        torch.ops.aten._safe_softmax(whole, 0)
    assert torch.ops.aten._safe_softmax(whole, 0, torch.float32).tolist() == [0.5, 0.5]


def test_sizes_of_gradients_are_foretold(device):
    """Of sizes that are symbols, too, as training under torch.compile has them."""
    aten = torch.ops.aten

    def gradients(q, k, v, grad):
        out, sums, _, _, *lengths, seed, offset, _ = aten._scaled_dot_product_fused_attention_overrideable(q, k, v)
        none = (None, None, *lengths, 0.0, False, seed, offset)
        wanted = [True, True, True, False]
        backward = aten._scaled_dot_product_fused_attention_overrideable_backward
        return backward(grad, q, k, v, None, wanted, out, sums, *none)[:3]

    inputs = [torch.randn(2, 2, 40, 16).to(device) for _ in range(4)]
    traced = make_fx(gradients, tracing_mode="symbolic")(*inputs)
    for found, wanted in zip(traced(*inputs), gradients(*inputs)):
        torch.testing.assert_close(found, wanted)
