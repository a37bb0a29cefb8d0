# SPDX-License-Identifier: MIT
"""Matrices that keep two of four neighbors: PyTorch's classes, their packing and their products."""

import pytest
import torch
from torch.sparse import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)
from torch.sparse._semi_structured_conversions import sparse_semi_structured_from_dense_cutlass

CLASSES = [SparseSemiStructuredTensorCUTLASS, SparseSemiStructuredTensorCUSPARSELT]
TYPES = [torch.float16, torch.bfloat16, torch.int8]

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of SparseSemiStructuredTensor")


@pytest.fixture(autouse=True)
def on_the_device(set_variable):
    set_variable("PYTORCH_OCL_FALLBACK", "error")


@pytest.fixture(params=CLASSES, ids=["cutlass", "cusparselt"])
def kind(request, monkeypatch):
    monkeypatch.setattr(SparseSemiStructuredTensor, "_FORCE_CUTLASS", request.param is CLASSES[0])
    return request.param


def numbers(*shape, dtype, seed=0):
    values = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()
    return (values if dtype == torch.int8 else values / 2).to(dtype)


def sparse(rows, columns, dtype):
    """With two of four, or fewer."""
    order = torch.rand(rows, columns // 4, 4, generator=torch.Generator().manual_seed(rows)).argsort(-1)
    return torch.where((order < 2).view(rows, columns), numbers(rows, columns, dtype=dtype), 0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_products(kind, dtype, device):
    a, b = sparse(64, 128, dtype), numbers(128, 32, dtype=dtype, seed=1)
    packed = to_sparse_semi_structured(a.to(device))
    assert isinstance(packed, kind) and packed.device.type == "ocl"
    if dtype == torch.int8:
        got = packed @ b.to(device)
        assert got.cpu().equal((a.int() @ b.int()).clamp(-128, 127).to(dtype))
        return
    expected = a.float() @ b.float()
    tolerance = {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close((packed @ b.to(device)).float().cpu(), expected, **tolerance)
    torch.testing.assert_close((b.t().to(device) @ packed.t()).float().cpu(), expected.t(), **tolerance)
    torch.testing.assert_close(packed.to_dense().cpu(), a)
    x, bias = numbers(3, 5, 128, dtype=dtype, seed=2), numbers(64, dtype=dtype, seed=3)
    got = torch.nn.functional.linear(x.to(device), packed, bias.to(device)).float().cpu()
    torch.testing.assert_close(got, torch.nn.functional.linear(x.float(), a.float(), bias.float()), **tolerance)


@pytest.mark.parametrize("dtype", [*TYPES, torch.float32], ids=str)
def test_packing_as_cutlass_has_it(dtype, device):
    a = sparse(64, 128, dtype)
    if dtype == torch.float32:
        a[:, ::2] = torch.where(a[:, 1::2] != 0, 0, a[:, ::2])
    values, places = torch._to_sparse_semi_structured(a.to(device))
    expected = sparse_semi_structured_from_dense_cutlass(a)
    assert values.cpu().equal(expected[0]) and places.cpu().equal(expected[1])
    b = numbers(128, 16, dtype=dtype, seed=1)
    if dtype == torch.int8:
        got = torch._sparse_semi_structured_mm(values, places, b.to(device), out_dtype=torch.int32)
        assert got.cpu().equal(a.int() @ b.int())
    else:
        got = torch._sparse_semi_structured_mm(values, places, b.to(device))
        torch.testing.assert_close(got.float().cpu(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)
        got = torch._sparse_semi_structured_linear(b.t().to(device), values, places, activation="relu")
        torch.testing.assert_close(got.float().cpu(), (a.float() @ b.float()).t().relu(), rtol=1e-2, atol=1e-2)


def test_pruning(kind, device):
    tile = torch.tensor([[4, 3, 2, 1], [-1, -3, 0.6, 0.5], [1, 2, 3, 4], [10, 2, -1, 5]], dtype=torch.float16)
    x = torch.nn.functional.pad(tile, (0, 124, 0, 124), value=1)
    packed = kind.prune_dense_static_sort(x.to(device), algorithm="largest_abs_values_greedy")
    mask = packed.to_dense().cpu() != 0
    assert mask[:4, :4].int().tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]]
    assert mask.view(32, 4, 32, 4).sum(1).max() == 2 and mask.view(32, 4, 32, 4).sum(3).max() == 2
    assert packed.t().to_dense().cpu().equal(packed.to_dense().cpu().t())
    bits = packed.compressed_swizzled_bitmask
    pruned = torch._sparse_semi_structured_apply_dense(x.to(device), bits)
    assert pruned.cpu().equal(torch.where(mask, x, 0))
    if kind is SparseSemiStructuredTensorCUTLASS:
        values, transposed = torch._sparse_semi_structured_apply(x.to(device), bits)
        assert values.equal(packed.packed) and transposed.equal(packed.packed_t)


def test_scaled_product_of_floats_of_8_bits(device):
    a, b = sparse(64, 128, torch.float16).to(torch.float8_e4m3fn), numbers(128, 32, dtype=torch.float16)
    packed = torch._cslt_compress(a.to(device))
    scale = torch.tensor(0.5, device=device)
    got = torch._cslt_sparse_mm(packed, b.to(device).to(a.dtype), alpha=scale, out_dtype=torch.float32)
    torch.testing.assert_close(got.cpu(), a.float() @ b.float() * 0.5)


def test_what_the_classes_refuse(device):
    for x in (torch.zeros(64, 64), torch.zeros(3, 64, 64).half(), torch.zeros(5, 7).half()):
        with pytest.raises(RuntimeError, match="is not a? ?supported"):
            to_sparse_semi_structured(x.to(device))
