# SPDX-License-Identifier: MIT
"""torch.compile: kernels in the form that GPUs get, with vectors and rows that work-items share, on any device."""

import pytest
import torch
import torch.nn.functional as F
from compiling import check, floats, fresh, integers, moved, no_eager_graphs  # noqa: F401


@pytest.fixture(autouse=True)
def gpu_forms(monkeypatch):
    from pytorch_ocl.inductor import runtime

    monkeypatch.setattr(runtime, "gpu_forms", True)


def source_of(function, *arguments):
    """The program that a compiled function becomes."""
    with no_eager_graphs():
        return "\n".join(torch._inductor.utils.run_and_get_code(torch.compile(function), *arguments)[1])


def chain(x):
    return ((x * 2 + 1).relu() - 3).abs().sigmoid() * x


@pytest.mark.parametrize("count", [4096, 4100, 1002, 1001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_elements(device, count, dtype):
    x = integers(0, 50, count, dtype=dtype)
    low = dtype == torch.bfloat16
    check(lambda x: (x * 3 + 1, x > 7), x, device=device, rtol=1e-2 if low else None, atol=1e-2 if low else None)


def test_elements_of_several_arguments(device):
    x, row, column, mask = floats(36, 64), floats(64), floats(36, 1), integers(0, 2, 36, 64).bool()
    check(
        lambda x, row, column, mask: (
            torch.where(mask, x + row, x * column),
            x.t() + 1,
            x.view(4, 9, 8, 8).transpose(1, 2) * 2,
            torch.cat([x[:, 32:], -x[:, :32]], 1),
            x[:, 1:] - x[:, :-1],
            x.flip(1) + x.roll(3, 0),
            x.to(torch.bfloat16) * 2,
        ),
        x,
        row,
        column,
        mask,
        device=device,
    )


def test_elements_are_taken_in_vectors(device):
    x, y = torch.randn(64, 32, device=device), torch.randn(64, 32, device=device, dtype=torch.bfloat16)
    assert "vector=4" in source_of(chain, x)
    text = source_of(lambda x: (x * 2).sigmoid(), y)
    assert "vector=8" in text and "FETCH(ushort" in text and "FLUSH(ushort" in text
    # Neighbours in one argument, far apart in the other.
    assert source_of(lambda x, y: x.t() + y, x, x.view(32, 64)).count("FETCH(") == 1


def test_transposed_arguments_in_tiles(device):
    def function(x, y, z):
        return x.t() + y, z.permute(0, 2, 3, 1) * 2 + z.permute(0, 2, 3, 1).relu().contiguous()

    x, y, z = floats(96, 160), floats(160, 96), floats(3, 64, 5, 7)
    text = source_of(lambda x, y: x.t() + y, x.to(device), y.to(device))
    assert "FOR_TILES(int, xnumel, " in text
    check(function, x, y, z, device=device)
    check(lambda x, y: x.t() + y, x.bfloat16(), y.bfloat16(), device=device, rtol=1e-2, atol=1e-2)


def test_arguments_that_start_within_a_vector(device):
    base = floats(4096)
    function = torch.compile(lambda x, y: (chain(x) + y, (x * y).view(8, -1).softmax(1)))
    arguments = base.to(device)
    for start, other in ((0, 64), (0, 3), (1, 2), (4, 0)):
        x, y = base[start : start + 2048], base[other : other + 2048]
        with no_eager_graphs():
            found = function(arguments[start : start + 2048], arguments[other : other + 2048])
        expected = chain(x) + y, (x * y).view(8, -1).softmax(1)
        torch.testing.assert_close(moved(found, "cpu"), expected)


def test_elements_that_are_changed(device):
    def function(x, y):
        x.mul_(2).add_(y)
        y[4:8] = x[:4]
        return x.relu()

    check(function, floats(32, 16), floats(32, 16), device=device)


@pytest.mark.parametrize("sizes", [(5, 64), (67, 32), (6, 130), (3, 4096), (3, 4097), (2, 40000), (9, 18)])
def test_rows(device, sizes):
    def function(x, w):
        mean = x.mean(-1, keepdim=True)
        return (
            F.layer_norm(x, x.shape[-1:], w) + x,
            F.softmax(x * 2, -1),
            x.argmax(-1),
            x.logsumexp(-1),
            torch.var_mean(x, -1),
            (x > 0).any(-1),
            (x - mean).square().sum(-1),
            x[:, ::2].sum(-1),
        )

    check(function, floats(*sizes), floats(sizes[-1]), device=device, rtol=1e-4, atol=1e-4)


def test_rows_of_16_bit_floats(device):
    x, w = floats(10, 256, dtype=torch.bfloat16), floats(256, dtype=torch.bfloat16)

    def function(x, y, w):
        total = x + y
        return F.rms_norm(total.float(), (256,)).to(x.dtype) * w, total

    check(function, x, x * 2, w, device=device, rtol=5e-2, atol=5e-2)


def test_rows_of_changing_lengths(device):
    function = torch.compile(lambda x: (x.softmax(-1), x.sum(-1), x * 2), dynamic=True)
    for length in (100, 128, 1000):
        x = floats(7, length)
        with no_eager_graphs():
            found = function(x.to(device))
        torch.testing.assert_close(moved(found, "cpu"), (x.softmax(-1), x.sum(-1), x * 2), rtol=1e-4, atol=1e-4)


def test_rows_that_are_changed(device):
    def function(x, w):
        x.copy_(x.softmax(-1))
        return x.sum(-1), x * w

    check(function, floats(9, 128), floats(128), device=device)


def test_rows_whose_memory_is_taken_over(device):
    """A sum that later passes read lies where one of its terms was."""

    def function(x, y, w, v):
        total = x @ w + y
        normed = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * v
        total = normed @ w + total
        return F.softmax(total, -1) @ w + total

    w = floats(64, 64) / 8
    check(function, floats(9, 64), floats(9, 64) * 2, w, floats(64), device=device, rtol=1e-4, atol=1e-4)


def test_a_rows_elements_stay_in_registers(device):
    text = source_of(lambda x: x.softmax(-1), torch.randn(8, 256, device=device))
    assert text.count("FETCH_KEPT(float") == 1 and "FETCH_AGAIN(float" in text


def test_columns_and_long_reductions(device):
    check(
        lambda x: (F.softmax(x, 0), x.argmax(0), torch.var_mean(x, 0), (x > 0).any(0)), floats(130, 70), device=device
    )
    check(lambda x: (chain(x), x.sum(), x.amax()), floats(100, 301), device=device, rtol=1e-4, atol=1e-4)
    check(lambda x: torch.var_mean(x, (0, 2, 3)), floats(8, 3, 24, 24), device=device, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("large", [0, 1e4])
def test_variances_of_numbers_far_from_zero(device, large):
    """The first number of a row is far from the others, or all are far from 0."""
    x = floats(16, 512) + large
    x[::2, 0] = 1e3
    expected = torch.var_mean(x.double(), 1)
    with no_eager_graphs():
        found = torch.compile(lambda x: torch.var_mean(x, 1))(x.to(device))
    torch.testing.assert_close(moved(found, "cpu"), tuple(e.float() for e in expected), rtol=2e-4, atol=1e-5)


def test_a_reduction_beside_atomic_additions(device):
    def function(table, places, weight):
        x = F.layer_norm(F.embedding(places, table), (64,), weight)
        return (x * x.sin()).sum()

    def gradients(function):
        inputs = [x.to(device).requires_grad_() for x in (table, weight)]
        function(inputs[0], places.to(device), inputs[1]).backward()
        return [x.grad for x in inputs]

    table, places, weight = floats(50, 64), integers(0, 50, 4, 30), floats(64)
    with no_eager_graphs():
        found, codes = torch._inductor.utils.run_and_get_code(gradients, torch.compile(function))
    assert any("REDUCE_NUMBER(" in kernel and "ADD(f32" in kernel for kernel in "".join(codes).split("FusedKernel("))
    for a, b in zip(found, gradients(function)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
