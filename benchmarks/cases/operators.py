# SPDX-License-Identifier: MIT
"""Operators that memory bounds, optimizers, and copies from and to the host."""

import torch
import torch.nn.functional as F

from .common import Case, function_of, gradients_of
from .networks import create

ELEMENTS = 1 << 26


def rows(x):
    return x.view(-1, 1024)


def copy_rows(x):
    return x.view(8192, -1).t().contiguous()


# On 2^26 elements of float32; the number is how many of these must move.
STREAMS = (
    ("copy", lambda x, y: x.copy_(y), 2),
    ("add", lambda x, y: x + y, 3),
    ("gelu", lambda x, y: F.gelu(x), 2),
    ("sum", lambda x, y: x.sum(), 1),
    ("sum dim0", lambda x, y: rows(x).sum(0), 1),
    ("softmax", lambda x, y: torch.softmax(rows(x), 1), 2),
    ("layer_norm", lambda x, y: F.layer_norm(rows(x), (1024,)), 2),
    ("transpose copy", lambda x, y: copy_rows(x), 2),
    ("cumsum", lambda x, y: rows(x).cumsum(1), 2),
    ("randn", lambda x, y: x.normal_(), 1),
    ("dropout", lambda x, y: F.dropout(x, 0.1), 2),
    ("cumsum 1d", lambda x, y: x.cumsum(0), 2),
    ("argmax", lambda x, y: rows(x).argmax(1), 1),
    ("cat", lambda x, y: torch.cat([x, y]), 4),
    ("chain of 10", lambda x, y: torch.sigmoid(x * 2 + 1).mul(x).add(0.5).tanh().sub(x).abs().sqrt().exp(), 2),
)
ROWS = (8192, 4096)
IMAGES = (64, 256, 56, 56)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, ROWS[1:], weight, bias)


def batch_norm(x, weight, bias):
    return F.batch_norm(x, None, None, weight, bias, training=True)


def cross_entropy(bench):
    scores = bench.random(8192, 32000, dtype=torch.bfloat16).requires_grad_()
    labels = bench.integers(32000, 8192)
    return lambda: torch.autograd.grad(F.cross_entropy(scores, labels), scores)


def normalizations():
    half = torch.bfloat16
    size = 8192 * 4096 * 2
    wide = {"dtype": half}
    for name, make, moved in (
        ("rms_norm 8192x4096 bfloat16", function_of(lambda x: F.rms_norm(x, ROWS[1:]), ROWS, **wide), 2 * size),
        (
            "layer_norm 8192x4096 bfloat16 with gradients",
            gradients_of(layer_norm, ROWS, ROWS[1:], ROWS[1:], **wide),
            5 * size,
        ),
        (
            "group_norm 8x320x64x64 float16",
            function_of(lambda x: F.group_norm(x, 32), (8, 320, 64, 64), dtype=torch.float16),
            4 * 8 * 320 * 4096,
        ),
        ("batch_norm 64x256x56x56 with gradients", gradients_of(batch_norm, IMAGES, (256,), (256,)), 0),
        ("var over channels 64x256x56x56", function_of(lambda x: x.var((0, 2, 3)), IMAGES), 4 * 64 * 256 * 3136),
        (
            "permute nchw to nhwc 64x256x56x56",
            function_of(lambda x: x.permute(0, 2, 3, 1).contiguous(), IMAGES),
            8 * 64 * 256 * 3136,
        ),
        ("strided add 4096x4096", function_of(lambda x, y: x.t() + y, (4096, 4096), (4096, 4096)), 12 * 4096**2),
        ("cross entropy 8192x32000 bfloat16 with gradients", cross_entropy, 3 * 8192 * 32000 * 2),
    ):
        yield Case(name, "operators", make, size=moved)


def scattered(function, elements, limit, *shape):
    """make: function(tensor of `shape`, `elements` indices below `limit`, as many values)."""

    def make(bench):
        target, indices, values = bench.random(*shape), bench.integers(limit, elements), bench.random(elements)
        return lambda: function(target, indices, values)

    return make


def embedding(bench):
    weight = bench.random(50257, 768).requires_grad_()
    indices, gradient = bench.integers(50257, 8, 1024), bench.random(8, 1024, 768)
    return lambda: torch.autograd.grad(F.embedding(indices, weight), weight, gradient)


def indexing():
    million = 1 << 20
    for name, make in (
        ("scatter_add 16M into 1M", scattered(lambda x, i, v: x.scatter_add(0, i, v), 16 * million, million, million)),
        ("gather 16M of 1M", scattered(lambda x, i, v: x.gather(0, i), 16 * million, million, million)),
        (
            "index_put accumulate 4M into 1M",
            scattered(lambda x, i, v: x.index_put_((i,), v, accumulate=True), 4 * million, million, million),
        ),
        ("embedding 50257x768 of 8x1024, gradient", embedding),
    ):
        yield Case(name, "operators", make)


def step(optimizer, parameters, **options):
    """make: a step with gradients of zeros; parameters(device) -> tensors."""

    def make(bench):
        tensors = list(parameters(bench.device))
        for tensor in tensors:
            tensor.grad = torch.zeros_like(tensor)
        return optimizer(tensors, **options).step

    return make


def squares(device):
    return [torch.nn.Parameter(torch.randn(600, 600).to(device)) for _ in range(350)]


def optimizers():
    for name, make in (
        (
            "Adam step resnet50",
            step(torch.optim.Adam, lambda device: create("resnet50", device).to(device).parameters()),
        ),
        ("AdamW fused step 350x600x600", step(torch.optim.AdamW, squares, fused=True)),
        ("SGD momentum step 350x600x600", step(torch.optim.SGD, squares, lr=0.1, momentum=0.9, nesterov=True)),
    ):
        yield Case(name, "operators", make)


def to_device(bench):
    x = torch.randn(ELEMENTS)
    return lambda: x.to(bench.device)


def cases():
    for name, function, moved in STREAMS:
        shape = (ELEMENTS,)
        yield Case(name, "operators", function_of(function, shape, shape), size=4 * moved * ELEMENTS)
    yield Case("tiny add", "operators", function_of(lambda x: x.add_(1), (1,)))
    yield from normalizations()
    yield from indexing()
    yield from optimizers()
    yield Case("copy host to device 256 MiB", "operators", to_device, size=4 * ELEMENTS)
    yield Case(
        "copy device to host 256 MiB", "operators", function_of(lambda x: x.cpu(), (ELEMENTS,)), size=4 * ELEMENTS
    )
