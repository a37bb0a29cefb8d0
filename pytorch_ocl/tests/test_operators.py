# SPDX-License-Identifier: MIT
"""Operators that PyTorch's database has no entry for."""
import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_add_relu(device, dtype):
    a, b = torch.arange(-6, 6).to(dtype).reshape(3, 4), torch.arange(4).to(dtype)
    x, y = a.to(device), b.to(device)
    expected = torch.relu(a + 2 * b)
    assert torch._VF._add_relu(x, y, alpha=2).cpu().equal(expected)
    assert torch.ops.aten._add_relu.Scalar(x, 3, 2).cpu().equal(torch.relu(a + 6))
    out = torch.empty_like(x)
    assert torch.ops.aten._add_relu.out(x, y, alpha=2, out=out) is out and out.cpu().equal(expected)
    assert torch.ops.aten._add_relu_.Tensor(x, y, alpha=2) is x and x.cpu().equal(expected)
    assert torch.ops.aten._add_relu_.Scalar(x, -5).cpu().equal(torch.relu(expected - 5))


def test_float32_precision_is_followed(device, monkeypatch):
    """set_float32_matmul_precision("high") allows tf32, "highest" takes it back."""
    monkeypatch.setenv("DLPRIM_GEMM", "mma")
    torch.manual_seed(0)
    a, b = torch.randn(48, 40), torch.randn(40, 56)
    exact = a.double() @ b.double()

    def error():
        return ((a.to(device) @ b.to(device)).cpu() - exact).norm() / exact.norm()

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        rounded = error()
    finally:
        torch.set_float32_matmul_precision(before)
    assert error() < 1e-6 < 1e-5 < rounded < 2e-3
