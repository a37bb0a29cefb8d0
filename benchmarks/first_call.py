#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long a shape takes that was never seen before, without any compiled kernel in the cache.

    python benchmarks/first_call.py                 # a table; exit code 1 when a call takes longer than --limit
    python benchmarks/first_call.py --device ocl:1 --only conv

Each case runs in turn in a process that keeps no compiled kernels on disk: its first call builds what it needs, and
next to nothing else takes time. Compilers use one thread, so that the CPU time of the process is what the call
takes on a machine that does nothing else. The last column is another shape of the same kind, whose kernels the first
may have built. A backward pass is several operators.
"""

import argparse
import os
import re
import sys
import time

import torch
import torch.nn.functional as F


def product(m, k, n):
    return lambda make: (lambda a, b: a @ b, make(m, k), make(k, n))


def linear(rows, inputs, outputs):
    return lambda make: (F.linear, make(rows, inputs), make(outputs, inputs), make(outputs))


def convolution(channels, outputs, kernel, size, **options):
    groups = options.get("groups", 1)
    return lambda make: (
        lambda x, w, b: F.conv2d(x, w, b, **options),
        make(3, channels, size, size),
        make(outputs, channels // groups, kernel, kernel),
        make(outputs),
    )


def pointwise(function, *shape):
    return lambda make: (function, make(*shape))


def batch_norm(channels, size):
    return lambda make: (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        make(3, channels, size, size),
        make(channels),
        make(channels),
    )


def attention(length):
    return lambda make: (F.scaled_dot_product_attention, *(make(2, 3, length, 64) for _ in range(3)))


# Name: (a shape, another).
CASES = {
    "matmul": (product(317, 211, 503), product(129, 1001, 77)),
    "matmul, one row": (product(1, 777, 1003), product(1, 512, 129)),
    "linear": (linear(65, 333, 129), linear(17, 129, 1000)),
    "conv 3x3": (convolution(19, 37, 3, 29, padding=1), convolution(33, 65, 3, 15, padding=1)),
    "conv 7x7, stride 2": (
        convolution(3, 31, 7, 61, padding=3, stride=2),
        convolution(3, 17, 7, 45, padding=3, stride=2),
    ),
    "conv 1x1": (convolution(37, 65, 1, 23), convolution(129, 33, 1, 14)),
    "conv depthwise": (convolution(35, 35, 3, 27, padding=1, groups=35), convolution(17, 17, 5, 31, groups=17)),
    "conv 2 groups": (convolution(34, 62, 3, 21, padding=1, groups=2), convolution(18, 22, 3, 33, groups=2)),
    "softmax": (pointwise(lambda x: x.softmax(1), 311, 1009), pointwise(lambda x: x.softmax(1), 73, 37)),
    "sum, one dim": (pointwise(lambda x: x.sum(1), 207, 53, 29), pointwise(lambda x: x.sum(1), 31, 207, 19)),
    "mean": (pointwise(torch.mean, 1 << 17), pointwise(torch.mean, 3, 1001)),
    "amax": (pointwise(lambda x: x.amax(0), 517, 331), pointwise(lambda x: x.amax(0), 91, 1000)),
    "layer_norm": (
        pointwise(lambda x: F.layer_norm(x, (769,)), 131, 769),
        pointwise(lambda x: F.layer_norm(x, (96,)), 77, 96),
    ),
    "batch_norm": (batch_norm(37, 23), batch_norm(65, 11)),
    "max_pool2d": (
        pointwise(lambda x: F.max_pool2d(x, 3, 2), 3, 17, 31, 31),
        pointwise(lambda x: F.max_pool2d(x, 2), 2, 9, 20, 20),
    ),
    "gelu": (pointwise(F.gelu, 1009, 77), pointwise(F.gelu, 31, 7)),
    "attention": (attention(197), attention(65)),
}


def first_calls(shape, device, dtype):
    """Seconds of a forward pass, then of a backward pass: by the wall clock, and of CPU time."""

    def make(*sizes):
        return torch.randn(*sizes).to(device, dtype).requires_grad_()

    def timed(call):
        torch.ocl.synchronize(device)
        start, work = time.perf_counter(), time.process_time()
        result = call()
        torch.ocl.synchronize(device)
        return result, (time.perf_counter() - start, time.process_time() - work)

    function, *inputs = shape(make)
    sizes = function(*(x.detach().cpu() for x in inputs)).shape
    gradient = torch.randn(sizes).to(device, dtype)
    output, forward = timed(lambda: function(*inputs))
    _, backward = timed(lambda: torch.autograd.grad(output, inputs, gradient))
    return forward, backward


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds a first call may take (default: 1)")
    options = parser.parse_args()
    caches_off = {"DLPRIM_CACHE_DISABLE": "1", "CUDA_CACHE_DISABLE": "1"}  # NVIDIA's driver keeps programs, too
    if not caches_off.items() <= os.environ.items():
        os.environ.update(caches_off)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    import pytorch_ocl  # noqa: F401

    print(
        f"{options.device}: {torch.ocl.get_device_name(options.device)}\n"
        f"{'seconds':44} first call  CPU time   another shape"
    )
    # PyTorch's own first backward pass from a given gradient takes time, too: it imports a few hundred modules.
    x = torch.ones(1, device=options.device, requires_grad=True)
    torch.autograd.grad(x.neg(), x, torch.ones_like(x))
    slowest = 0.0
    for dtype in (torch.float32, torch.bfloat16):
        for name, shapes in CASES.items():
            label = f"{name}, {str(dtype)[6:]}"
            if not re.search(options.only, label):
                continue
            first, other = (first_calls(shape, options.device, dtype) for shape in shapes)
            for direction, (wall, work), (wall2, work2) in zip(("forward", "backward"), first, other):
                slowest = max(slowest, min(wall, work), min(wall2, work2))
                print(f"{label + ', ' + direction:44} {wall:10.3f} {work:10.3f} {min(wall2, work2):14.3f}", flush=True)
    print(f"slowest: {slowest:.3f} s")
    return slowest > options.limit


if __name__ == "__main__":
    sys.exit(main())
