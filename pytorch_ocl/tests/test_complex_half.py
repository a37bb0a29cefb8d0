# SPDX-License-Identifier: MIT
"""Complex numbers of two float16: every elementwise operator that complex64 has, sums, means and products, computed
in that."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

OPERATORS = {
    "add": lambda x, y: torch.add(x, y, alpha=2),
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "number": lambda x, y: x * 2.5 + (1 + 1j),
    "conjugate": lambda x, y: x.conj() * y.t().t(),
    "in_place": lambda x, y: x.clone().mul_(y),
    "into_conjugate": lambda x, y: x.clone().conj().copy_(y).conj(),
    "transposed": lambda x, y: x.t() * y.t(),
    "expanded": lambda x, y: x * y[:1],
    "eq": lambda x, y: x == x,
    "ne": lambda x, y: x != y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "real": lambda x, y: x.real,
    "imag": lambda x, y: x.conj().imag,
    "sqrt": lambda x, y: x.sqrt(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "half": lambda x, y: x * y.real,
    "sum": lambda x, y: x.sum(0),
    "mean": lambda x, y: y.mean(),
    "prod": lambda x, y: x[:2].prod(0),
    "prod_of_all": lambda x, y: x[0, :3].prod(),
    "fft": lambda x, y: torch.fft.fft(x, dim=0),
    "irfft": lambda x, y: torch.fft.irfft2(x, norm="ortho"),
    "complex": lambda x, y: torch.complex(x.real, y.real),
    "polar": lambda x, y: torch.polar(x.abs(), y.real),
}


INDEX = torch.tensor([2, 0, 1])
MOVES = {
    "flip": lambda x, i: x.flip(0, 1),
    "rot90": lambda x, i: x.rot90(),
    "tril": lambda x, i: x.tril(),
    "triu": lambda x, i: x.t().triu(1),
    "gather": lambda x, i: x.gather(0, i.view(1, 3)),
    "take": lambda x, i: x.take(i),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:3]),
    "index_fill": lambda x, i: x.index_fill(1, i, 2 + 1j),
    "index_add": lambda x, i: x.index_add(0, i, x[:3], alpha=2),
    "index_put": lambda x, i: x.index_put((i,), x[:3], accumulate=True),
    "masked_fill": lambda x, i: x.masked_fill(x.real > 0, 1 - 2j),
    "masked_fill_tensor": lambda x, i: x.masked_fill(x.real > 0, x[0, 0]),
    "masked_scatter": lambda x, i: x.masked_scatter(x.real > 0, x.t().contiguous()),
    "nonzero": lambda x, i: (x * torch.tensor([0, 1, -0.0, 1, 1], device=x.device)).nonzero(),
    "sparse": lambda x, i: x.tril().to_sparse().to_dense(),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name, device):
    x = torch.randn(4, 5, dtype=torch.complex64).to(torch.complex32)
    got = MOVES[name](x.to(device), INDEX.to(device)).cpu()
    expected = MOVES[name](x.to(torch.complex64), INDEX)
    if got.is_complex():
        assert got.dtype == torch.complex32
        got = got.to(torch.complex64)
    torch.testing.assert_close(got, expected, rtol=2e-3, atol=2e-3)


@pytest.fixture(autouse=True)
def on_the_device(set_variable):
    set_variable("PYTORCH_OCL_FALLBACK", "error")


@pytest.mark.parametrize("name", OPERATORS)
def test_elementwise(name, device):
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(4, 5, dtype=torch.complex64, generator=generator).to(torch.complex32) for _ in range(2))
    got = OPERATORS[name](x.to(device), y.to(device)).cpu()
    wide = OPERATORS[name](x.to(torch.complex64), y.to(torch.complex64))
    narrow = {torch.complex64: torch.complex32, torch.float32: torch.float16}.get(wide.dtype, wide.dtype)
    assert got.dtype == narrow
    if wide.is_complex():
        got = got.to(wide.dtype)
    torch.testing.assert_close(got.to(wide.dtype), wide, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("other", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128])
def test_beside_wider_numbers(other, device):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(4, 5, dtype=torch.complex64, generator=generator).to(torch.complex32)
    y = torch.randn(4, 5, generator=generator).to(other)
    for operate in (torch.add, torch.mul, torch.div, torch.eq, lambda x, y: y - x, lambda x, y: x[0, 0] * y[0, 0]):
        got, expected = operate(x.to(device), y.to(device)).cpu(), operate(x.to(torch.promote_types(x.dtype, other)), y)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("other", [torch.bool, torch.int64, torch.float16, torch.float32, torch.complex64])
def test_joined_with_other_dtypes(device, other):
    x, y = torch.tensor([3 + 1j, 4], dtype=torch.complex32), torch.tensor([1, 0]).to(other)
    for pair in ((x, y), (y, x)):
        torch.testing.assert_close(torch.cat([t.to(device) for t in pair]).cpu(), torch.cat(pair))
