# SPDX-License-Identifier: MIT
"""Dtypes of 8 bits and fewer, which are storage: what the CPU does with them, bit by bit."""

import pytest
import torch

KINDS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
ALL = [*KINDS, torch.float4_e2m1fn_x2]
OTHERS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def patterns(kind):
    return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(kind)


def same_bits(actual, expected):
    return actual.dtype == expected.dtype and torch.equal(actual.cpu().view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("kind", ALL)
def test_copies(kind):
    x = patterns(kind).view(16, 16)
    y = x.to("ocl")
    assert same_bits(y, x) and same_bits(y.clone(), x) and same_bits(y.t().contiguous(), x.t().contiguous())
    assert same_bits(y[::2, 1:5], x[::2, 1:5].contiguous())
    assert same_bits(torch.cat([y, y], 1), torch.cat([x.view(torch.uint8)] * 2, 1).view(kind))
    assert not torch.zeros(4, 4, device="ocl", dtype=torch.uint8).view(kind).view(torch.uint8).any()
    assert not y.clone().zero_().view(torch.uint8).any()


@pytest.mark.parametrize("other", OTHERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_to_numbers(kind, other):
    x = patterns(kind)
    expected, actual = x.to(other), x.to("ocl").to(other).cpu()
    assert actual.dtype == other
    assert torch.equal(actual.nan_to_num(nan=12345.0), expected.nan_to_num(nan=12345.0))
    assert torch.equal(torch.signbit(actual)[~expected.isnan()], torch.signbit(expected)[~expected.isnan()])


@pytest.mark.parametrize("other", [*OTHERS, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_from_numbers(kind, other):
    if other.is_floating_point:
        # Every number of 16 bits, and around all midpoints of what the kind holds.
        halves = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
        exact = patterns(kind).float().nan_to_num(nan=1.0).sort().values
        between = (exact[1:] + exact[:-1]) / 2
        x = torch.cat([halves.view(torch.bfloat16).float(), halves.view(torch.float16).float(), between,
                       torch.nextafter(between, torch.tensor(0.0)), torch.nextafter(between, torch.tensor(1e30)),
                       torch.randn(1000) * 100]).to(other)  # fmt: skip
    else:
        x = torch.arange(-300, 300).to(other)
    expected, actual = x.to(kind), x.to("ocl").to(kind).cpu()
    wrong = (actual.view(torch.uint8) != expected.view(torch.uint8)).nonzero().flatten()
    # Which NaN comes out of a NaN is no one's promise.
    if other.is_floating_point:
        wrong = wrong[~x[wrong].isnan()]
        assert actual[x.isnan()].float().isnan().all()
    assert wrong.numel() == 0, (
        x[wrong[:5]],
        actual.view(torch.uint8)[wrong[:5]],
        expected.view(torch.uint8)[wrong[:5]],
    )


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_between_kinds(source, kind):
    x = patterns(source)
    x = x[~x.float().isnan()]
    assert same_bits(x.to("ocl").to(kind), x.to(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_operators(kind):
    x = patterns(kind)
    y = x.to("ocl")
    index, mask = torch.tensor([3, 255, 0]), torch.arange(256) % 3 == 0
    assert same_bits(torch.full((3, 2), 1.7, dtype=kind, device="ocl"), torch.full((3, 2), 1.7, dtype=kind))
    assert same_bits(y[index.to("ocl")], x[index]) and same_bits(y[mask.to("ocl")], x[mask])
    assert same_bits(y.index_select(0, index.to("ocl")), x.index_select(0, index))
    assert same_bits(
        torch.where(mask.to("ocl"), y, y.view(16, 16).t().reshape(-1)),
        torch.where(mask, x, x.view(16, 16).t().reshape(-1)),
    )
    assert torch.equal((y == y).cpu(), x == x) and torch.equal((y != y).cpu(), x != x)
    assert torch.equal((y == 1.0).cpu(), x == 1.0)
    assert torch.equal(y.isnan().cpu(), x.isnan())
    assert y[100].item() == x[100].item() and repr(y[:4].cpu()) == repr(x[:4])
    assert "device='ocl:0'" in repr(y[:4])
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8"):
        y + y
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8"):
        y.clone().index_put_((index.to("ocl"),), y[:3], accumulate=True)


@pytest.mark.parametrize("kind", [torch.bits1x8, torch.bits2x4, torch.bits4x2, torch.bits8, torch.bits16], ids=str)
def test_bits_are_moved(kind):
    integers = torch.uint8 if kind.itemsize == 1 else torch.int16
    x = torch.arange(64, dtype=torch.int16).mul(517).view(integers).view(8, -1)
    y, index = x.view(kind).to("ocl"), torch.tensor([2, 0], device="ocl")
    for move in (
        lambda a: a.t().contiguous(),
        lambda a: torch.cat([a, a[:, ::2]], 1),
        lambda a: torch.stack([a, a.flip(0)]),
        lambda a: a.index_select(0, index.to(a.device)),
        lambda a: torch.where(torch.ones(8, 1, dtype=torch.bool, device=a.device), a, a),
        lambda a: a.clone().zero_(),
        lambda a: torch.zeros(5, dtype=a.dtype, device=a.device),
        lambda a: a.to("cpu"),
    ):
        assert torch.equal(move(y).cpu().view(integers), move(x))
    for refused in (
        lambda: y.to(torch.float32),
        lambda: torch.ones(2, device="ocl").to(kind),
        lambda: y == y,
        lambda: y.fill_(1),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bits"):
            refused()


def test_float4_is_storage_alone():
    y = torch.zeros(4, dtype=torch.uint8, device="ocl").view(torch.float4_e2m1fn_x2)
    with pytest.raises(NotImplementedError, match="Float4_e2m1fn_x2"):
        y.to(torch.float32)


@pytest.mark.parametrize("other", [torch.uint16, torch.uint32, torch.uint64, torch.complex32], ids=str)
def test_other_storage(other):
    x = torch.tensor([0, 1, 5, 100], dtype=torch.float32).to(other)
    y = x.to("ocl")
    assert same_bits(y, x) and same_bits(y.view(2, 2).t().contiguous(), x.view(2, 2).t().contiguous())
    assert same_bits(torch.cat([y, y]), torch.cat([x, x])) and same_bits(
        y[torch.tensor([2, 0], device="ocl")], x[[2, 0]]
    )
    assert same_bits(torch.full_like(y, 3), torch.full_like(x, 3))
    if other != torch.complex32:
        assert torch.equal((y == y).cpu(), x == x)


class TestScaledProduct:
    def factors(self, m=32, k=64, n=48, kinds=(torch.float8_e4m3fn, torch.float8_e4m3fn)):
        return torch.randn(m, k).to(kinds[0]), torch.randn(n, k).to(kinds[1]).t()

    @pytest.mark.parametrize("kinds", [(torch.float8_e4m3fn,) * 2, (torch.float8_e5m2, torch.float8_e4m3fn)])
    @pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn])
    def test_scales(self, kinds, out):
        a, b = self.factors(kinds=kinds)
        exact = a.double() @ b.double()
        for scale_a, scale_b in ((torch.tensor(0.5), torch.tensor(2.0)), (torch.rand(32, 1), torch.rand(1, 48))):
            got = torch._scaled_mm(*(t.to("ocl") for t in (a, b)), scale_a.to("ocl"), scale_b.to("ocl"), out_dtype=out)
            wanted = exact * scale_a.double() * scale_b.double()
            assert (
                got.dtype == out
                and (got.cpu().double() - wanted).abs().max() < 2 * torch.finfo(out).eps * wanted.abs().max()
            )

    def test_recipes(self):
        recipe = torch.nn.functional.ScalingType
        a, b = self.factors()
        x, y = a.to("ocl"), b.to("ocl")
        for kind, scales in (
            (recipe.TensorWise, (torch.tensor([0.5]), torch.tensor([2.0]))),
            (recipe.RowWise, (torch.rand(32, 1), torch.rand(1, 48))),
        ):
            scale_a, scale_b = (s.to("ocl") for s in scales)
            got = torch.nn.functional.scaled_mm(x, y, scale_a, kind, scale_b, kind)
            wanted = (a.double() @ b.double() * scales[0].double() * scales[1].double()).to(torch.bfloat16)
            assert got.dtype == torch.bfloat16
            torch.testing.assert_close(got.cpu(), wanted, rtol=2e-2, atol=1e-2)
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            torch.nn.functional.scaled_mm(x, y, scale_a, recipe.TensorWise, scale_b, recipe.RowWise)
        with pytest.raises(ValueError, match="do not fit the recipe TensorWise"):
            torch.nn.functional.scaled_mm(x, y, scale_a, recipe.TensorWise, scale_b, recipe.TensorWise)

    def test_bias(self):
        a, b = self.factors()
        bias, one = torch.randn(48, dtype=torch.bfloat16), torch.tensor(1.0)
        got = torch._scaled_mm(*(t.to("ocl") for t in (a, b, one, one)), bias=bias.to("ocl"), out_dtype=torch.bfloat16)
        assert (got.cpu().double() - (a.double() @ b.double() + bias.double())).abs().max() < 0.2

    def test_errors(self):
        a, b = (t.to("ocl") for t in self.factors())
        one = torch.tensor(1.0, device="ocl")
        with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(32x64 and 32x48\)"):
            torch._scaled_mm(a, b[:32], one, one)
        with pytest.raises(RuntimeError, match="Expected trailing dimension of mat1 to be divisible by 16"):
            torch._scaled_mm(a[:, :8], b[:8], one, one)
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            torch._scaled_mm(a, b, one.expand(32), one)
        with pytest.raises(RuntimeError, match="Multiplication of two Float8_e5m2 matrices is not supported"):
            torch._scaled_mm(a.to(torch.float8_e5m2), b.to(torch.float8_e5m2), one, one)
        with pytest.raises(RuntimeError, match="Bias is not supported when out_dtype is set to Float32"):
            torch._scaled_mm(a, b, one, one, bias=torch.ones(48, device="ocl"), out_dtype=torch.float32)
