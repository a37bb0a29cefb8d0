# SPDX-License-Identifier: MIT
"""Matrix products: squares, and what networks multiply; x @ weight.T as linear layers do."""

import torch

from .common import Case, function_of, short

SQUARES = (256, 1024, 2048, 4096, 8192)
# Rows, columns of the result, terms of a sum.
LINEAR = (
    (4096, 4096, 64),
    (64, 4096, 4096),
    (8, 11008, 4096),
    (1, 4096, 4096),
    (3000, 1000, 777),
    (16384, 512, 512),
    (12608, 3072, 768),
    (512, 512, 65536),
    (8192, 28672, 8192),
)


def linear(x, weight):
    return x @ weight.t()


def work(batch, m, n, k, dtype):
    """flop and bytes of a product."""
    return 2 * batch * m * n * k, batch * (m * n + m * k + n * k) * dtype.itemsize


def cases():
    for dtype in (torch.float32, torch.bfloat16):
        name = short(dtype)
        for n in SQUARES:
            make = function_of(torch.matmul, (n, n), (n, n), dtype=dtype)
            yield Case(f"matmul {n} {name}", f"matmul {name}", make, *work(1, n, n, n, dtype), dtype)
        for m, n, k in LINEAR:
            make = function_of(linear, (m, k), (n, k), dtype=dtype)
            yield Case(f"linear {m}x{n}x{k} {name}", "linear layers", make, *work(1, m, n, k, dtype), dtype)
    for dtype in (torch.float32, torch.bfloat16):
        make = function_of(torch.matmul, (256, 512, 64), (256, 64, 512), dtype=dtype)
        name = f"matmul 256x(512x512x64) {short(dtype)}"
        yield Case(name, "linear layers", make, *work(256, 512, 512, 64, dtype), dtype)
