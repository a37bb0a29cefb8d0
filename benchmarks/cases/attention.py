# SPDX-License-Identifier: MIT
"""Scaled dot product attention."""

import torch
import torch.nn.functional as F

from .common import Case, function_of, gradients_of, short

# batch, heads, queries, width, dtype, causal, gradients; then heads and length of keys where they differ
PLAIN = (
    (2, 32, 4096, 128, torch.bfloat16, True, False),
    (2, 32, 4096, 128, torch.bfloat16, True, True),
    (4, 16, 2048, 128, torch.bfloat16, False, False),
    (16, 12, 512, 64, torch.bfloat16, False, False),
    (16, 12, 512, 64, torch.bfloat16, False, True),
    (4, 16, 2048, 96, torch.float16, True, True),
    (4, 16, 1024, 64, torch.float32, False, True),
    (4, 16, 2048, 128, torch.float32, True, False),
)


def attention(causal):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def grouped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def cases():
    for batch, heads, length, width, dtype, causal, gradients in PLAIN:
        shape = (batch, heads, length, width)
        make = (gradients_of if gradients else function_of)(attention(causal), shape, shape, shape, dtype=dtype)
        words = [short(dtype), *["causal"] * causal, *["with gradients"] * gradients]
        flop = 4 * batch * heads * length**2 * width * (3.5 if gradients else 1) / (2 if causal else 1)
        yield Case(f"attention {'x'.join(map(str, shape))} {' '.join(words)}", "attention", make, flop, 0, dtype)
    shape, dtype = (8, 8, 1024, 64), torch.bfloat16
    make = function_of(masked, shape, shape, shape, (8, 1, 1024, 1024), dtype=dtype)
    yield Case("attention 8x8x1024x64 bfloat16 mask", "attention", make, 4 * 64 * 1024**2 * 64, 0, dtype)
    keys = (8, 8, 4096, 128)
    make = function_of(grouped, (8, 32, 1, 128), keys, keys, dtype=dtype)
    size = 2 * 2 * 8 * 8 * 4096 * 128
    yield Case("attention 8x32(8)x1x4096x128 bfloat16", "attention", make, 0, size, dtype)
