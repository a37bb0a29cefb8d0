# SPDX-License-Identifier: MIT
"""Linear algebra beyond op_db's small samples: sizes of several blocks, layouts, errors, gradients, no host between."""

import pytest
import torch

SIZES = (5, 64, 150)


def matrices(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def positive(n, dtype=torch.float32):
    a = matrices(2, n, n, dtype=dtype)
    return a @ a.mH / n + torch.eye(n, dtype=dtype)


def assert_near(actual, expected, count=300):
    """Within `count` roundoffs of the largest element."""
    actual = actual.cpu()
    bound = count * torch.finfo(expected.dtype).eps * expected.abs().max().item()
    torch.testing.assert_close(actual, expected, rtol=0, atol=bound)


@pytest.fixture(autouse=True)
def on_the_device(set_variable):
    set_variable("PYTORCH_OCL_FALLBACK", "error")


@pytest.mark.parametrize(
    "n,dtype",
    [
        (5, torch.float32),
        (5, torch.complex64),
        (64, torch.complex64),
        (64, torch.float64),
        (150, torch.float32),
        pytest.param(5, torch.float64, marks=pytest.mark.whole),
        pytest.param(64, torch.float32, marks=pytest.mark.whole),
        pytest.param(150, torch.float64, marks=pytest.mark.whole),
        pytest.param(150, torch.complex64, marks=pytest.mark.whole),
    ],
    ids=str,
)
def test_factors_give_the_matrix(n, dtype, device):
    a, s = matrices(2, n, n, dtype=dtype), positive(n, dtype)
    for upper in (False, True):
        factor = torch.linalg.cholesky(s.to(device), upper=upper).cpu()
        assert_near(factor.mH @ factor if upper else factor @ factor.mH, s)
    p, lower, u = (x.cpu() for x in torch.linalg.lu(a.to(device)))
    assert_near(p @ lower @ u, a)
    for mode in ("reduced", "complete"):
        q, r = (x.cpu() for x in torch.linalg.qr(a[..., : n // 2 + 1].to(device), mode=mode))
        assert_near(q @ r, a[..., : n // 2 + 1])
    for full in (False, True):
        u, s_, vh = (x.cpu() for x in torch.linalg.svd(a[..., : n // 2 + 1].mT.to(device), full_matrices=full))
        assert_near(u * s_.unsqueeze(-2) @ vh[..., : n // 2 + 1, :], a[..., : n // 2 + 1].mT)
    for uplo in "LU":
        w, v = (x.cpu() for x in torch.linalg.eigh(s.to(device), UPLO=uplo))
        assert_near(v * w.unsqueeze(-2) @ v.mH, s)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("left", [True, False])
def test_solves_of_every_layout(left, dtype, device):
    n = 70
    for upper in (True, False):
        t = matrices(n, n, dtype=dtype) / n + 2 * torch.eye(n, dtype=dtype)
        t = t.triu() if upper else t.tril()
        b = matrices(3, n, 4, dtype=dtype) if left else matrices(3, 4, n, dtype=dtype)
        for layout, up in (
            (lambda x: x, upper),
            (lambda x: x.mT, not upper),
            (lambda x: x.mH, not upper),
            (lambda x: x.conj(), upper),
        ):
            matrix = layout(t.to(device))  # shared by the three right sides
            x = torch.linalg.solve_triangular(matrix, b.to(device), upper=up, left=left).cpu()
            assert_near(layout(t) @ x if left else x @ layout(t), b)
        strided = b.to(device).repeat_interleave(2, -1)[..., ::2]
        x = torch.linalg.solve(t.to(device), strided, left=left).cpu()
        assert_near(t @ x if left else x @ t, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(hermitian, dtype, device):
    """Pivots are LAPACK's, of blocks of one row and of two."""
    for n in (6, 40):
        a = matrices(2, n, n, dtype=dtype)
        a = a + a.mH if hermitian else a + a.mT
        a[1].diagonal().zero_()
        expected, got = (torch.linalg.ldl_factor_ex(x, hermitian=hermitian) for x in (a, a.to(device)))
        assert got.info.tolist() == [0, 0] and (got.pivots < 0).any().item()
        assert got.pivots.cpu().equal(expected.pivots)
        assert_near(got.LD, expected.LD)
        b = matrices(2, n, 3, dtype=dtype)
        x = torch.linalg.ldl_solve(got.LD, got.pivots, b.to(device), hermitian=hermitian).cpu()
        assert_near(a @ x, b, 3000)
        x = torch.linalg.ldl_solve(got.LD[1], got.pivots[1], b.to(device), hermitian=hermitian).cpu()
        assert_near(a[1] @ x, b, 3000)
    zero = torch.linalg.ldl_factor_ex(torch.zeros(3, 3, dtype=dtype, device=device), hermitian=hermitian)
    assert zero.info.item() == 1 and zero.pivots.tolist() == [1, 2, 3]


def test_least_squares(device):
    for m, n in ((40, 7), (7, 40), (9, 9)):
        a, b = matrices(3, m, n, dtype=torch.float64), matrices(3, m, 2, dtype=torch.float64)
        x = torch.linalg.lstsq(a.to(device), b.to(device)).solution
        assert_near(x, torch.linalg.pinv(a) @ b, 3000)


@pytest.mark.parametrize("adjoint", [False, True])
def test_lu_solve_of_matrices_between_repeated_dims(adjoint, device):
    a, b = matrices(1, 3, 1, 4, 4) + 3 * torch.eye(4), matrices(2, 1, 3, 4, 5)
    factors, pivots = torch.linalg.lu_factor(a.to(device))
    x = torch.linalg.lu_solve(factors, pivots, b.to(device), adjoint=adjoint).cpu()
    assert_near((a.mT if adjoint else a) @ x, b.expand_as(x))


def test_info_and_errors(device):
    a = torch.eye(6).repeat(3, 1, 1)
    a[1, 4, 4] = -1
    assert torch.linalg.cholesky_ex(a.to(device)).info.tolist() == [0, 5, 0]
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\).*leading minor of order 5"):
        torch.linalg.cholesky(a.to(device))
    a[1, 4, 4] = 0
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(a.to(device))
    assert torch.linalg.lu_factor_ex(a.to(device)).info.tolist() == [0, 5, 0]
    a[2, 0, 1] = float("nan")
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 2\).*non-finite"):
        torch.linalg.svd(a.to(device))


def test_empty_matrices(device):
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        a = torch.empty(shape, device=device)
        assert torch.linalg.cholesky(a).shape == shape
        assert torch.linalg.inv(a).shape == shape
        assert torch.linalg.eigh(a).eigenvectors.shape == shape
        assert torch.linalg.svd(a).U.shape == shape
        assert torch.linalg.qr(a).Q.shape == shape
    assert torch.linalg.det(torch.empty(0, 0, device=device)).item() == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_refused_dtypes_raise_as_on_the_cpu(device, dtype):
    functions = [torch.linalg.eigh, torch.linalg.svd, torch.linalg.qr, torch.linalg.cholesky, torch.det]
    functions += [torch.linalg.lu_factor, torch.linalg.ldl_factor, torch.cholesky_inverse]
    functions += [lambda m: torch.linalg.householder_product(m, m[0]), lambda m: torch.ormqr(m, m[0], m)]
    functions += [lambda m: torch.linalg.solve_triangular(m, m, upper=True)]
    for function in functions:
        for where in ("cpu", device):
            with pytest.raises(NotImplementedError, match="not implemented for '(Half|BFloat16)'"):
                function(torch.eye(3, device=where).to(dtype))


def test_ex_forms_do_not_wait(device):
    a, b = positive(80).to(device), matrices(2, 80, 3).to(device)
    torch.linalg.cholesky_ex(a), torch.linalg.inv_ex(a), torch.linalg.solve_ex(a, b), torch.linalg.qr(a)
    torch.ocl.set_sync_debug_mode("error")
    try:
        torch.linalg.cholesky_ex(a)
        torch.linalg.inv_ex(a)
        torch.linalg.solve_ex(a, b)
        torch.linalg.lu_factor_ex(a)
        torch.linalg.qr(a)
    finally:
        torch.ocl.set_sync_debug_mode("default")


def test_tf32_is_not_used(device):
    a, b = positive(200).to(device), matrices(2, 200, 3)
    torch.set_float32_matmul_precision("high")
    try:
        torch.mm(a[0], a[0])
        x = torch.cholesky_solve(b.to(device), torch.linalg.cholesky(a))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert_near(a.cpu() @ x.cpu(), b)


def test_matrix_exponential(device):
    a = matrices(4, 6, 6, dtype=torch.float64) * torch.tensor([0.01, 1, 5, 0]).view(-1, 1, 1)
    assert_near(torch.matrix_exp(a.to(device)), torch.matrix_exp(a), 1000)


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.cholesky,
        torch.linalg.inv,
        torch.linalg.det,
        torch.linalg.eigvalsh,
        torch.linalg.svdvals,
        lambda s: torch.linalg.qr(s)[1].abs(),
        lambda s: torch.linalg.solve_triangular(s.mT, s, upper=True),
    ],
    ids=["cholesky", "inv", "det", "eigvalsh", "svdvals", "qr", "solve_triangular"],
)
def test_gradients(function, device):
    s = positive(12, torch.float64)
    results = []
    for where in ("cpu", device):
        x = s.clone().to(where).requires_grad_()
        function(x).sin().sum().backward()
        results.append(x.grad.cpu())
    assert_near(results[1], results[0], 1e4)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(
    "form", [lambda b: b, torch.conj, lambda b: b.mH.contiguous().mH, lambda b: b.mT.contiguous().mT]
)
def test_solve_triangular_into_its_right_side(device, left, form):
    a = matrices(5, 5, dtype=torch.complex64).tril() + 3 * torch.eye(5)
    b = matrices(5, 3, dtype=torch.complex64) if left else matrices(3, 5, dtype=torch.complex64)
    right = form(b.to(device).clone())
    expected = torch.linalg.solve_triangular(a, form(b), upper=False, left=left)
    torch.linalg.solve_triangular(a.to(device), right, upper=False, left=left, out=right)
    assert_near(right, expected)


def test_long_sums_of_complex_products(device):
    """Split along the sum on GPUs; vectors, and matrices with an addend."""
    for dtype in (torch.complex64, torch.complex128):
        x, y = matrices(3, 30000, dtype=dtype), matrices(30000, 2, dtype=dtype)
        base = matrices(3, 2, dtype=dtype)
        assert_near(x.to(device) @ y.to(device), x @ y, 1000)
        got = torch.addmm(base.to(device), x.to(device), y.to(device), beta=2 - 1j, alpha=1j)
        assert_near(got, torch.addmm(base, x, y, beta=2 - 1j, alpha=1j), 1000)


@pytest.mark.parametrize("size", [1, 1e-24, 1e-30, 1e20, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.complex128])
def test_qr_of_dependent_columns(device, dtype, size):
    one, matrix = torch.randn(60, 1, dtype=dtype), torch.zeros(60, 40, dtype=dtype)
    matrix[3, 5], matrix[20, 7] = 1 + 0.5j if dtype.is_complex else 1, 2  # columns of nothing but rounding follow
    for a in (one @ torch.randn(1, 40, dtype=dtype), matrix, matrix.mH):
        q, r = (x.cpu() for x in torch.linalg.qr((a * size).to(device)))
        torch.testing.assert_close(q.mH @ q, torch.eye(q.shape[1], dtype=dtype), rtol=0, atol=1e-5)
        torch.testing.assert_close(q @ (r / size), a, rtol=0, atol=2e-5)
        u, s, vh = (x.cpu() for x in torch.linalg.svd((a * size).to(device), full_matrices=False))
        torch.testing.assert_close((u * (s / size)) @ vh, a, rtol=0, atol=2e-5)
