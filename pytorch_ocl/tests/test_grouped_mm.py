# SPDX-License-Identifier: MIT
"""torch.nn.functional.grouped_mm: groups of rows and of k, with gradients, against the CPU and single products."""

import pytest
import torch

import pytorch_ocl  # noqa: F401

ENDS = [3, 40, 40, 90]


def factors(dtype, rows=96, k=64, n=48, groups=4):
    torch.manual_seed(0)
    return torch.randn(rows, k).to(dtype), torch.randn(groups, n, k).to(dtype).transpose(1, 2)


def close(y, x, dtype):
    bound = 1e-4 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(y.cpu().float(), x.float(), rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_groups_of_rows(dtype):
    a, b = factors(dtype)
    ends = torch.tensor(ENDS, dtype=torch.int32)
    got = torch.nn.functional.grouped_mm(a.to("ocl"), b.to("ocl"), offs=ends.to("ocl"))
    assert got.shape == (96, 48) and got.dtype == dtype and got.device.type == "ocl"
    begin = 0
    for group, end in enumerate(ENDS):
        close(got[begin:end], a[begin:end].float() @ b[group].float(), dtype)
        begin = end


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_groups_of_k(dtype):
    a, b = torch.randn(96, 64).to(dtype), torch.randn(96, 48).to(dtype)
    ends = torch.tensor(ENDS, dtype=torch.int32)
    got = torch.nn.functional.grouped_mm(a.t().to("ocl"), b.to("ocl"), offs=ends.to("ocl"))
    begin = 0
    for group, end in enumerate(ENDS):
        close(got[group], a[begin:end].float().t() @ b[begin:end].float(), dtype)
        begin = end


def test_groups_of_columns_and_none():
    a, b = torch.randn(4, 32, 64).bfloat16(), torch.randn(96, 64).bfloat16().t()
    ends = torch.tensor(ENDS, dtype=torch.int32)
    got = torch.nn.functional.grouped_mm(a.to("ocl"), b.to("ocl"), offs=ends.to("ocl"))
    close(got[:, 3:40], a[1].float() @ b[:, 3:40].float(), torch.bfloat16)
    both = torch.randn(4, 64, 48).bfloat16()
    close(torch.nn.functional.grouped_mm(a.to("ocl"), both.to("ocl")), a.float() @ both.float(), torch.bfloat16)


def test_gradients():
    a, b = factors(torch.bfloat16, rows=ENDS[-1])
    ends, results = torch.tensor(ENDS, dtype=torch.int32), []
    for device in ("cpu", "ocl"):
        x, w = (t.detach().to(device).requires_grad_() for t in (a, b))
        torch.nn.functional.grouped_mm(x, w, offs=ends.to(device)).float().square().sum().backward()
        results.append((x.grad, w.grad))
    for x, y in zip(*results):
        torch.testing.assert_close(y.cpu().float(), x.float(), rtol=0.05, atol=2)


def test_errors():
    a, b = (t.to("ocl") for t in factors(torch.bfloat16))
    ends = torch.tensor(ENDS, dtype=torch.int32, device="ocl")
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        torch._grouped_mm(a, b)
    with pytest.raises(RuntimeError, match="Offsets have to be int32"):
        torch._grouped_mm(a, b, offs=ends.long())
    with pytest.raises(RuntimeError, match="contraction dimension of mat_a and mat_b must match"):
        torch._grouped_mm(a[:, :32], b, offs=ends)
    with pytest.raises(RuntimeError, match="matrix batch sizes have to match"):
        torch._grouped_mm(a, b[:2], offs=ends)
    with pytest.raises(RuntimeError, match="strides should be multiple of 16 bytes"):
        torch._grouped_mm(
            torch.randn(8, 36, device="ocl").bfloat16(), torch.randn(4, 36, 8, device="ocl").bfloat16(), offs=ends
        )
