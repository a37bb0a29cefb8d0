# SPDX-License-Identifier: MIT
"""Convolutions, forward and both gradients."""

import math

import torch
import torch.nn.functional as F

from .common import Case, short

# name, function, sizes of x, sizes of the weight, options, dtype, channels_last
SHAPES = (
    ("5x5 stride 2", F.conv2d, (32, 96, 56, 56), (192, 96, 5, 5), {"stride": 2, "padding": 2}, torch.bfloat16, True),
    ("3x3 nchw", F.conv2d, (64, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}, torch.float16, False),
    (
        "3x3 dilation 2",
        F.conv2d,
        (8, 256, 65, 65),
        (256, 256, 3, 3),
        {"padding": 2, "dilation": 2},
        torch.float32,
        False,
    ),
    ("7x7 depthwise", F.conv2d, (32, 384, 28, 28), (384, 1, 7, 7), {"padding": 3, "groups": 384}, torch.float32, False),
    ("3x3 groups 32", F.conv2d, (32, 256, 28, 28), (256, 8, 3, 3), {"padding": 1, "groups": 32}, torch.float32, False),
    (
        "transposed 4x4",
        F.conv_transpose2d,
        (16, 128, 64, 64),
        (128, 64, 4, 4),
        {"stride": 2, "padding": 1},
        torch.float32,
        False,
    ),
    ("3x3x3", F.conv3d, (4, 32, 32, 32, 32), (64, 32, 3, 3, 3), {"padding": 1}, torch.float32, False),
    ("1-dimensional 3", F.conv1d, (8, 512, 6399), (512, 512, 3), {"stride": 2}, torch.float32, False),
)


def convolution(function, sizes, weights, options, dtype, channels_last):
    """make, and flop."""

    def make(bench):
        x, weight = (bench.random(*shape, dtype=dtype) for shape in (sizes, weights))
        if channels_last:
            x, weight = (each.contiguous(memory_format=torch.channels_last) for each in (x, weight))
        x, weight = x.requires_grad_(), weight.requires_grad_()

        def call():
            torch.autograd.grad(function(x, weight, **options).sum(), (x, weight))

        return call

    with torch.device("meta"):
        result = function(torch.empty(sizes), torch.empty(weights), **options)
    # Each element of the result, of x where it is transposed, is a sum over the weight of an output channel.
    elements = math.prod(sizes) if function is F.conv_transpose2d else result.numel()
    return make, 3 * 2 * elements * math.prod(weights[1:])


def cases():
    for name, function, sizes, weights, options, dtype, channels_last in SHAPES:
        make, flop = convolution(function, sizes, weights, options, dtype, channels_last)
        full = f"conv {name} {'x'.join(map(str, sizes))} {short(dtype)} with gradients"
        yield Case(full, "convolutions", make, flop, 0, dtype)
