# SPDX-License-Identifier: MIT
"""Packed types of GGUF files: each packer takes numbers, and gives the bytes of their blocks and the numbers that these
stand for, as near to those given as a simple choice comes."""

import numpy as np


def blocks(x, size):
    return np.asarray(x, np.float32).reshape(-1, size)


def halves(x):
    return np.asarray(x, np.float16).reshape(len(x), -1).view(np.uint8)


def pack_q8_0(x):
    x = blocks(x, 32)
    scale = (np.abs(x).max(1) / 127).astype(np.float16)
    step = np.where(scale == 0, 1, scale).astype(np.float32)
    q = np.clip(np.rint(x / step[:, None]), -127, 127).astype(np.int8)
    return np.hstack([halves(scale), q.view(np.uint8)]), scale.astype(np.float32)[:, None] * q


def pack_q4_0(x):
    x = blocks(x, 32)
    scale = (np.abs(x).max(1) / 7).astype(np.float16)
    step = np.where(scale == 0, 1, scale).astype(np.float32)
    q = np.clip(np.rint(x / step[:, None]) + 8, 0, 15).astype(np.uint8)
    return np.hstack([halves(scale), q[:, :16] | q[:, 16:] << 4]), scale.astype(np.float32)[:, None] * (q - 8.0)


def pack_q4_k(x):
    """Groups of 32 with scales and minima of six bits."""
    d, m, scale, least, q, numbers = scales_and_minima(blocks(x, 256).reshape(-1, 8, 32), 15, 63)
    q = q.reshape(-1, 4, 2, 32)
    packed = (q[:, :, 0] | q[:, :, 1] << 4).reshape(len(q), -1)
    return np.hstack([halves(d), halves(m), six_bits(scale, least), packed]), numbers


def pack_q6_k(x):
    x = blocks(x, 256).reshape(-1, 16, 16)
    spread = np.abs(x).max(2) / 31
    d = (spread.max(1) / 127).astype(np.float16)
    scale = np.rint(spread / np.where(d == 0, 1, d).astype(np.float32)[:, None]).astype(np.int8)
    factor = d.astype(np.float32)[:, None] * scale
    q = np.clip(np.rint(x / np.where(factor == 0, 1, factor)[..., None]), -32, 31).astype(np.int8)
    u = (q + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # halves, quarters
    low = (u & 15)[:, :, :2] | (u & 15)[:, :, 2:] << 4
    high = sum((u[:, :, i] >> 4) << (2 * i) for i in range(4))
    parts = [low.reshape(len(x), -1), high.reshape(len(x), -1), scale.view(np.uint8), halves(d)]
    return np.hstack(parts), factor[..., None] * q


def pairs(q):
    """Blocks of 32 numbers of four bits as 16 bytes: the second half of a block in the high bits."""
    q = q.reshape(len(q), -1, 32)
    return (q[..., :16] | q[..., 16:] << 4).reshape(len(q), -1)


def bits(q, bit):
    """A bit of each of a block's numbers, eight in a byte."""
    return np.packbits(q >> bit & 1, axis=1, bitorder="little")


def above_each_other(q, bit, groups):
    """A bit of each of `groups` groups of 32 numbers of a block, one above the other in 32 bytes."""
    q = (q >> bit & 1).reshape(len(q), groups, 32)
    return sum(q[:, g] << g for g in range(groups)).astype(np.uint8)


def quarters(q):
    """Two bits of each of 256 numbers as 64 bytes: the quarters of each half above each other."""
    q = (q & 3).reshape(-1, 2, 4, 32)
    return sum(q[:, :, i] << (2 * i) for i in range(4)).astype(np.uint8).reshape(len(q), -1)


def steps(x, levels, lowest=None):
    """Of each block: a scale and, where a `lowest` number is wanted, that, in float16, and the numbers between."""
    if lowest is None:
        scale = (np.abs(x).max(-1) / levels).astype(np.float16).astype(np.float32)
        low = np.zeros_like(scale)
    else:
        low = x.min(-1).astype(np.float16).astype(np.float32)
        scale = ((x.max(-1) - low) / levels).astype(np.float16).astype(np.float32)
    q = np.rint((x - low[..., None]) / np.where(scale == 0, 1, scale)[..., None])
    return scale, low, q


def pack_q4_1(x):
    scale, low, q = steps(blocks(x, 32), 15, 0)
    q = np.clip(q, 0, 15).astype(np.uint8)
    return np.hstack([halves(scale), halves(low), pairs(q)]), scale[:, None] * q + low[:, None]


def pack_q5_0(x):
    scale, _, q = steps(blocks(x, 32), 15)
    u = (np.clip(q, -16, 15) + 16).astype(np.uint8)
    return np.hstack([halves(scale), bits(u, 4), pairs(u & 15)]), scale[:, None] * (u - 16.0)


def pack_q5_1(x):
    scale, low, q = steps(blocks(x, 32), 31, 0)
    u = np.clip(q, 0, 31).astype(np.uint8)
    return np.hstack([halves(scale), halves(low), bits(u, 4), pairs(u & 15)]), scale[:, None] * u + low[:, None]


def scales_and_minima(x, levels, most):
    """Of groups along axis 1 of blocks: factors, the integers up to `most` that they multiply, and the numbers."""
    low = np.minimum(x.min(2), 0)
    spread = (x.max(2) - low) / levels
    d, m = (spread.max(1) / most).astype(np.float16), (-low.min(1) / most).astype(np.float16)
    safe = [np.where(v == 0, 1, v).astype(np.float32)[:, None] for v in (d, m)]
    scale = np.clip(np.rint(spread / safe[0]), 0, most).astype(np.uint8)
    least = np.clip(np.rint(-low / safe[1]), 0, most).astype(np.uint8)
    factor, minimum = d.astype(np.float32)[:, None] * scale, m.astype(np.float32)[:, None] * least
    q = np.rint((x + minimum[..., None]) / np.where(factor == 0, 1, factor)[..., None])
    q = np.clip(q, 0, levels).astype(np.uint8)
    return d, m, scale, least, q.reshape(len(x), -1), (factor[..., None] * q - minimum[..., None])


def six_bits(scale, least):
    """Eight scales and minima in 12 bytes."""
    six = np.zeros((len(scale), 12), np.uint8)
    six[:, 0:4] = scale[:, :4] | (scale[:, 4:] >> 4) << 6
    six[:, 4:8] = least[:, :4] | (least[:, 4:] >> 4) << 6
    six[:, 8:12] = (scale[:, 4:] & 15) | (least[:, 4:] & 15) << 4
    return six


def pack_q2_k(x):
    d, m, scale, least, q, numbers = scales_and_minima(blocks(x, 256).reshape(-1, 16, 16), 3, 15)
    return np.hstack([scale | least << 4, quarters(q), halves(d), halves(m)]), numbers


def pack_q5_k(x):
    d, m, scale, least, q, numbers = scales_and_minima(blocks(x, 256).reshape(-1, 8, 32), 31, 63)
    low = q.reshape(-1, 4, 2, 32) & 15
    parts = [halves(d), halves(m), six_bits(scale, least), above_each_other(q, 4, 8)]
    return np.hstack([*parts, (low[:, :, 0] | low[:, :, 1] << 4).reshape(len(q), -1)]), numbers


def pack_q3_k(x):
    x = blocks(x, 256).reshape(-1, 16, 16)
    spread = np.abs(x).max(2) / 3
    d = (spread.max(1) / 31).astype(np.float16)
    scale = np.clip(np.rint(spread / np.where(d == 0, 1, d).astype(np.float32)[:, None]), 0, 31).astype(np.int8)
    factor = d.astype(np.float32)[:, None] * scale
    q = np.clip(np.rint(x / np.where(factor == 0, 1, factor)[..., None]), -4, 3)
    u, own = (q + 4).astype(np.uint8).reshape(len(x), -1), (scale + 32).astype(np.uint8)
    six = np.zeros((len(x), 12), np.uint8)
    six[:, :8] = (own[:, :8] & 15) | (own[:, 8:] & 15) << 4
    six[:, 8:] = sum((own[:, 4 * i : 4 * i + 4] >> 4) << (2 * i) for i in range(4))
    return np.hstack([above_each_other(u, 2, 8), quarters(u), six, halves(d)]), factor[..., None] * q


UNEVEN = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def nearest(x):
    return np.abs(x[..., None] - UNEVEN).argmin(-1).astype(np.uint8)


def pack_iq4_nl(x):
    scale, _, q = steps(blocks(x, 32), 113)
    u = nearest(q)
    return np.hstack([halves(scale), pairs(u)]), scale[:, None] * UNEVEN[u]


def pack_iq4_xs(x):
    x = blocks(x, 256).reshape(-1, 8, 32)
    spread = np.abs(x).max(2) / 113
    d = (spread.max(1) / 31).astype(np.float16)
    scale = np.clip(np.rint(spread / np.where(d == 0, 1, d).astype(np.float32)[:, None]), 0, 31).astype(np.int8)
    factor, own = d.astype(np.float32)[:, None] * scale, (scale + 32).astype(np.uint8)
    u = nearest(x / np.where(factor == 0, 1, factor)[..., None])
    high = sum((own[:, g] >> 4).astype(np.uint16) << (2 * g) for g in range(8)).astype("<u2")
    low = (own[:, 0::2] & 15) | (own[:, 1::2] & 15) << 4
    parts = [halves(d), high[:, None].view(np.uint8), low, pairs(u.reshape(len(x), -1))]
    return np.hstack(parts), factor[..., None] * UNEVEN[u]


# By the numbers that types have in files.
FOURS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def pack_mxfp4(x):
    """Floats of four bits with a power of two."""
    x = blocks(x, 32)
    most = np.abs(x).max(1)
    exponent = np.clip(np.ceil(np.log2(np.where(most == 0, 1, most) / 6)), -126, 127)
    scale = np.exp2(exponent).astype(np.float32)[:, None]
    u = np.abs((x / scale)[..., None] - FOURS).argmin(-1).astype(np.uint8)
    return np.hstack([(exponent + 127).astype(np.uint8)[:, None], u[:, :16] | u[:, 16:] << 4]), scale * FOURS[u]


PACKERS = {
    2: pack_q4_0,
    3: pack_q4_1,
    6: pack_q5_0,
    7: pack_q5_1,
    8: pack_q8_0,
    10: pack_q2_k,
    11: pack_q3_k,
    12: pack_q4_k,
    13: pack_q5_k,
    14: pack_q6_k,
    20: pack_iq4_nl,
    23: pack_iq4_xs,
    39: pack_mxfp4,
}
