# SPDX-License-Identifier: MIT
"""Memory that is read and written at once: PyTorch's errors where it has them, right results where it allows it."""

import pytest
import torch

INTERNAL = "more than one element of the written-to tensor refers to a single memory location"
PARTIAL = "some elements of the input tensor and the written-to tensor refer to a single memory location"


def test_copies_into_a_part_of_themselves(device):
    x = torch.arange(10.0, device=device)
    with pytest.raises(RuntimeError, match=PARTIAL):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match=PARTIAL):
        x[:-1] = x[1:]
    torch.ocl.synchronize(device)
    assert x.tolist() == list(range(10))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
def test_overlapping_copies_that_are_allowed(device, dtype):
    """Views that are not dense are not looked into: the result is as if the source had been copied before."""
    host = torch.arange(400 * 30).view(400, 30).to(dtype)
    for to, of in (
        (lambda x: x[:, 1:], lambda x: x[:, :-1]),
        (lambda x: x[:, :-1], lambda x: x[:, 1:]),
        (lambda x: x[2:, 3:], lambda x: x[:-2, :-3]),
        (lambda x: x[:20, :20], lambda x: x[:20, :20].t()),
        (lambda x: x[:, ::2], lambda x: x[:, 1::2]),
        (lambda x: x[:, 2:], lambda x: x[:, 2:3]),
    ):
        x, expected = host.to(device), host.clone()
        to(x).copy_(of(x))
        to(expected).copy_(of(host))
        assert torch.equal(x.cpu(), expected)
    x = host.to(device)
    assert torch.equal(x[:].copy_(x[:]).cpu(), host)


def test_reading_and_writing_one_memory_as_two_dtypes(device):
    x = torch.tensor([1.0, 2.0, 3.0, -4.0], device=device)
    x.view(torch.int32).copy_(x)
    assert x.view(torch.int32).tolist() == [1, 2, 3, -4]


def test_expanded_destinations(device):
    source, target = torch.rand(3, 4, device=device), torch.zeros(1, device=device).expand(3, 4)
    square = torch.rand(4, 4, device=device)
    first = torch.zeros(1, dtype=torch.int64, device=device)
    for use in (
        lambda: target.copy_(source),
        lambda: target.add_(1),
        lambda: torch.mm(source, square, out=target),
        lambda: target.addmm_(source, square),
        lambda: torch.softmax(source, 1, out=target),
        lambda: torch.sum(torch.rand(2, 3, 4, device=device), 0, out=target),
        lambda: torch.cat([source[:1], source[1:]], out=target),
        lambda: torch.ops.aten.avg_pool2d.out(source[None], [1, 1], out=target[None]),
        lambda: target.masked_scatter_(source > 0, source),
        lambda: target.index_add_(0, first, source[:1]),
        lambda: torch.addmm(source, source, square, out=target),
    ):
        with pytest.raises(RuntimeError, match=INTERNAL):
            use()
    assert target.zero_().tolist() == [[0] * 4] * 3 and target.fill_(2).sum().item() == 24


def test_outputs_in_part_of_an_input(device):
    x = torch.rand(4 * 4 + 1, device=device)
    before, a, b = x.tolist(), x[:16].view(4, 4), x[1:].view(4, 4)
    for use in (
        lambda: torch.mm(a, a, out=b),
        lambda: b.addmm_(a, a),
        lambda: torch.cumsum(a, 0, out=b),
        lambda: torch.logcumsumexp(a, 0, out=b),
        lambda: torch.softmax(a, 0, out=b),
        lambda: b.mul_(a),
        lambda: torch.tril(a, out=b),
        lambda: torch.bernoulli(a, out=b),
        lambda: torch._foreach_copy_([b], [a]),
        lambda: torch._foreach_add_([b], [a]),
        lambda: torch._foreach_lerp_([b], [a], 0.5),
        lambda: torch._foreach_addcmul_([b], [torch.ones_like(b)], [a]),
    ):
        with pytest.raises(RuntimeError, match=PARTIAL):
            use()
    assert x.tolist() == before


def test_copies_of_complex_half(device):
    z = torch.randn(5, 3, dtype=torch.complex64)
    short = z.to(torch.chalf)
    there = short.to(device)
    assert there.dtype == torch.chalf and torch.equal(torch.view_as_real(there.cpu()), torch.view_as_real(short))
    for given in (z.to(device), z.to(device).to(torch.complex128), short.t().to(device).t()):
        assert torch.equal(torch.view_as_real(given.to(torch.chalf).cpu()), torch.view_as_real(short))
    assert torch.equal(there.to(torch.complex64).cpu(), short.to(torch.complex64))
    assert torch.equal(
        torch.view_as_real(torch.ones(2, device=device).to(torch.chalf).cpu()),
        torch.tensor([[1.0, 0.0]] * 2, dtype=torch.half),
    )


def test_copies_between_interleaved_elements_need_no_memory(device):
    for dtype in (torch.float32, torch.int8, torch.complex64):
        host = torch.arange(3 * 4096).view(-1, 3).to(dtype)
        x = host.to(device)
        torch.ocl.reset_peak_memory_stats(device)
        before = torch.ocl.memory_allocated(device)
        x[:, 0].copy_(x[:, 2])
        assert torch.ocl.max_memory_allocated(device) == before
        host[:, 0] = host[:, 2]
        assert x.cpu().equal(host)
    x = torch.arange(12, device=device)
    x.as_strided((3,), (4,), 1).copy_(x.as_strided((3,), (2,), 1).clone())
    y = torch.arange(12, device=device)
    y.as_strided((3,), (4,), 1).copy_(y.as_strided((3,), (2,), 1))
    assert x.cpu().equal(y.cpu())


@pytest.mark.parametrize("find", [torch.max, torch.min, torch.aminmax])
def test_extremes_of_a_dim_are_not_written_over_each_other(device, find):
    """As PyTorch's own kernels refuse it."""
    x = torch.rand(3, 3, device=device)
    second = torch.float32 if find is torch.aminmax else torch.int64
    shared = [torch.zeros(1, dtype=dtype, device=device).expand(3) for dtype in (torch.float32, second)]
    with pytest.raises(RuntimeError, match=INTERNAL):
        find(x, dim=1, out=shared)
    with pytest.raises(RuntimeError, match=INTERNAL):
        find(x, dim=1, out=(torch.zeros(3, device=device), shared[1]))
    memory = torch.rand(12, device=device)
    with pytest.raises(RuntimeError, match=PARTIAL):
        find(memory[:9].view(3, 3), dim=1, out=(memory[8:11], torch.zeros(3, dtype=second, device=device)))
