# SPDX-License-Identifier: MIT
"""Scans with positions, modes, distinct elements, search in sorted sequences and histograms, beside the CPU: NaN, equal
elements, infinities, rows of every length, tensors that are not contiguous."""

import math

import pytest
import torch

SHAPES = [
    ((0, 3), 1),
    ((), 0),
    ((1,), 0),
    ((70001,), 0),
    ((3, 1030), 1),
    ((5, 4096), 1),
    ((2, 300, 5), 1),
    ((40, 7), 0),
]
TYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


def few_values(shape, dtype, seed=0, special=True):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 7, shape, generator=generator).to(dtype)
    if special and dtype.is_floating_point:
        x[torch.rand(shape, generator=generator) < 0.1] = -math.inf
        x[torch.rand(shape, generator=generator) < 0.1] = -0.0
        x[torch.rand(shape, generator=generator) < 2 / max(1, x.numel())] = math.nan
    return x


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", [torch.cummax, torch.cummin])
def test_positions_of_running_extremes(device, dtype, function):
    for shape, dim in SHAPES:
        x = few_values(shape, dtype)
        y = x.to(device)
        for got, expected in zip(function(y, dim), function(x, dim)):
            torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    x = few_values((600, 300), dtype)
    for view in (lambda t: t.t(), lambda t: t[:, 1:], lambda t: t[::2]):
        for got, expected in zip(function(view(x.to(device)), 1), function(view(x), 1)):
            torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def test_running_logarithms_of_sums(device):
    for shape, dim in SHAPES:
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 4
        got, expected = x.to(device).logcumsumexp(dim).cpu(), x.double().logcumsumexp(dim)
        torch.testing.assert_close(got.double(), expected, rtol=1e-6, atol=1e-6)
    x = torch.tensor([-math.inf, -math.inf, 0.0, -30.0, 90.0, -200.0, math.inf, -math.inf, 1.0, math.nan, 1.0])
    for repeats in (1, 200, 7000):
        long = torch.cat([torch.full((repeats,), -math.inf), x.repeat_interleave(repeats)])
        expected = long.double().logcumsumexp(0).float()
        torch.testing.assert_close(
            long.to(device).logcumsumexp(0).cpu(), expected, rtol=1e-6, atol=1e-6, equal_nan=True
        )
    leaf = torch.randn(3, 2000, generator=torch.Generator().manual_seed(1))
    gradients = []
    for place, dtype in (("cpu", torch.float64), (device, torch.float32)):
        x = leaf.to(place, dtype).requires_grad_()
        (x.logcumsumexp(1) * torch.linspace(-1, 1, 2000).to(place, dtype)).sum().backward()
        gradients.append(x.grad.cpu().double())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [torch.cumsum, torch.logcumsumexp])
def test_long_scans_of_complex_numbers(device, function):
    """They do not become worse with each number."""
    torch.manual_seed(0)
    x = torch.polar(0.9 + 0.2 * torch.rand(200003), torch.rand(200003) * 3)
    expected = function(x.to(torch.complex128), 0)
    error = (function(x.to(device), 0).cpu().to(torch.complex128) - expected).abs() / expected.abs().clamp(min=1)
    assert error.max() < 3e-6


@pytest.mark.parametrize("dtype", TYPES)
def test_modes(device, dtype):
    for shape in ((3, 1), (4, 30), (5, 1000), (2, 4096), (2, 20000)):
        x = few_values(shape, dtype, seed=shape[1], special=False)
        if dtype.is_floating_point:
            x[:, ::3] = math.nan if shape[1] < 100 else -0.0
        for keepdim in (False, True):
            values, places = x.to(device).mode(1, keepdim)
            for row, value, place in zip(x, values.view(-1).cpu(), places.view(-1).tolist()):
                counts = {}
                for element in row.tolist():
                    counts["nan" if element != element else element + 0] = (
                        counts.get("nan" if element != element else element + 0, 0) + 1
                    )
                most = max(counts.values())
                best = min((k for k, n in counts.items() if n == most), key=lambda k: math.inf if k == "nan" else k)
                same = row.isnan() if best == "nan" else row == best
                assert place == int(same.nonzero()[-1])
                assert value.isnan() if best == "nan" else value == best
    x = few_values((30, 20, 10), dtype, special=False)
    assert torch.equal(x.to(device).transpose(0, 2).mode(1)[0].cpu(), x.transpose(0, 2).mode(1)[0])
    values, places = torch.empty(3, 4, dtype=dtype, device=device).t(), torch.empty(9, dtype=torch.int64, device=device)
    torch.mode(x[:4, :3].to(device), 2, out=(values, places))
    assert torch.equal(values.cpu(), x[:4, :3].mode(2)[0])


@pytest.mark.parametrize("dtype", TYPES)
def test_distinct_elements(device, dtype):
    for shape in ((0,), (), (1,), (50,), (5001,), (30, 1000), (3, 5, 7)):
        x = few_values(shape, dtype, special=False)
        for inverse in (False, True):
            for counts in (False, True):
                for function in (torch.unique, torch.unique_consecutive):
                    options = {"return_inverse": inverse, "return_counts": counts}
                    got, expected = function(x.to(device), **options), function(x, **options)
                    for a, b in zip(got, expected) if inverse or counts else [(got, expected)]:
                        assert torch.equal(a.cpu(), b), (shape, options)
    x = few_values((600, 300), dtype, special=False)
    assert torch.equal(x.to(device).t()[1:].unique_consecutive().cpu(), x.t()[1:].unique_consecutive())
    assert torch.equal(x.flatten().to(device)[1:].unique_consecutive().cpu(), x.flatten()[1:].unique_consecutive())
    for got, expected in zip(*(t.unique(dim=0, return_inverse=True, return_counts=True) for t in (x.to(device), x))):
        assert torch.equal(got.cpu(), expected)


def test_distinct_elements_that_are_no_numbers(device):
    x = torch.tensor([math.nan, 1, -0.0, math.nan, 0.0, 1])
    values, inverse, counts = x.to(device).unique(return_inverse=True, return_counts=True)
    torch.testing.assert_close(values.cpu(), torch.tensor([0, 1, math.nan, math.nan]), equal_nan=True)
    assert counts.tolist() == [2, 2, 1, 1]
    assert inverse.tolist() == [2, 1, 0, 3, 0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
@pytest.mark.parametrize("right", [False, True])
def test_search_in_sorted_sequences(device, dtype, right):
    generator = torch.Generator().manual_seed(0)
    for length in (0, 1, 2, 100, 1025, 4096, 4097, 30000):
        edges = torch.randint(0, 250, (length,), generator=generator).sort()[0].to(dtype)
        for n in (1, 5000, 140000):
            x = torch.randint(0, 254, (n,), generator=generator).to(dtype)
            if dtype.is_floating_point:
                x[::7] += 0.5
                x[::11], x[1::11] = math.inf, -math.inf
            for out_int32 in (False, True):
                got = torch.bucketize(x.to(device), edges.to(device), right=right, out_int32=out_int32)
                assert torch.equal(got.cpu(), torch.bucketize(x, edges, right=right, out_int32=out_int32)), (length, n)
    rows = torch.randint(0, 99, (3, 700), generator=generator).to(dtype)
    order = rows.argsort(1)
    x = torch.randint(0, 99, (3, 20000), generator=generator).to(dtype)
    got = torch.searchsorted(rows.to(device), x.to(device), right=right, sorter=order.to(device))
    assert torch.equal(got.cpu(), torch.searchsorted(rows, x, right=right, sorter=order))
    got = torch.searchsorted(rows.sort(1)[0].to(device), x[:, :9].to(device), right=right)
    assert torch.equal(got.cpu(), torch.searchsorted(rows.sort(1)[0], x[:, :9], right=right))


def test_search_among_numbers_and_none(device):
    """NaN is the largest, in the sequence and among the values."""
    edges = torch.tensor([-math.inf, 0.0, 1.0, math.inf, math.nan, math.nan])
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.5, -0.0]).repeat(3000)
    for right, expected in ((False, [4, 3, 0, 2, 1]), (True, [6, 4, 1, 2, 2])):
        got = torch.searchsorted(edges.to(device), x.to(device), right=right).view(-1, 5).cpu()
        assert (got == torch.tensor(expected)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8])
def test_histograms_of_equal_widths(device, dtype):
    x = torch.randint(0, 200, (300, 200), generator=torch.Generator().manual_seed(0)).to(dtype)
    if dtype == torch.float32:
        x = x / 16
        x[0, :2] = torch.tensor([math.nan, -0.0])
    for bins in (1, 10, 100) if dtype == torch.bfloat16 else (1, 10, 100, 3000):
        for bounds in ((0, 0), (0, 12), (-3, 50), (5, 6)):
            if bounds == (0, 0) and dtype == torch.float32:
                continue
            whole = dtype in (torch.int32, torch.uint8)
            expected = torch.histc(x.double() if whole else x, bins, *bounds).float()
            for view in (lambda t: t, lambda t: t.t()):
                got = torch.histc(view(x.to(device)), bins, *bounds)
                assert got.dtype == dtype
                if dtype == torch.float32 or expected.max() < 100:
                    assert torch.equal(got.cpu().float(), expected), (bins, bounds)
    assert torch.histc(torch.full((5,), 3, dtype=dtype, device=device), 4).sum() == 5
    assert torch.histc(torch.empty(0, dtype=dtype, device=device), 4).tolist() == [0] * 4
    with pytest.raises(RuntimeError, match="finite"):
        torch.histc(torch.tensor([1.0, math.nan], device=device), 4)


@pytest.mark.parametrize("bins", [1, 7, 3000])
def test_histograms_of_doubles_take_the_least_and_the_largest(device, bins):
    x = torch.randn(3696, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for bounds in ((0, 0), (x.min().item(), x.max().item())):
        counts = torch.histc(x.to(device), bins, *bounds).cpu()
        assert counts.sum() == 3696 and counts[0] > 0 and counts[-1] > 0
