# SPDX-License-Identifier: MIT
"""Compressed sparse tensors: made, checked, converted, multiplied; softmax and sums of those of coordinates."""

import pytest
import torch

LAYOUTS = {
    torch.sparse_coo: {},
    torch.sparse_csr: {},
    torch.sparse_csc: {},
    torch.sparse_bsr: {"blocksize": (2, 3)},
    torch.sparse_bsc: {"blocksize": (2, 3)},
}
COMPRESSED = [layout for layout in LAYOUTS if layout != torch.sparse_coo]


def dense(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*sizes, generator=generator).mul(4).to(dtype)
    return values * (torch.rand(*sizes, generator=generator) < 0.4)


def parts(tensor):
    if tensor.layout == torch.sparse_coo:
        return tensor.coalesce().indices(), tensor.coalesce().values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def check(got, expected, **tolerance):
    assert got.layout == expected.layout and got.dtype == expected.dtype and got.device.type == "ocl"
    assert got.shape == expected.shape
    for mine, theirs in zip(parts(got), parts(expected)):
        torch.testing.assert_close(mine.cpu(), theirs, **tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int32])
def test_conversions(device, layout, dtype):
    x = dense(8, 12, dtype=dtype)
    expected = x.to_sparse(layout=layout, **LAYOUTS[layout])
    got = x.to(device).to_sparse(layout=layout, **LAYOUTS[layout])
    check(got, expected)
    check(got.to_dense(), x)
    check(expected.to(device), expected)
    assert got.cpu().to_dense().equal(x)
    for other, arguments in LAYOUTS.items():
        try:
            converted = expected.to_sparse(layout=other, **arguments)
        except RuntimeError:
            continue
        check(got.to_sparse(layout=other, **arguments), converted)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_batches_and_dense_dimensions(device, layout):
    x = torch.randn(2, 8, 12) * (torch.rand(8, 12) < 0.4)
    check(x.to(device).to_sparse(layout=layout, **LAYOUTS[layout]), x.to_sparse(layout=layout, **LAYOUTS[layout]))
    y = dense(8, 12, 1) * torch.ones(3)
    got = y.to(device).to_sparse(layout=layout, dense_dim=1, **LAYOUTS[layout])
    check(got, y.to_sparse(layout=layout, dense_dim=1, **LAYOUTS[layout]))
    check(got.to_dense(), y)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.float16])
def test_products_with_dense_matrices(device, layout, dtype):
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.float16 else {"rtol": 1e-4, "atol": 1e-4}
    x, y, z = dense(8, 12, dtype=dtype), dense(12, 5, dtype=dtype, seed=1), dense(8, 5, dtype=dtype, seed=2)
    a = x.to(device).to_sparse(layout=layout, **LAYOUTS[layout])
    check(a @ y.to(device), x @ y, **tolerance)
    check(a @ y.t().contiguous().to(device).t(), x @ y, **tolerance)
    sums = torch.addmm(z.to(device), a, y.to(device), beta=0.5, alpha=2)
    check(sums, torch.addmm(z, x, y, beta=0.5, alpha=2), **tolerance)
    check(a @ y[:, 0].to(device), x @ y[:, 0], **tolerance)
    if layout != torch.sparse_coo:
        check(z.t().to(device) @ a, z.t() @ x, **tolerance)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("narrow", [False, True])
def test_products_reduced(device, reduce, dtype, narrow):
    """torch.sparse.mm with a reduction; the second row has no entries, the third no positive products."""
    x, y = dense(8, 12, dtype=dtype), dense(12, 5, dtype=dtype, seed=1)
    x[1], x[2] = 0, -1
    y = y.abs() + torch.arange(5).to(dtype)
    weights = dense(8, 5, dtype=dtype, seed=2)
    found = []
    for where in ("cpu", device):
        a = x.to(where).to_sparse_csr()
        index = torch.int32 if narrow else torch.int64
        a = torch.sparse_csr_tensor(a.crow_indices().to(index), a.col_indices().to(index), a.values(), a.shape)
        b = y.detach().to(where)
        plain = torch.sparse.mm(a, b, reduce)
        a.requires_grad_(), b.requires_grad_()
        result = torch.sparse.mm(a, b, reduce)
        (result * weights.to(where)).sum().backward()
        assert torch.equal(plain, result) and result.device.type == torch.device(where).type
        found.append([result.detach().cpu(), a.grad.to_dense().cpu(), b.grad.cpu()])
    tolerance = {"rtol": 1e-2, "atol": 0.1} if dtype == torch.float16 else {"rtol": 1e-4, "atol": 1e-4}
    for expected, got in zip(*found):
        torch.testing.assert_close(got, expected, **tolerance)


def test_products_reduced_of_nothing_and_nan(device):
    empty = torch.sparse_csr_tensor([0, 0, 0], [], torch.empty(0), (2, 3)).to(device).requires_grad_()
    ones = torch.ones(3, 4, device=device)
    result = torch.sparse.mm(empty, ones, "amax")
    result.sum().backward()
    assert result.cpu().tolist() == [[0.0] * 4] * 2 and empty.grad._nnz() == 0
    one = torch.eye(3).to(device).to_sparse_csr()
    ones[1] = float("nan")
    assert torch.sparse.mm(one, ones, "amin").isnan().any(1).tolist() == [False, True, False]
    with pytest.raises(RuntimeError, match="prod not supported"):
        torch.sparse.mm(one, ones, "prod")


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_products_of_sparse_matrices(device, layout, dtype):
    x, y = dense(30, 40, dtype=dtype), dense(40, 20, dtype=dtype, seed=1)
    a, b = (t.to(device).to_sparse(layout=layout) for t in (x, y))
    product = torch.sparse.mm(a, b)
    assert product.layout == layout
    torch.testing.assert_close(product.to_dense().cpu(), x @ y, rtol=1e-4, atol=1e-4)
    again = torch.sparse.mm(a, b)
    assert all(p.cpu().equal(q.cpu()) for p, q in zip(parts(product), parts(again)))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_sums_of_sparse_matrices_and_products(device, layout):
    x, y, z = (dense(9, 9, seed=seed) for seed in range(3))
    a, b, c = (t.to(device).to_sparse(layout=layout) for t in (x, y, z))
    expected = torch.addmm(x, y, z, beta=0.5, alpha=2)
    with torch.sparse.check_sparse_tensor_invariants():
        got = torch.addmm(a, b, c, beta=0.5, alpha=2)
        assert got.layout == layout
        torch.testing.assert_close(got.to_dense().cpu(), expected, rtol=1e-4, atol=1e-4)
        into = c.clone()
        assert torch.addmm(a, b, c, beta=0.5, alpha=2, out=into) is into
        torch.testing.assert_close(into.to_dense().cpu(), expected, rtol=1e-4, atol=1e-4)
        if layout == torch.sparse_csr:
            torch.testing.assert_close((a * b).to_dense().cpu(), x * y)


def parts_of(tensor):
    if tensor.layout == torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices()
    return tensor.ccol_indices(), tensor.row_indices()


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_sums_keep_the_dtype_of_indices(device, layout):
    x, y = (dense(4, 5, seed=seed).to(device).to_sparse(layout=layout) for seed in range(2))
    a, b = (
        torch.sparse_compressed_tensor(*(i.int() for i in parts_of(t)), t.values(), t.shape, layout=layout)
        for t in (x, y)
    )
    for got, kind in ((a + b, torch.int32), (a.clone().add_(b), torch.int32), (x + y, torch.int64)):
        assert [i.dtype for i in parts_of(got)] == [kind, kind]
        torch.testing.assert_close(got.to_dense(), x.to_dense() + y.to_dense())


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_bsr])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_triangular_systems(device, layout, dtype):
    whole, b = dense(12, 12, dtype=dtype) / 4, dense(12, 5, dtype=dtype, seed=1)
    for upper in (True, False):
        x = (whole.triu(1) if upper else whole.tril(-1)) + 2 * torch.eye(12, dtype=dtype)
        a = x.to(device).to_sparse(layout=layout, **LAYOUTS[layout])
        for form in range(4):
            how = {"upper": upper, "transpose": form > 1, "unitriangular": form % 2 == 1}
            got = torch.triangular_solve(b.to(device), a, **how)
            assert got.cloned_coefficient.numel() == 0
            torch.testing.assert_close(got.solution.cpu(), torch.triangular_solve(b, x, **how).solution)
    nothing = torch.zeros(12, 12, dtype=dtype, device=device).to_sparse(layout=layout, **LAYOUTS[layout])
    assert torch.triangular_solve(b.to(device), nothing).solution.isnan().all().item()


def test_long_rows_and_many_columns(device):
    x = torch.zeros(5, 3000)
    x[2], x[4, ::7] = torch.randn(3000), 1.0
    y = torch.randn(3000, 70)
    for layout in (torch.sparse_coo, torch.sparse_csr):
        check(x.to(device).to_sparse(layout=layout) @ y.to(device), x @ y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_sampled_products(device, dtype):
    x, a, b = dense(6, 9, dtype=dtype), dense(6, 4, dtype=dtype, seed=1), dense(4, 9, dtype=dtype, seed=2)
    got = torch.sparse.sampled_addmm(x.to(device).to_sparse_csr(), a.to(device), b.to(device), beta=0.5, alpha=2)
    check(got, torch.sparse.sampled_addmm(x.to_sparse_csr(), a, b, beta=0.5, alpha=2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_arithmetic(device, layout):
    x, y = dense(8, 12), dense(8, 12, seed=1)
    arguments = LAYOUTS[layout]
    a, b = (t.to(device).to_sparse(layout=layout, **arguments) for t in (x, y))
    for operation in (torch.sin, torch.neg, torch.abs, torch.sqrt, torch.sign, lambda t: t * 3, torch.relu):
        values = operation(a)
        assert values.layout == layout
        torch.testing.assert_close(values.to_dense().cpu(), operation(x), equal_nan=True)
    torch.testing.assert_close((a + b).to_dense().cpu(), x + y)
    torch.testing.assert_close(torch.add(a, b, alpha=-2).to_dense().cpu(), x - 2 * y)
    torch.testing.assert_close(torch.add(y.to(device), a, alpha=3).cpu(), y + 3 * x)
    assert a.sum().item() == pytest.approx(x.sum().item(), abs=1e-3)
    torch.testing.assert_close(a.transpose(0, 1).to_dense().cpu(), x.t())
    check(y.to(device).sparse_mask(a), y.sparse_mask(x.to_sparse(layout=layout, **arguments)))


def test_arithmetic_of_rows(device):
    x, y = dense(8, 12), dense(8, 12, seed=1)
    a, b = x.to(device).to_sparse_csr(), y.to(device).to_sparse_csr()
    torch.testing.assert_close((a * b).to_dense().cpu(), x * y)
    torch.testing.assert_close((a * y.to(device)).to_dense().cpu(), x * y)
    for dim in (0, 1, (0, 1)):
        check(torch.sum(a, dim, keepdim=True), torch.sum(x.to_sparse_csr(), dim, keepdim=True), rtol=1e-4, atol=1e-4)
    check(a[3], x.to_sparse_csr()[3])


def test_batched_products(device):
    x, y = dense(3, 8, 12), dense(3, 12, 5, seed=1)
    check(torch.bmm(x.to(device).to_sparse(), y.to(device)), x @ y, rtol=1e-4, atol=1e-4)
    same = torch.randn(3, 8, 12) * (dense(8, 12) != 0)
    check(torch.bmm(same.to(device).to_sparse_csr(), y.to(device)), same @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dense_sizes", [(), (2,)])
def test_softmax(device, dense_sizes):
    x = dense(5, 6, 4).to_sparse(3) if not dense_sizes else dense(5, 6, 2).to_sparse(2)
    for dim in range(x.dim()):
        for function in (torch.sparse.softmax, torch.sparse.log_softmax):
            ours, theirs = x.to(device).requires_grad_(), x.detach().clone().requires_grad_()
            got, expected = function(ours, dim), function(theirs, dim)
            check(got.detach(), expected.detach(), rtol=1e-4, atol=1e-5)
            torch.sparse.sum(got * got).backward()
            torch.sparse.sum(expected * expected).backward()
            check(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)


def test_gradients(device):
    x, y = dense(8, 12), dense(12, 5, seed=1)
    for layout in (torch.sparse_coo, torch.sparse_csr):
        found = []
        for where in ("cpu", device):
            a = x.to(where).to_sparse(layout=layout).requires_grad_()
            b = y.clone().to(where).detach().requires_grad_()
            torch.sparse.mm(a, b).square().sum().backward()
            found.append((a.grad.to_dense().cpu(), b.grad.cpu()))
        for expected, got in zip(*found):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)
    for dim in (0, 1, [0, 1]):
        found = []
        for where in ("cpu", device):
            a = x.to(where).to_sparse().requires_grad_()
            torch.sparse.sum(a, dim).to_dense().square().sum().backward()
            found.append(a.grad.to_dense().cpu())
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-3)


def test_masks_and_selections(device):
    x, y = dense(8, 12).to_sparse(), dense(8, 12, seed=1).to_sparse()
    a, b = x.to(device), y.to(device)
    check(a.sparse_mask(b), x.sparse_mask(y))
    twice = torch.cat([a, a])
    check(twice.sparse_mask(torch.cat([b, b])), torch.cat([x, x]).sparse_mask(torch.cat([y, y])))
    index = torch.tensor([3, 1, 1, 7])
    for dim in (0, 1):
        check(a.index_select(dim, index.to(device)), x.index_select(dim, index))
    check(torch.hspmm(a, torch.ones(12, 2, device=device)), torch.hspmm(x, torch.ones(12, 2)), rtol=1e-4, atol=1e-4)


BROKEN = {
    "first": ([1, 1, 2], [0, 1], "crow_indices\\[..., 0\\] == 0"),
    "last": ([0, 1, 3], [0, 1], "crow_indices\\[..., -1\\] == nnz"),
    "falling": ([0, 3, 2], [0, 1], "crow_indices\\[..., 1:\\]"),
    "beyond": ([0, 1, 2], [0, 7], "0 <= col_indices < ncols"),
    "twice": ([0, 2, 2], [1, 1], "sorted and distinct"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_invariants(device, case, dtype):
    crow, col, message = BROKEN[case]
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match=message):
            torch.sparse_csr_tensor(
                torch.tensor(crow, dtype=dtype, device=where),
                torch.tensor(col, dtype=dtype, device=where),
                torch.ones(2, device=where),
                (2, 2),
                check_invariants=True,
            )


@pytest.mark.parametrize("crow, col", [([0, 1, 2], [0, 1 << 40]), ([0, 1 << 40, 2], [0, 1]), ([0, 1, 2], [-5, 0])])
def test_unchecked_indices_out_of_range(device, crow, col):
    crow, col = torch.tensor(crow, device=device), torch.tensor(col, device=device)
    x = torch.sparse_csr_tensor(crow, col, torch.ones(2, device=device), (2, 2), check_invariants=False)
    with pytest.raises(IndexError):
        (x @ torch.ones(2, 3, device=device)).cpu()
    torch.ones(1, device=device).item()


def test_refusals(device):
    x = dense(4, 6).to(device)
    for use in (
        lambda: x.to_sparse_csr() @ torch.ones(5, 2, device=device),
        lambda: x.to_sparse_csr() @ torch.ones(6, 2, device=device).double(),
        lambda: x.to_sparse_bsr((3, 5)),
        lambda: x.to_sparse_csr() + dense(4, 5).to(device).to_sparse_csr(),
        lambda: torch.sparse.sampled_addmm(x.to_sparse_csr(), x, x),
    ):
        with pytest.raises(RuntimeError):
            use()


def test_modules_with_sparse_buffers_move(device):
    """As openai-whisper's alignment heads."""
    module = torch.nn.Linear(2, 2)
    heads = torch.zeros(4, 6, dtype=torch.bool)
    heads[1, 2] = heads[3, 5] = True
    module.register_buffer("heads", heads.to_sparse(), persistent=False)
    module.to(device)
    assert module.heads.is_sparse and module.heads.device.type == "ocl"
    assert module.heads.indices().T.cpu().tolist() == [[1, 2], [3, 5]]
    assert module.heads.to_dense().cpu().equal(heads)


@pytest.mark.parametrize("sizes", [(), (3,), (3, 2)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_padding_of_jagged_rows(device, sizes, dtype):
    values, offsets = torch.randn(9, *sizes), torch.tensor([0, 4, 4, 9], dtype=dtype)
    pad = torch.ops.aten._jagged_to_padded_dense_forward
    for length in (5, 3):
        got = pad(values.to(device), [offsets.to(device)], [length], -1.0)
        rows = torch.full((3, length, *sizes), -1.0)
        for i in range(3):
            row = values[offsets[i] : offsets[i + 1]][:length]
            rows[i, : len(row)] = row
        assert got.cpu().equal(rows)
    back = torch.ops.aten._padded_dense_to_jagged_forward
    padded = pad(values.to(device), [offsets.to(device)], [5], 0.0)
    assert back(padded, [offsets.to(device)], 9).cpu().equal(values)
    assert back(padded, [offsets.to(device)]).cpu().equal(values)


def jagged(where, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(n, 8, generator=generator).to(where) for n in (4, 2, 5)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


def attention(x):
    heads = x.unflatten(-1, [2, 4]).transpose(1, 2)
    return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)


JAGGED = {
    "sin": torch.sin,
    "add": lambda x: x + 2 * x,
    "linear": lambda x: torch.nn.functional.linear(x, torch.linspace(-1, 1, 24, device=x.device).view(3, 8)),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (8,)),
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(-1),
    "attention": attention,
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged_tensors(device, name):
    expected, got = JAGGED[name](jagged("cpu")), JAGGED[name](jagged(device))
    assert got.layout == torch.jagged and got.device.type == "ocl"
    for mine, theirs in zip(got.unbind(), expected.unbind()):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)


def test_jagged_tensors_padded(device):
    expected = torch.nested.to_padded_tensor(jagged("cpu"), -1.0)
    assert torch.nested.to_padded_tensor(jagged(device), -1.0).cpu().equal(expected)
    x = jagged(device)
    assert [row.shape for row in x.unbind()] == [(4, 8), (2, 8), (5, 8)]
    assert x.values().shape == (11, 8) and x.offsets().cpu().tolist() == [0, 4, 6, 11]


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.int32, torch.float32])
def test_sums_along_a_dimension_have_the_dtype_of_sums(device, dtype):
    x = dense(5, 7, dtype=dtype).to_sparse_csr()
    for dim in (0, 1, (0, 1)):
        got, expected = x.to(device).sum(dim, keepdim=True), x.sum(dim, keepdim=True)
        assert got.dtype == expected.dtype
        assert torch.equal(got.to_dense().cpu(), expected.to_dense())


@pytest.mark.parametrize("inner", [4, 0])
def test_sampled_addmm_of_one_pattern_and_a_batch(device, inner):
    pattern = dense(3, 5).to_sparse_csr()
    a, b = torch.randn(2, 2, 3, inner), torch.randn(2, 2, inner, 5)
    got = torch.sparse.sampled_addmm(pattern.to(device), a.to(device), b.to(device), alpha=0.5, beta=2.0)
    expected = 0.5 * (a @ b) * (pattern.to_dense() != 0) + 2 * pattern.to_dense()
    torch.testing.assert_close(got.to_dense().cpu(), expected)
