# SPDX-License-Identifier: MIT
"""Nested tensors: the encoder's way through them, their operators, their attention."""

import pytest
import torch
from torch import nn

LENGTHS = [[5, 5, 5], [5, 3, 1], [4, 2, 1], [1, 1, 1]]


def padding_of(lengths, longest=5):
    return torch.arange(longest)[None] >= torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padded_rows_of_an_encoder_in_evaluation(device, norm_first, dtype):
    """Zeros, as on the CPU, where the padding is at the ends of the sequences."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, dtype=dtype)
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16, dtype=dtype), enable_nested_tensor=not norm_first).eval()
    x = torch.randn(3, 5, 16, dtype=dtype)
    masks = [padding_of(lengths) for lengths in LENGTHS] + [padding_of([5, 3, 4]).flip(1)]
    with torch.no_grad():
        expected = [model(x, src_key_padding_mask=mask) for mask in masks]
        model.to(device)
        for mask, y in zip(masks, expected):
            got = model(x.to(device), src_key_padding_mask=mask.to(device))
            torch.testing.assert_close(got.cpu(), y, rtol=1e-4, atol=1e-5)


def both(device, *sizes, dtype=torch.float32):
    torch.manual_seed(1)
    parts = [torch.randn(*size, dtype=dtype) for size in sizes]
    return torch.nested.nested_tensor(parts), torch.nested.nested_tensor([p.to(device) for p in parts])


def check(got, expected):
    if expected.is_nested:
        assert got.is_nested and got.device.type == "ocl"
        got, expected = got.unbind(), expected.unbind()
        assert len(got) == len(expected)
    else:
        got, expected = [got], [expected]
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, d: x + x,
        lambda x, d: x * 3,
        lambda x, d: x.sin().relu_(),
        lambda x, d: x.to_padded_tensor(-1.0),
        lambda x, d: x.to_padded_tensor(2.0, (4, 9, 8)),
        lambda x, d: nn.functional.gelu(x),
        lambda x, d: x.transpose(1, 2),
        lambda x, d: nn.functional.layer_norm(x, (6,), torch.linspace(0, 1, 6, device=d), torch.ones(6, device=d)),
        lambda x, d: nn.functional.linear(x, torch.linspace(0, 1, 24, device=d).view(4, 6)),
        lambda x, d: x.softmax(-1),
        lambda x, d: x.bmm(x.transpose(1, 2)),
        lambda x, d: torch.cat([x, x]),
        lambda x, d: x.clone().fill_(2.0),
        lambda x, d: x.to(torch.float64),
        lambda x, d: x.unsqueeze(1).squeeze(1),
        lambda x, d: x[1],
        lambda x, d: -x.abs(),
        lambda x, d: torch.empty_like(x).copy_(x),
    ],
    ids=range(18),
)
def test_operators(device, operation):
    for sizes in ([(3, 6), (5, 6), (1, 6)], [(2, 6), (2, 6)], [(0, 6), (4, 6)]):
        x, y = both(device, *sizes)
        check(operation(y, device), operation(x, "cpu"))


def test_irregular_parts_are_padded(device):
    x, y = both(device, (2, 3, 4), (5, 1, 2))
    check(y.to_padded_tensor(0.5), x.to_padded_tensor(0.5))
    x, y = both(device, (2, 3), (5, 4))
    check(y.to_padded_tensor(0.5), x.to_padded_tensor(0.5))


def test_attention_of_nested_tensors(device):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, y = both(device, (3, 8), (5, 8))
    with torch.no_grad():
        expected = attention(x, x, x, need_weights=False)[0]
        check(attention.to(device)(y, y, y, need_weights=False)[0], expected)
    q, k = both(device, (2, 3, 4), (2, 5, 4))
    check(nn.functional.scaled_dot_product_attention(k, k, k), nn.functional.scaled_dot_product_attention(q, q, q))


def test_gradients(device):
    x, y = both(device, (3, 6), (5, 6))
    weight = torch.linspace(-1, 1, 24).view(4, 6)
    gradients = []
    for z, w in ((x, weight), (y, weight.to(device))):
        z.requires_grad_(), w.requires_grad_()
        ones = torch.ones(4, device=w.device)
        nn.functional.layer_norm(nn.functional.linear(z, w), (4,), ones, ones).to_padded_tensor(
            0.0
        ).sin().sum().backward()
        gradients.append((z.grad, w.grad))
    (x_grad, w_grad), (y_grad, v_grad) = gradients
    check(y_grad, x_grad), check(v_grad, w_grad)


def test_errors_name_what_is_irregular(device):
    x = torch.nested.nested_tensor([torch.ones(2, 3, 4), torch.ones(2, 5, 4)], device=device)
    with pytest.raises(RuntimeError, match="extends into irregular dimensions"):
        nn.LayerNorm((3, 4), device=device)(x)
    with pytest.raises(RuntimeError, match="The shape at dimension 0"):
        nn.LayerNorm(5, device=device)(x)
    empty = torch.nested.nested_tensor([torch.ones(1, 0), torch.ones(0, 0)], device=device)
    with pytest.raises(RuntimeError, match="at least one constituent tensor should have non-zero numel"):
        empty.to_padded_tensor(0.0)


@pytest.mark.parametrize("width", [4, 64])
def test_sequences_that_are_all_padding_give_no_nan(device, width):
    """Heads that the fused kernels decline, and others."""
    layer = nn.TransformerEncoderLayer(width, 2, 16, batch_first=True, device=device).eval()
    x, mask = torch.randn(2, 3, width, device=device), torch.tensor([[True] * 3, [False] * 3], device=device)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            assert layer(x, src_key_padding_mask=mask).isfinite().all()
