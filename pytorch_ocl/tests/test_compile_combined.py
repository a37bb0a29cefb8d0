# SPDX-License-Identifier: MIT
"""Small compiled kernels that do not need each other's results take one launch."""

import re

import pytest
import torch
from torch._inductor import metrics
from torch._inductor.utils import run_and_get_code

from pytorch_ocl import inductor

DTYPES = [torch.float32, torch.bfloat16, torch.int64]


@pytest.fixture(autouse=True)
def afresh():
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def launches(function, *inputs):
    """What a compiled function gives, how many fused kernels its program calls, and the parts of combined ones."""
    results, (code, *_) = run_and_get_code(torch.compile(function, fullgraph=True), *inputs)
    return results, len(re.findall(r"^\s+ocl_fused\w*\(\[", code, re.MULTILINE)), code.count("FOR_PART(")


def agree(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_that_differ(device, dtype):
    def function(a, b, c, d):
        return a + 1, b.t() * 2, c.relu(), d[::2] - d[1::2]

    shapes = [(5, 7), (33, 64), (100,), (2048,)]
    inputs = [torch.randint(-9, 9, shape).to(dtype) for shape in shapes]
    metrics.reset()
    found, count, parts = launches(function, *(x.to(device) for x in inputs))
    agree(found, function(*inputs))
    assert count < 4 and parts > 1 and metrics.generated_kernel_count == count


def test_long_ones_stay_alone(device):
    def function(a, b):
        return a + 1, b * 2

    inputs = torch.randn(1 << 18), torch.randn((1 << 18) + 64)
    found, count, parts = launches(function, *(x.to(device) for x in inputs))
    agree(found, function(*inputs))
    assert (count, parts) == (2, 0)


def test_counters_of_a_chain(device):
    """What only the caller reads is done at the end, at whatever depth it could be."""

    def function(x, counters, weight):
        for counter in counters:
            x = (x + counter).softmax(-1) @ weight
            counter.add_(1)
        return x

    def arguments(where):
        torch.manual_seed(0)
        weight = torch.randn(24, 24).to(where)
        return torch.randn(16, 24).to(where), [torch.tensor(i, device=where) for i in range(6)], weight

    expected, given = arguments("cpu"), arguments(device)
    result, count, parts = launches(function, *given)
    torch.testing.assert_close(result.cpu(), function(*expected), rtol=1e-4, atol=1e-4)
    agree(given[1], expected[1])
    assert count == 7 and parts == 6


def test_many_parts_are_several_kernels(device):
    def function(*xs):
        return [x + i for i, x in enumerate(xs)]

    inputs = [torch.randn(10 + 8 * i) for i in range(20)]
    found, count, parts = launches(function, *(x.to(device) for x in inputs))
    agree(found, function(*inputs))
    assert count <= 8 and parts >= 16


def test_buffers_are_not_taken_from_other_parts(device):
    """An intermediate that two parts read is no place for the result of either."""

    def function(x, w):
        shared = x @ w
        return shared * 2, shared.t() + 1, shared[:3].exp() - 1

    torch.manual_seed(0)
    x, w = torch.randn(64, 48), torch.randn(48, 40)
    found, _, _ = launches(function, x.to(device), w.to(device))
    for a, b in zip(found, function(x, w)):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)


def test_bad_index_in_a_part(device):
    def function(table, index, other):
        return table[index] + 1, other * 2

    given = torch.randn(8, 4).to(device), torch.tensor([1, 9], device=device), torch.randn(100).to(device)
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension with size 8"):
        torch.compile(function, fullgraph=True)(*given)
        torch.ocl.synchronize()
    given[1][1] = 3
    agree(torch.compile(function)(*given), function(*(x.cpu() for x in given)))


def test_special_functions_and_random_numbers(device):
    def function(a, b, c):
        return (
            torch.lgamma(a),
            torch.special.i0(b.double()) if c.dtype is torch.float64 else b.sin(),
            torch.rand_like(c),
        )

    inputs = torch.rand(50) + 1, torch.rand(70), torch.rand(30)
    found, _, _ = launches(function, *(x.to(device) for x in inputs))
    agree(found[:2], function(*inputs)[:2])
    assert 0 <= found[2].min() and found[2].max() < 1 and found[2].std() > 0.1


@pytest.mark.whole
def test_optimizer_step(device):
    torch.manual_seed(0)
    sizes = [(7,), (16, 3), (40,), (5, 5), (64,), (130,)]

    def parameters(where):
        torch.manual_seed(1)
        made = [torch.nn.Parameter(torch.randn(size).to(where)) for size in sizes]
        for p in made:
            p.grad = torch.randn(p.shape).to(where)
        return made

    ours, theirs = parameters(device), parameters("cpu")
    optimizer, reference = torch.optim.AdamW(ours, foreach=False), torch.optim.AdamW(theirs, foreach=False)
    step = torch.compile(optimizer.step)
    for _ in range(3):
        step(), reference.step()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-5, atol=1e-6)
