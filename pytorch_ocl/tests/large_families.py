# SPDX-License-Identifier: MIT
"""Operators on tensors beyond the reach of 32-bit indices, with expected values from formulas, not from another device.

python large_families.py [--gib G] [--small] [NAME...] runs the families (all: default) that fit in G GiB (default: the
device's free memory) and prints a line for each. --small does the same work with a fiftieth of a percent of the
elements; with DLPRIM_INDEX_LIMIT=20000 it takes the same paths.
"""

import argparse
import collections
import json
import math
import sys
import time
import traceback

import torch
import torch.nn.functional as F

import pytorch_ocl  # noqa: F401

PERIOD = 251  # prime: an index that lost high bits meets another phase
Family = collections.namedtuple("Family", "check bytes_an_element")
FAMILIES = {}


class Size:
    """`n` elements, more than `limit` (the largest 32-bit index); n is a multiple of 8 * PERIOD."""

    def __init__(self, small, device):
        self.small, self.device = small, device
        self.limit = 20_000 if small else 2**31 - 1
        self.n = 8 * PERIOD * (15 if small else 1_500_000)
        # Places at and around the limits, and the ends.
        self.places = [0, 1, self.limit - 1, self.limit, self.limit + 1, self.n - 2, self.n - 1]

    def pattern(self, dtype=torch.uint8, n=None):
        """0, 1 ... 250, 0, 1 ... of n elements."""
        x = torch.empty(n or self.n, dtype=dtype, device=self.device)
        x.view(-1, PERIOD).copy_(torch.arange(PERIOD, device=self.device).to(dtype).expand(x.numel() // PERIOD, PERIOD))
        return x


def family(bytes_an_element):
    """Registers check(size); `bytes_an_element`: device memory it needs at most, for each of size.n elements."""

    def register(check):
        FAMILIES[check.__name__] = Family(check, bytes_an_element)
        return check

    return register


def expect(name, got, wanted, tolerance=0.0):
    got, wanted = (v.tolist() if isinstance(v, torch.Tensor) else v for v in (got, wanted))
    flat = lambda v: [i for e in v for i in flat(e)] if isinstance(v, (list, tuple)) else [v]
    close = all(
        a == b or abs(a - b) <= tolerance * max(abs(b), 1) for a, b in zip(flat(got), flat(wanted), strict=True)
    )
    assert close, f"{name}: expected {wanted}, got {got}"


def expect_rows(name, tensor, row, tolerance=0.0):
    """Every row of row.numel() elements of a dense tensor equals `row`, looked at in parts of short reach."""
    rows, row = tensor.view(-1, row.numel()), row.to(tensor.device, tensor.dtype)
    step = max(1, (rows.numel() // 40) // row.numel())
    for begin in range(0, rows.size(0), step):
        part = rows[begin : begin + step]
        same = (
            torch.equal(part, row.expand_as(part))
            if not tolerance
            else torch.allclose(part.float(), row.float().expand_as(part), rtol=tolerance, atol=tolerance)
        )
        assert same, f"{name}: row {begin} and its neighbours differ: {part[0, :8].tolist()} for {row[:8].tolist()}"


def at(tensor, places):
    """Elements of a dense tensor, one by one."""
    flat = tensor.view(-1)
    return [flat[place].item() for place in places]


@family(4)
def fill_copy_cast(s):
    row = torch.arange(PERIOD)
    x = s.pattern()
    expect_rows("pattern", x, row)
    expect_rows("clone", x.clone(), row)
    y = torch.full((s.n,), 7, dtype=torch.uint8, device=s.device)
    expect_rows("full", y, torch.full((PERIOD,), 7))
    expect_rows("copy_", y.copy_(x), row)
    expect_rows("cast", x.to(torch.bool), row != 0)
    expect_rows("zero_", y.zero_(), torch.zeros(PERIOD))
    y[s.places] = 9
    expect("setitem", at(y, s.places), [9] * len(s.places))
    host = x[s.limit - 20 : s.limit + 20].cpu().tolist()
    expect("copy to the host", host, [i % PERIOD for i in range(s.limit - 20, s.limit + 20)])


@family(4)
def pointwise(s):
    row, x = torch.arange(PERIOD), s.pattern()
    expect_rows("add", x + 5, (row + 5).to(torch.uint8))
    expect_rows("add_", x.clone().add_(x), (2 * row).to(torch.uint8))
    expect_rows("gt", x > 100, row > 100)
    expect_rows("where", torch.where(x > 100, x, 3), torch.where(row > 100, row, 3))
    expect_rows("strided", x[1::2] * 1, row.repeat(2)[1::2])
    column = torch.arange(s.n // PERIOD, device=s.device).remainder_(2).to(torch.uint8)
    expect_rows("broadcast", x.view(-1, PERIOD) * column[:, None], torch.cat([row * 0, row]))
    x[1::2] += 1
    expect_rows("strided in place", x, row.repeat(2) + torch.arange(2 * PERIOD) % 2)
    expect("equal", torch.equal(x, x), True)
    expect_rows("masked_fill", x.masked_fill(x > 5, 5), (row.repeat(2) + torch.arange(2 * PERIOD) % 2).clamp(max=5))
    expect_rows("foreach", torch._foreach_add([x.zero_(), x[:5]], 3)[0], torch.full((PERIOD,), 3))


@family(3)
def reductions(s):
    x, turns = s.pattern(), s.n // PERIOD
    x[s.n - 1], x[s.limit] = 251, 252
    total = turns * (PERIOD * (PERIOD - 1) // 2) + 251 - (s.n - 1) % PERIOD + 252 - s.limit % PERIOD
    expect("sum", x.sum(dtype=torch.int64), total)
    expect("amax", x.amax(), 252)
    expect(
        "max of halves", x.view(2, -1).amax(1).sort().values, sorted([252, 251] if s.limit < s.n // 2 else [250, 252])
    )
    expect("amin", x.amin(), 0)
    expect("argmax", x.argmax(), s.limit)
    expect("argmin", x.argmin(), 0)
    expect("any", x.any(), True)
    expect("all", x.all(), False)
    expect("count_nonzero", x.count_nonzero(), s.n - turns)
    expect("aminmax", list(map(torch.Tensor.item, x.aminmax())), [0, 252])
    x[s.n - 1], x[s.limit] = (s.n - 1) % PERIOD, s.limit % PERIOD
    row_sum = PERIOD * (PERIOD - 1) // 2
    expect_rows("rows", x.view(-1, PERIOD).sum(1), torch.full((4,), row_sum))
    expect("columns", x.view(-1, PERIOD).sum(0), [turns * r for r in range(PERIOD)])
    general = x.view(8, -1, PERIOD).sum((0, 2))
    expect_rows("outer and inner", general.view(-1)[: turns // 8 // 4 * 4], torch.full((4,), 8 * row_sum))
    expect("strided", x.view(-1, 2 * PERIOD)[:, 1].sum(), turns // 2)
    values, where = x.view(-1, PERIOD).max(1)
    expect_rows("max with positions", where[: turns // 4 * 4], torch.full((4,), 250))
    expect("long rows' positions", x.view(2, -1).argmax(1), [250, 250])


@family(6)
def floating_reductions(s):
    x, turns = s.pattern(torch.float16), s.n // PERIOD
    mean, second = 125.0, sum((r - 125.0) ** 2 for r in range(PERIOD)) / PERIOD
    expect("mean", x.mean(dtype=torch.float32), mean, 1e-5)
    expect("var", x.var(correction=0), second, 2e-3)
    expect("std", x.std(), math.sqrt(second), 2e-3)
    expect(
        "var_mean of rows",
        torch.stack(torch.var_mean(x.view(2, -1), 1, correction=0)),
        [[second] * 2, [mean] * 2],
        2e-3,
    )
    squares = sum(r * r for r in range(PERIOD))
    expect("norm", torch.linalg.vector_norm(x, dtype=torch.float32), math.sqrt(turns * squares), 1e-4)
    expect("norm 1", torch.linalg.vector_norm(x, 1, dtype=torch.float32), turns * PERIOD * 125.0, 1e-4)
    expect("norm inf", torch.linalg.vector_norm(x, math.inf), 250.0)
    x = s.pattern(torch.bfloat16)  # PyTorch's formula rounds the sum to the type: beyond float16
    expect("logsumexp of columns", x.view(-1, PERIOD).logsumexp(0)[:3], [math.log(turns) + r for r in range(3)], 1e-2)
    expect(
        "logsumexp",
        x.mul_(1 / 64).logsumexp(0),
        math.log(turns) + math.log(sum(math.exp(r / 64) for r in range(PERIOD))),
        1e-2,
    )
    expect("nansum", x.fill_(0.5).view(-1, 4).nansum(0, dtype=torch.float32), [s.n / 8] * 4)


@family(7)
def softmax(s):
    width = 4 * PERIOD
    x = s.pattern(torch.float16).mul_(1 / 32)
    row = (torch.arange(PERIOD) / 32).half().float().repeat(4)
    y = x.view(-1, width).softmax(1)
    expect_rows("softmax", y, row.softmax(0), 2e-3)
    x = torch.ones_like(x).view(-1, width).mul_(torch.arange(width, device=s.device) % 2)
    grad = torch.ops.aten._softmax_backward_data(x, y, 1, torch.float16)
    g, p = torch.arange(width) % 2, row.softmax(0)
    expect_rows("softmax's gradient", grad, p * (g - (p * g).sum()), 2e-3)
    del grad, y
    y = x.log_softmax(1)
    expect_rows("log_softmax", y, g.float().log_softmax(0), 2e-3)
    y = x.view(width, -1).zero_().softmax(0)
    expect("softmax of columns", at(y, s.places), [1 / width] * len(s.places), 1e-2)


@family(4)
def scans(s):
    x = s.pattern()
    y = x.cumsum(0, dtype=torch.uint8)
    turn = PERIOD * (PERIOD - 1) // 2

    def running(i):
        return (i // PERIOD * turn + (i % PERIOD) * (i % PERIOD + 1) // 2) % 256

    expect("cumsum", at(y, s.places), [running(i) for i in s.places])
    torch.cumsum(x.view(-1, PERIOD), 1, dtype=torch.uint8, out=y.view(-1, PERIOD))
    expect_rows("cumsum of rows", y, torch.arange(PERIOD).cumsum(0).to(torch.uint8))
    y = x.view(8, -1).cumsum(0, dtype=torch.uint8)
    expect_rows("cumsum of columns", y.view(8, -1)[7], (8 * torch.arange(PERIOD)).to(torch.uint8))


@family(14)
def fourier_transforms(s):
    y = torch.fft.rfft(s.pattern(torch.float32).view(-1, PERIOD), norm="ortho")
    expected = torch.fft.rfft(torch.arange(PERIOD, dtype=torch.float64), norm="ortho")
    expect_rows("rfft", torch.view_as_real(y), torch.view_as_real(expected).flatten(), 1e-3)


@family(10)
def running_extremes(s):
    values, where = s.pattern().view(-1, PERIOD).cummax(1)
    expect_rows("cummax", values, torch.arange(PERIOD))
    expect_rows("cummax's positions", where, torch.arange(PERIOD))


@family(5)
def join_and_split(s):
    row, x = torch.arange(PERIOD), s.pattern()
    half = s.n // 2
    expect_rows("cat", torch.cat([x[:half], x[half:], x[:PERIOD]]), row)
    expect_rows("cat of columns", torch.cat([x.view(-1, PERIOD)[:, :51], x.view(-1, PERIOD)[:, 51:]], 1), row)
    expect_rows("stack", torch.stack([x[:half], x[half:]]), row)
    expect_rows("stack of columns", torch.stack([x[:half], x[half:]], 1), row.repeat_interleave(2))
    expect("split", [part.sum(dtype=torch.int64).item() for part in x.split(half)], [half // PERIOD * 31375] * 2)
    expect_rows("repeat", x[:half].repeat(2), row)
    expect_rows("repeat_interleave", x[:half].repeat_interleave(2), row.repeat_interleave(2))


@family(4)
def indexing(s):
    x, i = s.pattern(), torch.tensor(s.places, device=s.device)
    wanted = [p % PERIOD for p in s.places]
    expect("index", x[i], wanted)
    expect("negative index", x[i - s.n], wanted)
    expect("index_select", x.index_select(0, i), wanted)
    expect("gather", x.gather(0, i), wanted)
    expect("take", x.take(i), wanted)
    lines = x.view(-1, PERIOD)
    reverse = torch.arange(lines.size(0) - 1, -1, -1, device=s.device)
    lines[0, 0], lines[-1, 0] = 251, 252
    y = lines.index_select(0, reverse)
    expect("all rows", [y[0, 0].item(), y[-1, 0].item(), y[-1, 250].item()], [252, 251, 250])
    expect_rows("all rows", y.view(-1)[PERIOD:-PERIOD], torch.arange(PERIOD))
    lines[0, 0] = lines[-1, 0] = 0
    values = torch.arange(3, 3 + len(s.places), dtype=torch.uint8, device=s.device)
    x[i] = values
    expect("index_put", at(x, s.places), values)
    expect("scatter_", at(x.scatter_(0, i, values + 1), s.places), values + 1)
    expect("index_add_", at(x.index_add_(0, i, values), s.places), 2 * values + 1)
    expect("index_fill_", at(x.index_fill_(0, i, 5), s.places), [5] * len(s.places))
    expect("index_copy_", at(x.index_copy_(0, i, values), s.places), values)
    expect("scatter_add_", at(x.scatter_add_(0, i, values), s.places), 2 * values)
    expect("index_put, accumulated", at(x.index_put_((i,), values, accumulate=True), s.places), 3 * values)
    expect_rows("everything between", x[2 : 2 + (s.limit - 3) // PERIOD * PERIOD], (torch.arange(PERIOD) + 2) % PERIOD)


@family(4)
def masks(s):
    x = s.pattern()
    expect("eq", (x == 250).sum(), s.n // PERIOD)
    mask = torch.zeros(s.n, dtype=torch.bool, device=s.device)
    mask[s.places] = True
    expect("nonzero", mask.nonzero().flatten(), s.places)
    expect("nonzero of a matrix", mask.view(-1, PERIOD).nonzero(), [[p // PERIOD, p % PERIOD] for p in s.places])
    expect("masked_select", x.masked_select(mask), [p % PERIOD for p in s.places])
    x.masked_scatter_(mask, torch.arange(20, 20 + len(s.places), dtype=torch.uint8, device=s.device))
    expect("masked_scatter_", at(x, s.places), list(range(20, 20 + len(s.places))))
    expect("masked_fill_", at(x.masked_fill_(mask, 4), s.places), [4] * len(s.places))
    x[mask] = 6
    expect("setitem by a mask", at(x, s.places), [6] * len(s.places))


@family(20)
def sorting(s):
    lines = s.pattern().view(-1, PERIOD)
    order = lines.argsort(1, descending=True)
    expect_rows("argsort", order, torch.arange(250, -1, -1))
    del order
    values, where = lines.topk(3)
    expect_rows("topk", values.flatten(), torch.tensor([250, 249, 248]))
    expect_rows("topk's positions", where.flatten(), torch.tensor([250, 249, 248]))
    expect_rows("median", lines.median(1).values, torch.tensor([125]))
    expect_rows("kthvalue", lines.kthvalue(7, 1).values, torch.tensor([6]))
    del values, where


@family(40)
def long_sort(s):
    x = torch.zeros(s.n, dtype=torch.uint8, device=s.device)
    x[s.places] = torch.arange(1, 1 + len(s.places), dtype=torch.uint8, device=s.device)
    count = len(s.places)
    order = x.argsort(descending=True)
    expect("sort", order[:count], s.places[::-1])
    del order
    expect("unique", torch.unique(x), list(range(count + 1)))


@family(3)
def permuted_copies(s):
    row, x = torch.arange(PERIOD), s.pattern()
    y = x.view(-1, PERIOD).t().contiguous()
    expect("transpose", [y[r].min().item() for r in (0, 1, 125, 250)], [0, 1, 125, 250])
    expect("transpose", [y[r].max().item() for r in (0, 1, 125, 250)], [0, 1, 125, 250])
    expect_rows("and back", y.t().contiguous(), row)
    y = x.view(8, -1, PERIOD).permute(1, 0, 2).contiguous()
    expect_rows("permute", y, row)
    y = x.view(8, -1, PERIOD).permute(2, 0, 1).contiguous()
    expect("permute", [y[r].sum(dtype=torch.int64).item() for r in (1, 250)], [s.n // PERIOD, 250 * (s.n // PERIOD)])
    expect_rows("flip", x.flip(0), row.flip(0))
    expect_rows("flip of rows", x.view(-1, PERIOD).flip(1), row.flip(0))
    expect_rows("roll", x.roll(5), row.roll(5))
    expect_rows("roll of rows", x.view(-1, PERIOD).roll(7, 1), row.roll(7))


@family(4)
def triangles_and_ranges(s):
    size = math.isqrt(s.n)
    y = torch.ones(size, size, dtype=torch.uint8, device=s.device)
    expect("tril", y.tril().sum(dtype=torch.int64), size * (size + 1) // 2)
    expect("triu", y.triu(1).sum(dtype=torch.int64), size * (size - 1) // 2)
    expect("tril's end", y.tril(-1)[-1, -3:], [1, 1, 0])
    del y
    x = torch.linspace(0, 1, s.n, dtype=torch.float16, device=s.device)
    expect("linspace", at(x, s.places), [p / (s.n - 1) for p in s.places], 1e-3)
    step = 1 if s.small else 1 / 2**20
    torch.arange(0, s.n * step, step, out=x)
    expect("arange", at(x, s.places), [p * step for p in s.places], 1e-3)


@family(12)
def products(s):
    rows = s.n // 8
    a = torch.arange(rows, device=s.device).remainder_(7).half()[:, None].expand(rows, 8).contiguous()
    b = torch.eye(8, 3, dtype=torch.float16, device=s.device)
    expect_rows(
        "tall times thin", (a @ b)[: rows // 7 * 7].contiguous(), torch.arange(7.0)[:, None].expand(7, 3).flatten()
    )
    expect_rows("matrix times vector", (a @ b[:, 0])[: rows // 7 * 7].contiguous(), torch.arange(7.0))
    a = a.fill_(1).view(8, -1)
    scale = 2.0 ** -math.ceil(math.log2(rows))
    long = torch.addmm(torch.zeros(8, 8, dtype=torch.float16, device=s.device), a, a.t(), beta=0, alpha=scale)
    expect("long sums", long, [[rows * scale] * 8] * 8, 2e-3)
    del a
    size = math.isqrt(s.n) // 8 * 8 + 8
    left = torch.arange(size, device=s.device).remainder_(3).half()[:, None]
    right = torch.arange(size, device=s.device).remainder_(5).half()[None]
    wanted = (torch.arange(size) % 5).float()
    y = left @ right
    for r in (0, 1, size // 2, size - 1):
        expect_rows("outer product", y[r], wanted * (r % 3))
    y = torch.addmm(y, left, right)
    expect_rows("addmm", y[size - 1], 2 * wanted * ((size - 1) % 3))
    del y
    batches = s.n // 64
    x = torch.ones(batches, 8, 8, dtype=torch.float16, device=s.device)
    expect("bmm", at(torch.bmm(x, x), [0, batches * 64 - 1, s.limit]), [8, 8, 8])


@family(5)
def random_numbers(s):
    x = torch.empty(s.n, dtype=torch.float16, device=s.device)
    torch.manual_seed(3)

    def moments(name, mean, deviation):
        step = s.n // 8
        for part in x.split(step):  # each part has the moments, and none repeats another
            m = part[:step].float() if s.small else part[::64].float()
            expect(f"{name}: mean", m.mean(), mean, 0.1 if s.small else 0.01)
            expect(f"{name}: deviation", m.std(), deviation, 0.1 if s.small else 0.01)
        ends = (
            x[:1000],
            x[s.limit - 999 : s.limit + 1],
            x[s.n - 1000 :],
            x[s.n // 2 : s.n // 2 + 1000],
            x[s.n // 4 : s.n // 4 + 1000],
        )
        for k, one in enumerate(ends):
            assert not any(torch.equal(one, other) for other in ends[:k]), f"{name} repeats itself"

    x.uniform_()
    moments("uniform_", 0.5, 0.2887)
    first = x[:1000].clone(), x[s.n - 1000 :].clone()
    x.uniform_()
    assert not torch.equal(x[:1000], first[0]) and not torch.equal(x[s.n - 1000 :], first[1])
    torch.manual_seed(3)
    x.uniform_()
    assert torch.equal(x[:1000], first[0]) and torch.equal(x[s.n - 1000 :], first[1])
    moments("normal_", 0, 1) if x.normal_() is x else None
    moments("exponential_", 1, 1) if x.exponential_() is x else None
    moments("bernoulli_", 0.25, 0.433) if x.bernoulli_(0.25) is x else None
    moments("log_normal_", math.exp(0.03125), 0.262) if x.log_normal_(0, 0.25) is x else None
    moments("random_", 2, math.sqrt(2)) if x.random_(0, 5) is x else None
    y = F.dropout(x.fill_(1), 0.25)
    x = y
    moments("dropout", 1, 0.57735)


@family(9)
def norm_layers(s):
    width = 8 * PERIOD
    x = s.pattern(torch.float16).view(-1, width)
    row = torch.arange(PERIOD).float().repeat(8)
    wanted = (row - 125) / math.sqrt(5250)
    expect_rows("layer_norm", F.layer_norm(x, (width,)), wanted, 4e-3)
    y, mean, rstd = torch.native_layer_norm(x, (width,), None, None, 1e-5)
    expect_rows("mean", mean.flatten(), torch.tensor([125.0]), 1e-3)
    del y
    g = torch.ones_like(x)
    grad = torch.ops.aten.native_layer_norm_backward(g, x, (width,), mean, rstd, None, None, [True, False, False])[0]
    expect_rows("layer_norm's gradient", grad, torch.zeros(width), 1e-3)
    del grad, g
    expect_rows("rms_norm", F.rms_norm(x, (width,)), row / math.sqrt(20875), 4e-3)
    images = x.view(-1, 8, PERIOD)
    expect_rows("group_norm", F.group_norm(images, 4), wanted[:PERIOD], 4e-3)
    running = torch.zeros(8, device=s.device), torch.ones(8, device=s.device)
    expect_rows("batch_norm", F.batch_norm(images, *running, training=True), wanted[:PERIOD], 4e-3)
    expect("running mean", running[0], [12.5] * 8, 1e-3)
    expect("running variance", running[1], [0.9 + 525.0] * 8, 1e-3)


@family(9)
def pooling_and_resampling(s):
    x = s.pattern(torch.float16).view(-1, 8, PERIOD)
    row = torch.arange(PERIOD).float()
    expect_rows("max_pool1d", F.max_pool1d(x, 2), row[1:250:2])
    expect_rows("avg_pool1d", F.avg_pool1d(x, 2), (row[1:250:2] + row[0:250:2]) / 2)
    planes = x.view(-1, 8, 1, PERIOD)
    expect_rows("max_pool2d", F.max_pool2d(planes, (1, 3)), row[2:249:3])
    expect_rows("adaptive_avg_pool2d", F.adaptive_avg_pool2d(planes, (1, 1)), torch.tensor([125.0]))
    grad = torch.ops.aten.avg_pool2d_backward(
        torch.ones_like(planes[..., :125]), planes, [1, 2], [1, 2], [0, 0], False, True, None
    )
    expect_rows("avg_pool2d's gradient", grad, torch.tensor([0.5] * 250 + [0.0]))
    del grad
    expect_rows("nearest", F.interpolate(x[: len(x) // 2], scale_factor=2.0), row.repeat_interleave(2))
    up = F.interpolate(planes[: len(x) // 2], size=(1, 501), mode="bilinear", align_corners=True)
    expect_rows("bilinear", up, torch.arange(501) / 2, 1e-3)


@family(11)
def embeddings_and_losses(s):
    width = 4 * PERIOD
    weight = s.pattern(torch.float16).view(-1, width)
    rows = weight.size(0)
    i = torch.tensor([0, rows - 1, s.limit // width, s.limit // width + 1], device=s.device)
    expect_rows("embedding", F.embedding(i, weight), torch.arange(PERIOD))
    grad = torch.ops.aten.embedding_dense_backward(
        torch.ones(4, width, dtype=torch.float16, device=s.device), i, rows, -1, False
    )
    expect("embedding's gradient", grad.sum(1)[i], [width] * 4)
    expect("embedding's gradient", grad[i[2] - 1].sum(), 0)
    del grad
    expect("embedding_bag", F.embedding_bag(i[None], weight, mode="sum")[0, :3], [0, 4, 8])
    target = torch.full((rows,), 3, device=s.device)
    x = weight.mul_(1 / 64)
    row = (torch.arange(PERIOD) / 64).half().float().repeat(4)
    loss = row.logsumexp(0) - row[3]
    expect("cross_entropy", F.cross_entropy(x, target), loss, 4e-3)
    expect("mse_loss", F.mse_loss(x, x), 0)
    expect("l1_loss", F.l1_loss(x, torch.zeros_like(x)), row.mean(), 4e-3)


@family(9)
def optimizer_steps(s):
    p = s.pattern(torch.float16).requires_grad_()
    p.grad = torch.ones_like(p)
    torch.optim.SGD([p], lr=1.0, foreach=True).step()
    expect_rows("SGD", p.detach(), torch.arange(PERIOD) - 1.0)
    torch.optim.SGD([p], lr=1.0, fused=True).step()
    expect_rows("fused SGD", p.detach(), torch.arange(PERIOD) - 2.0)
    expect("norm of the gradient", torch._foreach_norm([p.grad.mul_(1 / 64)])[0], math.sqrt(s.n) / 64, 2e-3)


@family(10)
def convolutions(s):
    side = 1004
    count = max(2, s.n // (8 * side)) if not s.small else 4
    x = s.pattern(torch.float16, n=count * 8 * side // (8 * PERIOD) * 8 * PERIOD).view(-1, 8, PERIOD, 4)
    one = torch.eye(8, dtype=torch.float16, device=s.device).view(8, 8, 1, 1)
    row = torch.arange(PERIOD).float()
    expect_rows("1 x 1", F.conv2d(x, one), row)
    depth = torch.ones(8, 1, 1, 1, dtype=torch.float16, device=s.device)
    expect_rows("depthwise", F.conv2d(x, depth, groups=8), row)
    y = F.conv2d(x, torch.ones(1, 8, 1, 2, dtype=torch.float16, device=s.device))
    k = torch.arange(4 * PERIOD) % PERIOD
    k = (k + (torch.arange(4 * PERIOD) + 1) % PERIOD).view(PERIOD, 4)[:, :3].flatten()
    expect_rows("1 x 2", y, 8.0 * k)
    expect_rows(
        "pad",
        F.pad(x, (1, 0)),
        torch.cat([torch.zeros(PERIOD, 1), (torch.arange(4 * PERIOD) % PERIOD).view(PERIOD, 4)], 1).flatten(),
    )


def check_many_dims(device, dims):
    """Operators over dims that cannot be merged, more than kernels walk at once, against the CPU."""
    x = torch.arange(2**dims, dtype=torch.float32).remainder_(PERIOD).view([2] * dims)
    order = list(range(0, dims, 2)) + list(range(1, dims, 2))
    y = x.permute(order[::-1])
    d = x.to(device).permute(order[::-1])
    same = lambda name, f: expect(name, f(d).cpu().flatten(), f(y).flatten(), 1e-5)
    even = tuple(range(0, dims, 2))
    same("copy", lambda t: t.contiguous())
    same("add", lambda t: t + t.transpose(0, dims - 1))
    same("sum", lambda t: t.sum(even))
    same("amax", lambda t: t.amax(even))
    same("var", lambda t: t.var(even))
    same("mean of others", lambda t: t.mean((1, 5, dims - 1)))
    same("argmax", lambda t: t.argmax(3))
    same("max", lambda t: t.max(8).indices)
    same("flip", lambda t: t.flip(even))
    same("cat", lambda t: torch.cat([t, t.flip(1)], 4))
    same("index_select", lambda t: t.index_select(7, torch.tensor([1, 0], device=t.device)))
    same("gather", lambda t: t.gather(5, (t % 2).long()))
    same("nonzero", lambda t: (t[0, 0, 0, 0] == 7).nonzero())
    same(
        "complex index_add",
        lambda t: torch.view_as_real(
            torch.complex(t, t).index_add(3, torch.tensor([0, 0], device=t.device), torch.complex(t, -t))
        ),
    )
    same(
        "complex128",
        lambda t: torch.view_as_real(torch.complex(t.double(), t.double()).transpose(0, dims - 1).contiguous()),
    )
    same("softmax", lambda t: t.softmax(3))
    same("cumsum", lambda t: t.cumsum(7))


def run(name, size):
    """None, or what went wrong."""
    try:
        FAMILIES[name].check(size)
    except Exception:
        return traceback.format_exc(limit=-2)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, help="device memory that may be used")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", action="store_true", help="one object of results instead of lines")
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    size = Size(options.small, options.device)
    budget = (options.gib or torch.ocl.mem_get_info(options.device)[0] / 2**30) * 2**30
    results = {}
    for name, (_, bytes_an_element) in FAMILIES.items():
        if options.names and name not in options.names:
            continue
        start = time.monotonic()
        fits = options.small or bytes_an_element * size.n <= budget
        results[name] = run(name, size) if fits else f"needs {bytes_an_element * size.n / 2**30:.0f} GiB"
        torch.ocl.empty_cache()
        if not options.json:
            print(f"{name}: {results[name] or 'ok'} ({time.monotonic() - start:.1f} s)", flush=True)
    if options.json:
        print(json.dumps(results))
    return any(results.values())


if __name__ == "__main__":
    sys.exit(main())
