# SPDX-License-Identifier: MIT
"""Functions that torch.compile makes one kernel or few of, compiled on every device."""

import torch
import torch.nn.functional as F

from .common import Case

HALF, FLOAT = torch.bfloat16, torch.float32


def chain(x):
    for _ in range(5):
        x = torch.sin(x) * 0.5 + 1
    return x


def rms_norm_of_sum(x, y, weight):
    total = x + y
    return total, F.rms_norm(total, weight.shape, weight)


def layer_norm_gelu(x, y, weight, bias):
    return F.gelu(F.layer_norm(x + y, weight.shape, weight, bias))


def batch_norm_relu(x, weight, bias):
    return F.relu(F.batch_norm(x, None, None, weight, bias, training=True))


def rotary(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def masked_softmax(x, mask):
    return torch.softmax(x * 0.125 + mask, -1)


ROWS, WIDE, IMAGES = (8192, 4096), (1 << 24,), (64, 256, 56, 56)
WIDTH, SCORES = (4096,), (64, 512, 512)
TABLE = (8, 1, 1024, 128)

# name, function, shapes, dtype
FORWARD = (
    ("ten pointwise operators 16M", chain, (WIDE,), FLOAT),
    ("GELU of a sum, product 32M", lambda x, y, z: F.gelu(x + y) * z, ((1 << 25,),) * 3, HALF),
    ("bias and GELU 8192x4096", lambda x, bias: F.gelu(x + bias), (ROWS, WIDTH), HALF),
    ("softmax scaled and masked 64x512x512", masked_softmax, (SCORES, (512, 512)), FLOAT),
    ("rms_norm of a sum, both kept 8192x2048", rms_norm_of_sum, ((8192, 2048), (8192, 2048), (2048,)), HALF),
    ("layer_norm of a sum and GELU 8192x4096", layer_norm_gelu, (ROWS, ROWS, WIDTH, WIDTH), HALF),
    ("batch_norm and ReLU 64x256x56x56", batch_norm_relu, (IMAGES, (256,), (256,)), FLOAT),
    ("sums of columns 8192x4096", lambda x: (x * 2 + 1).sum(0), (ROWS,), FLOAT),
    ("sums of squares 262144x64", lambda x: x.square().sum(-1), ((262144, 64),), FLOAT),
    ("sum of squares 64M", lambda x: x.square().sum(), ((1 << 26,),), FLOAT),
    ("transposed plus another 4096x4096", lambda x, y: x.t() + y, ((4096, 4096),) * 2, FLOAT),
    ("GELU and dropout 8192x4096", lambda x: F.dropout(F.gelu(x), 0.1), (ROWS,), HALF),
    ("rotary embedding 8x32x1024x128", rotary, ((8, 32, 1024, 128), TABLE, TABLE), HALF),
    ("argmax 4096x32000", lambda x: (x * 2).argmax(-1), ((4096, 32000),), HALF),
    ("MLP block 8192x1024", lambda x, a, b: F.gelu(x @ a) @ b, ((8192, 1024), (1024, 4096), (4096, 1024)), HALF),
)
BACKWARD = (("layer_norm 8192x1024", layer_norm, ((8192, 1024), (1024,), (1024,)), HALF),)


def forward(function, shapes, dtype):
    """make: the compiled function of random tensors."""

    def make(bench):
        tensors, called = [bench.random(*shape, dtype=dtype) for shape in shapes], torch.compile(function)
        return lambda: called(*tensors)

    return make


def gradients(function, shapes, dtype):
    """make: the compiled function of random tensors, and the gradients of them all."""

    def make(bench):
        tensors, called = [bench.random(*shape, dtype=dtype) for shape in shapes], torch.compile(function)
        gradient = bench.random(*function(*tensors).shape, dtype=dtype)
        for tensor in tensors:
            tensor.requires_grad_()
        return lambda: torch.autograd.grad(called(*tensors), tensors, gradient)

    return make


def cross_entropy(bench):
    scores, labels = bench.random(4096, 32000, dtype=HALF).requires_grad_(), bench.integers(32000, 4096)
    called = torch.compile(lambda x: F.cross_entropy(x.float(), labels))
    return lambda: torch.autograd.grad(called(scores), scores)


def cases():
    for name, function, shapes, dtype in FORWARD:
        yield Case(f"compiled {name}", "compiled functions", forward(function, shapes, dtype), dtype=dtype)
    for name, function, shapes, dtype in BACKWARD:
        make = gradients(function, shapes, dtype)
        yield Case(f"compiled {name} with gradients", "compiled functions", make, dtype=dtype)
    yield Case("compiled cross entropy 4096x32000 with gradients", "compiled functions", cross_entropy, dtype=HALF)
