# SPDX-License-Identifier: MIT
"""Tensors of no element and of no dimension, results of other dtypes, expanded operands: the same as on the CPU."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("function", [torch.median, torch.nanmedian])
def test_median_of_nothing(device, function, dtype):
    x = torch.empty(2, 0, dtype=dtype)
    torch.testing.assert_close(function(x.to(device)).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("k", [0, 1])
def test_largest_of_one_number(device, k):
    values, indices = torch.tensor(-6, device=device).topk(k)
    assert (values.item(), indices.item()) == (-6, 0)


@pytest.mark.parametrize("to", [torch.complex64, torch.complex128, torch.int64, torch.uint8, torch.bool, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.int32, torch.bool])
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_sums_add_numbers_of_the_results_dtype(device, dtype, to):
    x = torch.tensor([[1.75, 1.75, 0.25], [1.0, -1.0, 0.0]])  # what rounds to whole numbers, what cancels
    x = (x * (1 + 2j) if dtype.is_complex else x).to(dtype)
    y = x.to(device)
    for dim in (1, (0, 1)):
        torch.testing.assert_close(torch.sum(y, dim, dtype=to).cpu(), torch.sum(x, dim, dtype=to))
        out = torch.empty(0, dtype=to, device=device)
        assert torch.equal(torch.sum(y, dim, out=out), torch.sum(y, dim, dtype=to))
    torch.testing.assert_close(y.sum(dtype=to).cpu(), x.sum(dtype=to))


@pytest.mark.parametrize("to", [torch.complex64, torch.complex128, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int32])
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_means_of_the_results_dtype(device, dtype, to):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    torch.testing.assert_close(x.to(device).mean(1, dtype=to).cpu(), x.mean(1, dtype=to))
    torch.testing.assert_close(x.to(device).mean(dtype=to).cpu(), x.mean(dtype=to))


def test_means_are_no_integers(device):
    for where in ("cpu", device):
        out = torch.empty(2, dtype=torch.int64, device=where)
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            torch.mean(torch.ones(2, 2, device=where), 1, out=out)


@pytest.mark.parametrize("function", [torch.conv2d, torch.conv_transpose2d])
def test_expanded_operands_of_grouped_convolutions(function, device):
    """The gradient of a sum is one element for all positions; an image may be repeated so as well."""
    image, weight = torch.randn(1, 8, 6, 9), torch.randn(8, 4, 3, 3)

    def gradients(where):
        x, w = image.to(where).requires_grad_(), weight.to(where).requires_grad_()
        function(x.expand(3, -1, -1, -1), w, padding=1, groups=2).sum().backward()
        return x.grad.cpu(), w.grad.cpu()

    for ours, expected in zip(gradients(device), gradients("cpu"), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["kthvalue", "mode", "index_select", "masked_select", "histc", "bucketize", "nonzero"])
def test_results_of_other_sizes_than_out_warn(device, name):
    x = torch.rand(4, 5, device=device)
    number, like = torch.ones(3, device=device), torch.ones(3, dtype=torch.int64, device=device)
    function, arguments, out = {
        "kthvalue": (torch.kthvalue, (x, 2), (number, like)),
        "mode": (torch.mode, (x,), (number, like)),
        "index_select": (torch.index_select, (x, 0, like), number),
        "masked_select": (torch.masked_select, (x, x >= 0), number),
        "histc": (torch.histc, (x,), number),
        "bucketize": (torch.bucketize, (x, number), like),
        "nonzero": (torch.nonzero, (x,), like),
    }[name]
    with pytest.warns(UserWarning, match="was resized"):
        function(*arguments, out=out)


def test_edges_of_a_histogram_are_its_own(device):
    edges = torch.tensor([0.0, 0.5, 1.0], device=device)
    counts, given = torch.histogram(torch.rand(10, device=device), edges)
    edges.zero_()
    assert given.tolist() == [0, 0.5, 1] and counts.sum() == 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_of_narrow_numbers_are_wide(device, dtype):
    x, ones = (torch.randn(4, 6, device=device) * 1e-5).to(dtype), torch.ones(6, device=device, dtype=dtype)
    y, mean, rstd = torch.native_layer_norm(x, [6], ones, None, 1e-14)  # 1 / std is above float16's largest
    assert mean.dtype == rstd.dtype == torch.float32 and rstd.isfinite().all()
    expected = torch.nn.functional.layer_norm(x.float(), [6], eps=1e-14).to(dtype)
    torch.testing.assert_close(y, expected, rtol=0.01, atol=0.01)
    saved = torch.native_batch_norm(x, ones, None, ones.clone(), ones.clone(), True, 0.1, 1e-5)[1:]
    assert {s.dtype for s in saved} == {torch.float32}


@pytest.mark.parametrize("find", [torch.max, torch.min])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_real_extremes_of_complex_outputs_have_no_imaginary_part(device, find, dtype):
    x = torch.tensor([3, -2, 7, 1], dtype=dtype)
    out = torch.full((), 5 + 5j, device=device)
    find(x.to(device), out=out)
    assert out.item() == find(x, out=torch.zeros((), dtype=torch.complex64)).item()


@pytest.mark.parametrize("function", [torch.std, torch.var, torch.nansum])
def test_real_sums_of_complex_outputs_have_no_imaginary_part(device, function):
    x, out = torch.rand(3, 5), torch.full((3,), 5 + 5j, device=device)
    function(x.to(device), dim=1, out=out)
    torch.testing.assert_close(out.cpu(), function(x, dim=1).to(torch.complex64))


def test_batch_norm_saves_statistics_with_gaps(device):
    x = torch.randn(3, 4, 5)
    names = (None, None, None, None, True, 0.1, 1e-5)
    expected = torch.native_batch_norm(x, *names)
    outs = [torch.zeros(*result.shape, 2, device=device)[..., 0] for result in expected]
    torch.native_batch_norm(x.to(device), *names, out=outs)
    for result, wanted in zip(outs, expected, strict=True):
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-4, atol=1e-4)


def test_batch_norm_refuses_outputs_of_other_dtypes(device):
    x = torch.randn(3, 4, 5, device=device)
    for dtype in (torch.int32, torch.bool, torch.complex64):
        outs = [torch.zeros(shape, dtype=dtype, device=device) for shape in ((3, 4, 5), 4, 4)]
        with pytest.raises(RuntimeError, match="expected out of the input's dtype"):
            torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=outs)
        outs[0] = torch.zeros_like(x)
        with pytest.raises(RuntimeError, match="expected statistics of a floating dtype"):
            torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=outs)


@pytest.mark.parametrize("part", [torch.tril, torch.triu])
def test_diagonals_far_outside_of_a_matrix(device, part):
    x = torch.rand(2, 3, 4)
    for diagonal in (5, -5, 2**40, -(2**40), 2**63 - 1, -(2**63)):
        expected = part(x, max(-5, min(5, diagonal)))
        assert torch.equal(part(x.to(device), diagonal).cpu(), expected), diagonal


@pytest.mark.parametrize("indices", [torch.tril_indices, torch.triu_indices])
def test_indices_of_diagonals_far_outside_of_a_matrix(device, indices):
    for offset in (5, -5, 2**40, -(2**40), 2**63 - 1, -(2**63)):
        expected = indices(3, 4, max(-5, min(5, offset)))
        assert torch.equal(indices(3, 4, offset, device=device).cpu(), expected), offset


@pytest.mark.parametrize("factor", ["alpha", "beta"])
def test_products_of_integers_take_no_factor_that_is_none(device, factor):
    x = torch.ones(2, 2, dtype=torch.int64, device=device)
    for value in (float("nan"), float("inf")):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
            torch.addmm(x, x, x, **{factor: value})


def test_derived_outputs_are_checked(device):
    x = torch.tensor([-1.5, 0.25], device=device)
    with pytest.raises(RuntimeError, match="same device"):
        torch._C._nn.log_sigmoid(x, out=torch.empty(2))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch._C._nn.log_sigmoid(x, out=torch.empty(2, dtype=torch.int32, device=device))
    out = torch.empty(2, dtype=torch.float64, device=device)
    expected = torch.nn.functional.logsigmoid(x.cpu()).double()
    torch.testing.assert_close(torch._C._nn.log_sigmoid(x, out=out).cpu(), expected)
