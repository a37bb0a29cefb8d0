# SPDX-License-Identifier: MIT
"""The cases of the benchmark, a file for each family."""

from . import attention, compiled, convolutions, generators, networks, operators, products, sorting, transforms
from .common import Bench, Case, short

__all__ = ["Bench", "Case", "cases", "short"]


def cases(batch, size):
    """Every case; `batch` and `size` (height and width) are those of the networks of images."""
    yield from networks.cases(batch, size)
    for family in (generators, products, attention, convolutions, operators, sorting, transforms, compiled):
        yield from family.cases()
