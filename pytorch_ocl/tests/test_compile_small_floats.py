# SPDX-License-Identifier: MIT
"""torch.compile: floats of 8 bits in fused kernels, bit by bit as on the CPU."""

import pytest
import torch
from compiling import fresh, no_eager_graphs  # noqa: F401

KINDS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def patterns(kind):
    return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(kind)


def compiled(function, *inputs, device):
    with no_eager_graphs():
        return torch.compile(function, fullgraph=True)(*(x.to(device) for x in inputs)).cpu()


def same(found, expected):
    """Equal, NaN and signs of zeros, too."""
    assert found.dtype == expected.dtype
    found, expected = found.float(), expected.float()
    numbers = ~expected.isnan()
    assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found[numbers], expected[numbers])
    assert torch.equal(found[numbers].signbit(), expected[numbers].signbit())


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_of_8_bits(device, kind):
    x = patterns(kind)
    same(compiled(lambda x: x.float() * 2, x, device=device), x.float() * 2)
    same(compiled(lambda x: torch.cat([x, x]).view(2, 256).t().contiguous(), x, device=device), torch.stack([x, x], 1))
    bits = compiled(lambda x: (x + 1).view(kind).float(), torch.arange(255).to(torch.uint8), device=device)
    same(bits, patterns(kind)[1:].float())


@pytest.mark.parametrize("other", [torch.float64, torch.float32, torch.float16, torch.int32], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_are_rounded(device, kind, other):
    exact = patterns(kind).float().nan_to_num(nan=1.0).sort().values
    between = (exact[1:] + exact[:-1]) / 2
    around = [torch.nextafter(between, torch.tensor(end)) for end in (-1e30, 1e30)]
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.0, -0.0, 1e-30, -1e-30])
    x = torch.cat([exact, between, *around, special]).to(other)
    if not other.is_floating_point:
        x = torch.arange(-700, 700, dtype=other)
    same(compiled(lambda x: x.to(kind), x, device=device), x.to(kind))
    # Within a kernel they are rounded, too.
    same(compiled(lambda x: x.to(kind).to(torch.float32) * 0.5, x, device=device), x.to(kind).float() * 0.5)


def test_scaled_rows(device):
    def scaled(x):
        scale = x.abs().amax(1, keepdim=True) / 448
        kept = (x / scale).to(torch.float8_e4m3fn)
        return kept.float() * scale

    torch.manual_seed(0)
    x = torch.randn(7, 300)
    # A quotient rounded otherwise may go to the other neighbour, which is an eighth of the number away at most.
    found, expected = compiled(scaled, x, device=device), scaled(x)
    torch.testing.assert_close(found, expected, rtol=0.13, atol=1e-5)
    assert ((found - expected).abs() > 1e-5).float().mean() < 0.01
