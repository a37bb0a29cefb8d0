# SPDX-License-Identifier: MIT
"""Products of complex numbers and of integers, which CPUs compute through other types, and operands of two dtypes."""

import pytest
import torch


def complex_operands(dtype, batch=()):
    torch.manual_seed(0)
    return torch.randn(*batch, 37, 29, dtype=dtype), torch.randn(*batch, 29, 43, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_layouts_of_complex_operands(device, dtype, batch):
    a, b = complex_operands(dtype, batch)
    expected = a.to(torch.complex128) @ b.to(torch.complex128)
    tolerance = 2e-5 if dtype == torch.complex64 else 1e-13
    for first in (a, a.mT.contiguous().mT, a.conj().resolve_conj().conj()):
        for second in (b, b.mT.contiguous().mT):
            result = (first.to(device) @ second.to(device)).cpu()
            torch.testing.assert_close(result.to(torch.complex128), expected, rtol=tolerance, atol=tolerance)
    transposed = torch.empty(*batch, 43, 37, dtype=dtype, device=device).mT
    torch.matmul(a.to(device), b.to(device), out=transposed)
    torch.testing.assert_close(transposed.cpu().to(torch.complex128), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("alpha, beta", [(1, 1), (0.5, -2), (1j, 1), (1, 2 - 1j)])
@pytest.mark.parametrize("shape", [(37, 43), (43,), (37, 1), (1, 1)])
def test_addends_of_complex_products(device, alpha, beta, shape):
    a, b = complex_operands(torch.complex64)
    addend = torch.randn(shape, dtype=torch.complex64)
    expected = torch.addmm(addend, a, b, alpha=alpha, beta=beta)
    result = torch.addmm(addend.to(device), a.to(device), b.to(device), alpha=alpha, beta=beta)
    torch.testing.assert_close(result.cpu(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integer_products_wrap(device, dtype):
    limits = torch.iinfo(dtype)
    torch.manual_seed(0)
    for m, k, n in ((33, 70, 64), (5, 9, 100), (64, 8, 9)):
        a = torch.randint(limits.min, limits.max, (2, m, k), dtype=dtype)
        b = torch.randint(limits.min, limits.max, (2, k, n), dtype=dtype)
        assert torch.equal((a.to(device) @ b.to(device)).cpu(), a @ b)
        assert torch.equal((a.to(device)[0] @ b.mT.contiguous().to(device)[1].T).cpu(), a[0] @ b[1])
        assert torch.equal((a.to(device)[:1].expand(2, -1, -1) @ b.to(device)).cpu(), a[:1] @ b)


@pytest.mark.parametrize("rows", [2, 0])
def test_operands_of_two_dtypes(device, rows):
    a, b = torch.ones(rows, 3, dtype=torch.int16, device=device), torch.ones(3, 4, device=device)
    with pytest.raises(
        RuntimeError, match="expected mat1 and mat2 to have the same dtype, but got: short int != float"
    ):
        a @ b
    with pytest.raises(
        RuntimeError, match="expected mat1 and mat2 to have the same dtype, but got: c10::Half != float"
    ):
        torch.nn.functional.linear(torch.ones(rows, 3, dtype=torch.float16, device=device), b.T)


@pytest.mark.parametrize("base", [None, torch.ones(2, 4)])
def test_batches_of_two_dtypes(device, base):
    a, b = torch.ones(2, 2, 3, device=device), torch.ones(2, 3, 4, dtype=torch.float64, device=device)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        torch.bmm(a, b) if base is None else torch.baddbmm(base.to(device), a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("batch, m, n", [((), 130, 200), ((2,), 40, 72), ((), 17, 36), ((), 70, 37)])
def test_results_in_a_window(device, set_variable, dtype, batch, m, n):
    """Results that are stored as boxes of 16 rows end with their window, and with each matrix of a batch."""
    set_variable("DLPRIM_GEMM", "tma")
    a, b = torch.randn(*batch, m, 64).to(dtype), torch.randn(*batch, n, 64).to(dtype)
    outer = torch.full((*batch, m + 5, n + 24), 7, dtype=dtype, device=device)
    window = outer[..., 3 : 3 + m, 8 : 8 + n]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # tf32, which the core is for
    try:
        torch.matmul(a.to(device), b.to(device).mT, out=window)
    finally:
        torch.set_float32_matmul_precision(before)
    expected = torch.full(outer.shape, 7, dtype=torch.float64)
    expected[..., 3 : 3 + m, 8 : 8 + n] = a.double() @ b.double().mT
    torch.testing.assert_close(outer.double().cpu(), expected, rtol=2e-3, atol=3e-2)


@pytest.mark.parametrize("k", [512, 511])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_operands_of_one_element(device, dtype, k):
    """As the gradient of a sum is."""
    torch.manual_seed(0)
    w = torch.randn(k, 512, dtype=dtype)
    ones = torch.ones((), dtype=dtype, device=device)
    expected = w.double().sum(0).expand(512, 512)
    # A stored result is rounded to its dtype.
    tolerance = dict(rtol=1e-2, atol=0.2) if dtype == torch.bfloat16 else dict(rtol=1e-4, atol=1e-3)
    for a, b in ((ones.expand(512, k), w.to(device)), (ones.expand(512, k), w.T.contiguous().to(device).T)):
        torch.testing.assert_close((a @ b).cpu().double(), expected, **tolerance)
        torch.testing.assert_close((b.T @ a.T).cpu().double(), expected.T, **tolerance)
