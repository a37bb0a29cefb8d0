# SPDX-License-Identifier: MIT
"""Sparse tensors of coordinates: made, summed, multiplied, made dense, and as gradients of embeddings."""

import pytest
import torch
from torch import nn


def pair(device, dtype=torch.float32, dense_sizes=(), seed=0):
    """The same tensor with doubled coordinates on the CPU and on the device."""
    torch.manual_seed(seed)
    indices = torch.tensor([[0, 2, 2, 1, 2], [3, 1, 1, 0, 1]])
    values = torch.randn(5, *dense_sizes).mul(4).to(dtype)
    sizes = (3, 4, *dense_sizes)
    return torch.sparse_coo_tensor(indices, values, sizes), torch.sparse_coo_tensor(
        indices.to(device), values.to(device), sizes
    )


def check(got, expected):
    assert got.layout == expected.layout and got.dtype == expected.dtype and got.device.type == "ocl"
    if expected.is_sparse:
        assert got.is_coalesced() == expected.is_coalesced()
        got, expected = got.coalesce(), expected.coalesce()
        assert got.indices().cpu().equal(expected.indices())
        torch.testing.assert_close(got.values().cpu(), expected.values())
        got, expected = got.to_dense(), expected.to_dense()
    torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("dense_sizes", [(), (2,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex64])
def test_operators(device, dtype, dense_sizes):
    x, y = pair(device, dtype, dense_sizes)
    a, b = pair(device, dtype, dense_sizes, seed=1)
    dense = torch.arange(x.numel()).view(x.shape).to(dtype)
    check(y, x), check(y.coalesce(), x.coalesce()), check(y.to_dense(), x.to_dense())
    check(y + b, x + a), check(y.coalesce() - b.coalesce(), x.coalesce() - a.coalesce())
    check(dense.to(device) + y, dense + x), check(torch.add(dense.to(device), y, alpha=3), torch.add(dense, x, alpha=3))
    check(dense.to(device).t().contiguous().t() + y if y.dim() == 2 else y, dense + x if x.dim() == 2 else x)
    check(y * 2, x * 2), check(-y, -x), check(y.coalesce() * b.coalesce(), x.coalesce() * a.coalesce())
    check(dense.to(device).to_sparse(), dense.to_sparse()), check(y.to("cpu").to(device), x)
    assert torch.sum(y).item() == pytest.approx(torch.sum(x).item(), rel=1e-2)
    out = dense.to(device)
    out.add_(y, alpha=2)
    check(out, dense.add(x, alpha=2))


def test_products_with_dense_tensors(device):
    x, y = pair(device, dense_sizes=(2,))
    dense = torch.randn(3, 4, 2)
    check(y * dense.to(device), x * dense)
    for sizes in [(4, 2), (3, 1, 1), (5, 3, 4, 2), (2, 1, 4, 1)]:
        dense_or_larger = torch.randn(sizes)
        check((y * dense_or_larger.to(device)).coalesce(), (x * dense_or_larger).coalesce())
    check(dense.to(device).sparse_mask(y.coalesce()), dense.sparse_mask(x.coalesce()))


def test_products_of_sparse_tensors_broadcast_dense_dimensions(device):
    x, y = (part.coalesce() for part in pair(device, dense_sizes=(2, 3)))
    a, b = (part.coalesce() for part in pair(device, dense_sizes=(1, 3), seed=1))
    check(y * b, x * a), check(b * y, a * x)


@pytest.mark.parametrize("sizes", [(), (5,), (2, 3)])
def test_products_with_dense_tensors_of_more_dimensions(device, sizes):
    torch.manual_seed(0)
    indices = torch.stack([torch.randint(size, (10,)) for size in sizes]) if sizes else torch.zeros(0, 10).long()
    x = torch.sparse_coo_tensor(indices, torch.randn(10), sizes)
    for leading in ((1,), (2,), (3, 1)):
        dense = torch.randn(*leading, *sizes)
        found, wanted = x.to(device) * dense.to(device), x * dense
        assert (found._nnz(), found.is_coalesced()) == (wanted._nnz(), wanted.is_coalesced())
        check(found, wanted)


def test_sums_with_nothing(device):
    """Another number of sparse dimensions is no matter then, as on the CPU."""
    x, y = pair(device, dense_sizes=(2,))
    nothing = torch.sparse_coo_tensor(size=x.shape)
    check(y + nothing.to(device), x + nothing), check(nothing.to(device) - y, nothing - x)


def test_empty_ones(device):
    x = torch.sparse_coo_tensor(
        torch.empty(2, 0, dtype=torch.long, device=device), torch.empty(0, device=device), (3, 4)
    )
    assert x.coalesce()._nnz() == 0 and x.to_dense().cpu().equal(torch.zeros(3, 4)) and (x + x)._nnz() == 0
    assert x.device.type == "ocl" and "layout=torch.sparse_coo" in repr(x)


def test_refusals(device):
    x, y = pair(device)
    for use in (
        lambda s, d: s + torch.ones(3, 4, device=d),
        lambda s, d: torch.ones(3, device=d) + s,
        lambda s, d: s + s.new_empty((2, 2)),
    ):
        for sparse, where in ((x, "cpu"), (y, device)):
            with pytest.raises(RuntimeError):
                use(sparse, where)
    indices, values = torch.tensor([[7]], device=device), torch.ones(1, device=device)
    with pytest.raises(RuntimeError, match="inconsistent with indices"):
        torch.sparse_coo_tensor(indices, values, (3,), check_invariants=True)
    with pytest.raises(IndexError):
        torch.sparse_coo_tensor(indices, values, (3,)).to_dense().cpu()
    torch.ones(1, device=device).item()


def test_halves(device):
    x, y = pair(device)
    result = y.half() + y.half()
    assert result.dtype == torch.float16
    torch.testing.assert_close(result.to_dense().cpu().float(), 2 * x.to_dense(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.Adagrad(p, 0.1),
        lambda p: torch.optim.SparseAdam(p, 0.1),
    ],
)
@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_train(device, layer, make):
    results = []
    for where in ("cpu", device):
        torch.manual_seed(0)
        module = layer(10, 4, sparse=True).to(where)
        optimizer = make(module.parameters())
        tokens = torch.tensor([[1, 2, 4, 5], [4, 3, 2, 9]], device=where)
        for _ in range(3):
            optimizer.zero_grad()
            module(tokens).square().sum().backward()
            assert module.weight.grad.is_sparse
            optimizer.step()
        results.append((module.weight.detach().cpu(), module.weight.grad.to_dense().cpu()))
    for expected, got in zip(*results):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
