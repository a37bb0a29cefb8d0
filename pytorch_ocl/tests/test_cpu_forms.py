# SPDX-License-Identifier: MIT
"""Sizes and layouts at which kernels for CPUs change their form; other devices pass, too."""

import pytest
import torch
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("size", [100, 500_000, 2_000_000])  # below and above what counts as cached
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_updates_of_single_elements(device, size, dtype):
    index = torch.randint(0, size, (size + 7,))
    x, values = (torch.randint(-9, 9, (n,)).to(dtype) for n in (size, size + 7))
    moved = (x.to(device), index.to(device), values.to(device))
    for reduce in ("sum", "amax", "amin"):
        expected = x.scatter_reduce(0, index, values, reduce)
        assert torch.equal(moved[0].scatter_reduce(0, moved[1], moved[2], reduce).cpu(), expected)
    assert torch.equal(moved[0].index_add(0, moved[1], moved[2]).cpu(), x.index_add(0, index, values))


@pytest.mark.parametrize("width", [1, 20, 64, 100])
def test_updates_of_rows(device, width):
    x, index = torch.randn(300, width), torch.randint(-300, 300, (1000,))
    values = torch.randint(-9, 9, (1000, width)).float()
    wrapped = torch.where(index < 0, index + 300, index)
    expected = x.double().index_add(0, wrapped, values.double())
    found = x.to(device).index_add(0, wrapped.to(device), values.to(device))
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    found = x.to(device).index_put((index.to(device),), values.to(device), accumulate=True)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_reported_once(device):
    x = torch.zeros(1000, device=device)
    index = torch.arange(1000)
    index[[3, 500]] = 1000
    with pytest.raises(IndexError, match="1000"):
        x.index_add_(0, index.to(device), torch.ones(1000, device=device))
        x.cpu()


@pytest.mark.parametrize("size", [5, 3 << 20, 5 << 20])  # up to 16 MiB, and beyond
def test_copies(device, size):
    x = torch.randn(size)
    assert torch.equal(x.to(device).clone().cpu(), x)
    shifted = x.to(device)[1:]
    assert torch.equal(torch.empty(size - 1, device=device).copy_(shifted).cpu(), x[1:])


def test_copies_of_permuted_dense_tensors(device):
    x = torch.randn(4, 5, 6).to(device).permute(2, 0, 1)
    assert torch.equal(x.clone().cpu(), x.cpu()) and x.clone().stride() == x.stride()
    complex_numbers = torch.randn(3, 4, dtype=torch.complex128)
    assert torch.equal(complex_numbers.to(device).T.clone().cpu(), complex_numbers.T)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.complex64])
def test_flips(device, dtype):
    x = torch.randint(0, 99, (37, 1001)).to(dtype)
    for dims in ((0,), (1,), (0, 1)):
        assert torch.equal(x.to(device).flip(dims).cpu(), x.flip(dims))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_of_long_and_short_lines(device, mode):
    for shape, pad in (((2, 3, 5000), (7, 2)), ((2, 3, 9, 5), (4, -2, 1, 3)), ((1, 1, 2, 33), (1, 30, 1, 0))):
        x = torch.randn(shape)
        assert torch.equal(F.pad(x.to(device), pad, mode=mode).cpu(), F.pad(x, pad, mode=mode))


@pytest.mark.parametrize("columns", [16, 64, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_bags_of_rows(device, columns, dtype):
    weight, indices = torch.randn(50, columns, dtype=dtype), torch.randint(0, 50, (200,))
    offsets, scales = torch.tensor([0, 0, 3, 50, 51, 190]), torch.randn(200, dtype=dtype)
    tolerance = 2e-2 if dtype == torch.float16 else 1e-5
    for mode, scale in (("sum", None), ("sum", scales), ("mean", None), ("max", None)):
        for trained in (False, True):
            moved = weight.to(device).requires_grad_(trained)
            given = None if scale is None else scale.to(device)
            arguments = {"mode": mode, "padding_idx": 7}
            expected = F.embedding_bag(indices, weight, offsets, per_sample_weights=scale, **arguments)
            found = F.embedding_bag(
                indices.to(device), moved, offsets.to(device), per_sample_weights=given, **arguments
            )
            torch.testing.assert_close(found.detach().cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [1, 17, 70, 5000])
def test_extremes_keep_nan(device, size):
    for place in {0, size // 2, size - 1}:
        x = torch.randn(3, size)
        x[1, place] = float("nan")
        y = x.to(device)
        for function in (torch.amax, torch.amin):
            assert torch.equal(function(y, 1).cpu().nan_to_num(7), function(x, 1).nan_to_num(7))
        for found, expected in zip(torch.aminmax(y, dim=1), torch.aminmax(x, dim=1)):
            assert torch.equal(found.cpu().nan_to_num(7), expected.nan_to_num(7))
        for found, expected in zip(y.max(1), x.max(1)):
            assert torch.equal(found.cpu().nan_to_num(7), expected.nan_to_num(7))


@pytest.mark.parametrize(
    "shape", [(5, 8, 8), (1, 64, 64), (1, 65, 64), (3, 128, 100), (3, 7, 20), (1, 256, 200), (2, 129, 257), (2, 1, 1)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_factors_of_small_matrices(device, shape, dtype):
    x = torch.randn(shape, dtype=dtype)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    for layout in (x, x.mT.contiguous().mT):
        permutation, lower, upper = torch.linalg.lu(layout.to(device))
        torch.testing.assert_close((permutation @ lower @ upper).cpu(), x, rtol=tolerance, atol=tolerance)
        assert lower.abs().max().item() < 1.5  # pivots are the largest of their columns
        factors, pivots = torch.linalg.lu_factor(layout.to(device))
        assert torch.equal(pivots.cpu(), torch.linalg.lu_factor(layout)[1])


def test_singular_matrices(device):
    x = torch.randn(4, 6, 6)
    x[2, :, 3] = 0
    assert torch.linalg.inv_ex(x.to(device)).info.cpu().tolist() == [0, 0, 4, 0]
    inverse = torch.linalg.inv(x[:2].to(device)).cpu()
    torch.testing.assert_close(inverse @ x[:2], torch.eye(6).expand(2, 6, 6), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, -2, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_common_powers(device, exponent, dtype):
    x = torch.cat([torch.arange(1, 40), torch.tensor([0])]).to(dtype)
    if exponent < 0 and dtype == torch.int64 and isinstance(exponent, int):
        return  # refused
    found, expected = (x.to(device) ** exponent).cpu(), x**exponent
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("size", [1, 15, 16, 33, 9000])
def test_conversions_between_floats_and_integers(device, size):
    x = torch.randn(size) * 100
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        assert torch.equal(x.to(device).to(dtype).cpu(), x.to(dtype))
        integers = x.to(dtype)
        for other in (torch.float32, torch.float64, torch.bfloat16):
            assert torch.equal(integers.to(device).to(other).cpu(), integers.to(other))


@pytest.mark.parametrize("columns", [15, 16, 33, 100, 513, 1040])
@pytest.mark.parametrize("rows", [1, 7, 600])
def test_reductions_of_columns(device, rows, columns):
    x = torch.randint(-9, 9, (3, rows, columns)).float()
    for given in (x, x.bfloat16(), x.long(), x[:, :, 1:]):
        moved = given.to(device)
        for reduce in (torch.sum, torch.amax, torch.count_nonzero, torch.any):
            assert torch.equal(reduce(moved, 1).cpu(), reduce(given, 1))
            assert torch.equal(reduce(moved, (0, 1)).cpu(), reduce(given, (0, 1)))
    assert torch.equal(x.to(device).permute(2, 1, 0).sum(1).cpu(), x.permute(2, 1, 0).sum(1))
    torch.testing.assert_close(x.to(device).norm(dim=1).cpu(), x.norm(dim=1))


@pytest.mark.parametrize("columns", [31, 32, 64, 97])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_of_columns(device, columns, dtype):
    x = torch.randn(3, 11, columns, dtype=dtype)
    x[1, 2, 3], x[2, :, 4], x[0, 1, 2] = float("nan"), -float("inf"), float("inf")
    for function in (torch.softmax, torch.log_softmax):
        torch.testing.assert_close(function(x.to(device), 1).cpu(), function(x, 1), equal_nan=True)


@pytest.mark.parametrize("channels", [1, 5, 32, 300])
def test_batch_norm_of_channels_last(device, channels):
    for shape in ((200, channels), (2, channels, 9, 11)):
        layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
        x = torch.randn(shape).contiguous(memory_format=layout)
        weight, bias = torch.randn(channels), torch.randn(channels)
        results = []
        for given in ([t.clone() for t in (x, weight, bias)], [t.to(device) for t in (x, weight, bias)]):
            leaves = [t.requires_grad_() for t in given]
            y = F.batch_norm(leaves[0], None, None, leaves[1], leaves[2], True)
            y.backward(torch.cos(torch.arange(y.numel())).view(shape).to(y.device))
            frozen = F.batch_norm(leaves[0], given[1].detach(), given[1].detach().exp(), None, leaves[2])
            results.append([y, frozen, *(t.grad for t in leaves)])
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("inner", [1, 2, 3, 4, 5])
def test_short_rows(device, inner):
    x, y = torch.randn(20, 3, inner, 40), torch.randn(40, inner)
    moved = x.to(device)
    for given, to in ((x, moved), (x[:, 1:], moved[:, 1:]), (x[:1, :, :, :5], moved[:1, :, :, :5])):
        columns = y[: given.size(3)]
        assert torch.equal((to.transpose(2, 3) + columns.to(device)).cpu(), given.transpose(2, 3) + columns)
        assert torch.equal(to.transpose(2, 3).contiguous().cpu(), given.transpose(2, 3).contiguous())
        assert torch.equal(to.transpose(2, 3).long().cpu(), given.transpose(2, 3).long())
    image = torch.randn(2, 4 * inner, 7, 19)
    assert torch.equal(F.pixel_shuffle(image.to(device), 2).cpu(), F.pixel_shuffle(image, 2))


@pytest.mark.parametrize("columns", [7, 16, 40, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_lines_and_elements_by_index(device, columns, dtype):
    x, values = torch.randint(-9, 9, (30, columns)).to(dtype), torch.randint(-9, 9, (100, columns)).to(dtype)
    rows, places = torch.randint(0, 30, (100,)), torch.randint(0, columns, (30, 90))
    moved = [t.to(device) for t in (x, values, rows, places)]
    for reduce in ("amax", "amin"):
        expected = x.index_reduce(0, rows, values, reduce)
        assert torch.equal(moved[0].index_reduce(0, moved[2], moved[1], reduce).cpu(), expected)
    if dtype != torch.bfloat16:  # sums of which PyTorch's CPU rounds one by one
        assert torch.equal(moved[0].index_add(0, moved[2], moved[1]).cpu(), x.index_add(0, rows, values))
        source = torch.randint(-9, 9, (30, 90)).to(dtype)
        found = moved[0].scatter_add(1, moved[3], source.to(device))
        assert torch.equal(found.cpu(), x.scatter_add(1, places, source))
    assert torch.equal(moved[0].gather(1, moved[3]).cpu(), x.gather(1, places))
    assert torch.equal(moved[0][:, moved[3][0]].cpu(), x[:, places[0]])
    assert torch.equal(moved[0][moved[2] - 30].cpu(), x[rows])


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_masked_softmax(device, dim):
    x, gradient = torch.randn(60, 60), torch.randn(60, 60)
    x.narrow(dim, 5, 20).sub_(100)  # what is left of them is below the normal numbers
    x[3, 7] = torch.nan
    results = []
    for where in ("cpu", device):
        leaf = x.to(where).detach().requires_grad_()
        torch.softmax(leaf, dim).backward(gradient.to(where))
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(*results, equal_nan=True)


@pytest.mark.parametrize("shape", [(5000, 1), (5000, 3), (3000, 17), (2100, 100), (300, 140), (40, 300)])
def test_scans_of_many_and_of_few_rows(device, shape):
    x = torch.randint(-9, 9, shape).float()
    x[1, -1] = float("nan")
    moved = x.to(device)
    assert torch.equal(moved.cumsum(1).cpu()[2:], x.cumsum(1)[2:])
    for found, expected in zip(moved.cummax(1), x.cummax(1)):
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(moved.logcumsumexp(1).cpu(), x.logcumsumexp(1), equal_nan=True)


@pytest.mark.parametrize("shape", [(5000, 1), (5000, 3), (1030, 15), (3, 2000, 7), (1000, 15), (5000, 16)])
def test_few_columns(device, shape):
    x = torch.randint(-99, 99, shape).float()
    dim, moved = len(shape) - 2, x.to(device)
    for found, expected in zip(moved.max(dim), x.max(dim)):
        assert torch.equal(found.cpu(), expected)
    assert torch.equal(moved.argmin(dim).cpu(), x.argmin(dim))
    for found, expected in zip(torch.var_mean(moved, dim), torch.var_mean(x.double(), dim)):
        torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [15, 16, 17, 31, 33, 63, 64])
def test_rows_of_some_elements(device, length, dtype):
    x = torch.randn(200, length, dtype=torch.float64)
    gradient = torch.randn_like(x)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    for function in (
        lambda z: z.softmax(1),
        lambda z: z.log_softmax(1),
        lambda z: F.layer_norm(z, z.shape[1:]),
        lambda z: F.rms_norm(z, z.shape[1:]),
    ):
        known, tried = x.clone().requires_grad_(), x.to(device, dtype).requires_grad_()
        expected, found = function(known), function(tried)
        expected.backward(gradient)
        found.backward(gradient.to(device, dtype))
        for a, b in ((found, expected), (tried.grad, known.grad)):
            torch.testing.assert_close(a.detach().cpu().double(), b.detach(), rtol=tolerance, atol=tolerance * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.bool])
@pytest.mark.parametrize("length", [1, 2, 17, 64, 65, 256, 257])
def test_order_of_short_rows(device, length, dtype):
    x = torch.randint(-9, 9, (200, length)).to(dtype)
    if dtype.is_floating_point:
        x[3, length // 2] = float("nan")
    for descending in (False, True):
        expected = x.sort(dim=1, descending=descending, stable=True)
        found = x.to(device).sort(dim=1, descending=descending, stable=True)
        assert torch.equal(found.indices.cpu(), expected.indices)
        torch.testing.assert_close(found.values.cpu(), expected.values, rtol=0, atol=0, equal_nan=True)
    if dtype != torch.bool:
        for rank in (1, (length + 1) // 2, length):
            found = x.to(device).kthvalue(rank, 1).values.cpu()
            torch.testing.assert_close(found, x.kthvalue(rank, 1).values, rtol=0, atol=0, equal_nan=True)
        found = x.to(device).median(1).values.cpu()
        torch.testing.assert_close(found, x.median(1).values, rtol=0, atol=0, equal_nan=True)
