# SPDX-License-Identifier: MIT
"""Tensors of up to PyTorch's 64 dims, whose dims do not merge."""
import pytest
import torch


def shuffled(device, dims, dtype=torch.float32):
    """A tensor with `dims` dims of 2 elements (the rest 1), strides in an order of which no two are neighbours."""
    twos = min(dims, 18)
    sizes = [2] * twos + [1] * (dims - twos)
    x = torch.arange(2**twos).to(dtype).view(sizes)
    order = list(range(0, twos, 2)) + list(range(1, twos, 2)) + list(range(twos, dims))
    return x.permute(order[::-1]), x.to(device).permute(order[::-1])


@pytest.mark.parametrize("dims", [9, 16, 17, 18, 24, 64])
def test_elements(device, dims):
    x, y = shuffled(device, dims)
    assert y.contiguous().cpu().equal(x.contiguous()) and y.cpu().equal(x)
    flat, dense = x.contiguous(), y.contiguous()
    assert (dense + y).cpu().equal(flat + x) and torch.where(y > 5, dense, y).cpu().equal(torch.where(x > 5, flat, x))
    assert y.to(torch.int64).cpu().equal(x.to(torch.int64)) and (y * 2).cpu().equal(x * 2)
    target, expected = torch.zeros_like(dense), torch.zeros_like(flat)
    swapped = [i ^ 1 if (i | 1) < dims and y.shape[i] == y.shape[i ^ 1] else i for i in range(dims)]
    target.permute(swapped).copy_(y), expected.permute(swapped).copy_(x)
    assert target.cpu().equal(expected)
    y.add_(dense), x.add_(flat)
    assert y.cpu().equal(x)


@pytest.mark.parametrize("dims", [12, 17, 20])
def test_reductions(device, dims):
    x, y = shuffled(device, dims, torch.float64)
    for dim in (None, (0, 3, 5, 7, 9, 11), (1,), tuple(range(1, dims, 2))):
        for keepdim in (False, True):
            assert y.sum(dim, keepdim=keepdim).cpu().equal(x.sum(dim, keepdim=keepdim))
            if dim is not None:
                assert y.amax(dim, keepdim=keepdim).cpu().equal(x.amax(dim, keepdim=keepdim))
                torch.testing.assert_close(torch.linalg.vector_norm(y, 2, dim, keepdim).cpu(),
                                           torch.linalg.vector_norm(x, 2, dim, keepdim))
    assert y.argmax().item() == x.argmax().item() and y.max(2)[1].cpu().equal(x.max(2)[1])
    torch.testing.assert_close(y.var((0, 2, 4)).cpu(), x.var((0, 2, 4)))
