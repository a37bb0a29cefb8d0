# SPDX-License-Identifier: MIT
"""Attention against the CPU, with no operator left to the CPU."""
import copy

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend


@pytest.fixture(autouse=True)
def nothing_on_the_cpu():
    torch.ocl.reset_fallbacks()
    yield
    assert not torch.ocl.fallbacks()


def assert_same(actual, expected, tolerance=1e-4):
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance)


def queries_keys_values(key_heads=4):
    torch.manual_seed(0)
    return torch.randn(2, 4, 5, 8), torch.randn(2, key_heads, 7, 8), torch.randn(2, key_heads, 7, 8)


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.arange(35).view(5, 7) % 3 != 0},
    {"attn_mask": torch.linspace(-1, 1, 35).view(5, 7)}, {"enable_gqa": True},
], ids=["plain", "causal", "scale", "bool_mask", "float_mask", "gqa"])
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


def test_dropout_keeps_the_mean(device):
    ones = torch.ones(8, 8, 64, 64, device=device)
    assert abs(attend(ones, ones, ones, dropout_p=0.3).mean().item() - 1) < 0.02


def test_sdpa_kernel_is_honoured(device):
    inputs = [x.to(device) for x in queries_keys_values()]
    with sdpa_kernel(SDPBackend.MATH):
        attend(*inputs)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="[Nn]o viable backend"):
        attend(*inputs)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("mask", [None, "attention", "padding", "both"])
def test_multihead_attention(device, mask, train):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True).train(train)
    on_device, x = copy.deepcopy(module).to(device), torch.randn(3, 6, 16)
    masks = {}
    if mask in ("attention", "both"):
        masks["attn_mask"] = torch.ones(6, 6).triu(1).bool()
    if mask in ("padding", "both"):
        masks["key_padding_mask"] = torch.arange(6) >= torch.tensor([[6], [4], [2]])
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
