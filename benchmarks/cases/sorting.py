# SPDX-License-Identifier: MIT
"""Sorting and selection."""

from .common import Case, function_of

MILLIONS = (1 << 24,)


def distinct(bench):
    x = bench.integers(100_000, 1 << 22)
    return lambda: x.unique()


def cases():
    for name, function, shape in (
        ("sort 16M", lambda x: x.sort(), MILLIONS),
        ("sort rows 4096x4096", lambda x: x.sort(-1), (4096, 4096)),
        ("topk 50 of 128x50000", lambda x: x.topk(50), (128, 50000)),
        ("median 16M", lambda x: x.median(), MILLIONS),
        ("nonzero 16M", lambda x: (x > 0).nonzero(), MILLIONS),
        ("masked_select 16M", lambda x: x[x > 0], MILLIONS),
    ):
        yield Case(name, "sorting and selection", function_of(function, shape))
    yield Case("unique 4M integers", "sorting and selection", distinct)
