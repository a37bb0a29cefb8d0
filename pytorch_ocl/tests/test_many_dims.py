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
                torch.testing.assert_close(
                    torch.linalg.vector_norm(y, 2, dim, keepdim).cpu(), torch.linalg.vector_norm(x, 2, dim, keepdim)
                )
    assert y.argmax().item() == x.argmax().item() and y.max(2)[1].cpu().equal(x.max(2)[1])
    torch.testing.assert_close(y.var((0, 2, 4)).cpu(), x.var((0, 2, 4)))


FAMILIES = {
    "cumsum": lambda x, i: x.cumsum(3),
    "cummax": lambda x, i: tuple(x.cummax(2)),
    "logcumsumexp": lambda x, i: x.logcumsumexp(2),
    "softmax": lambda x, i: x.softmax(3),
    "softmax of lines": lambda x, i: x.softmax(-1),
    "log_softmax": lambda x, i: x.log_softmax(0),
    "layer_norm": lambda x, i: torch.nn.functional.layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda x, i: torch.nn.functional.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x, i: torch.nn.functional.group_norm(x, 1),
    "sort": lambda x, i: tuple(x.sort(3)),
    "topk": lambda x, i: tuple(x.topk(1, 3)),
    "kthvalue": lambda x, i: tuple(x.kthvalue(1, 3)),
    "median": lambda x, i: x.median(),
    "mode": lambda x, i: x.mode(3)[0],
    "searchsorted": lambda x, i: torch.searchsorted(x.contiguous().sort(-1)[0], x.contiguous()),
    "gather": lambda x, i: x.gather(3, i),
    "scatter": lambda x, i: x.scatter(3, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(3, i, x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(3, i, x, "amax"),
    "index_select": lambda x, i: x.index_select(3, torch.tensor([1, 0, 1], device=x.device)),
    "index_add": lambda x, i: x.index_add(3, torch.tensor([1, 0], device=x.device), x),
    "index_copy": lambda x, i: x.index_copy(3, torch.tensor([1, 0], device=x.device), x),
    "index_fill": lambda x, i: x.index_fill(3, torch.tensor([1], device=x.device), 3.0),
    "index_reduce": lambda x, i: x.index_reduce(3, torch.tensor([1, 0], device=x.device), x, "prod"),
    "flip": lambda x, i: x.flip((1, 3, 7)),
    "roll": lambda x, i: x.roll((1, 1), (0, 4)),
    "cat": lambda x, i: torch.cat([x, x], 2),
    "stack": lambda x, i: torch.stack([x, x], 2),
    "where": lambda x, i: torch.where(x > 5, x, x.flip(0)),
    "masked_fill": lambda x, i: x.masked_fill(x > 5, 1),
    "masked_select": lambda x, i: x.masked_select(x > 5),
    "masked_scatter": lambda x, i: x.masked_scatter(x > 5, x),
    "nonzero": lambda x, i: x.nonzero(),
    "put": lambda x, i: x.put(torch.tensor([1, 5], device=x.device), torch.tensor([1.0, 2.0], device=x.device)),
    "take": lambda x, i: x.take(torch.tensor([1, 5], device=x.device)),
    "permute": lambda x, i: x.permute(list(range(x.dim()))[::-1]).contiguous(),
    "index": lambda x, i: x[torch.tensor([1, 0, 1], device=x.device), :, torch.tensor([1, 0, 1], device=x.device)],
    "mask": lambda x, i: x[x > 5],
    "index_put": lambda x, i: x.index_put((x > 5,), torch.tensor(7.0, device=x.device)),
    "accumulate": lambda x, i: x.index_put((x > 5,), torch.tensor(7.0, device=x.device), accumulate=True),
    "tril": lambda x, i: x.tril(),
    "pad": lambda x, i: torch.nn.functional.pad(x, (1, 1, 0, 1)),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, torch.arange(4.0, device=x.device).view(2, 2)),
    "binary_cross_entropy": lambda x, i: torch.nn.functional.binary_cross_entropy(x * 0 + 0.5, (x > 5).float()),
}


@pytest.mark.parametrize("dims", [12, 16, 17, 18])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_families(device, name, dims):
    x, y = shuffled(device, dims)
    x, y = x % 97, y % 97
    results = [FAMILIES[name](t, (t % 2).to(torch.int64)) for t in (x, y)]
    expected, got = (r if isinstance(r, tuple) else (r,) for r in results)
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


@pytest.mark.parametrize("dims", [9, 12, 16, 18])
def test_many_index_tensors(device, dims):
    x, y = shuffled(device, dims)
    torch.manual_seed(dims)
    index = [torch.randint(-2, 2, (5,)) for _ in range(dims)]
    for count in (8, 9, dims):
        at, on_device = index[:count], [i.to(device) for i in index[:count]]
        assert y[tuple(on_device)].cpu().equal(x[tuple(at)])
        behind = (slice(None),) * (dims - count)
        assert y[(*behind, *on_device)].cpu().equal(x[(*behind, *at)])
        values = torch.arange(1.0, 6)
        for accumulate in (False, True):
            unique = [i[:1] for i in at] if not accumulate else at
            value = values[: len(unique[0])].view(-1, *[1] * (dims - count))
            expected = x.index_put(tuple(unique), value, accumulate)
            got = y.index_put(tuple(i.to(device) for i in unique), value.to(device), accumulate)
            assert got.cpu().equal(expected)
    bad = [i.to(device) for i in index]
    bad[10 if dims > 10 else 8] = torch.full((5,), 2, device=device)
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        y[tuple(bad)].cpu()
    before = y.cpu()
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        y.index_put_(tuple(bad), torch.tensor(7.0, device=device)).cpu()
    assert y.cpu().equal(before)


@pytest.mark.parametrize("dims", [16, 18])
def test_gradients(device, dims):
    grads = []
    for x in shuffled(device, dims):
        x = (x % 97).double().requires_grad_()
        y = torch.nn.functional.layer_norm(x.softmax(-1) + x.cumsum(2) / 97, x.shape[-2:]).sum((0, 3)).logsumexp(-1)
        grads.append(torch.autograd.grad(y.square().sum(), x)[0].cpu())
    torch.testing.assert_close(*grads)


def test_more_dims_than_an_operator_takes(device):
    with pytest.raises(RuntimeError, match="too many"):
        torch.fft.fft(shuffled(device, 20)[1], dim=3)
