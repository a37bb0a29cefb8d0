# SPDX-License-Identifier: MIT
"""Counting of operators that ran on the CPU for want of a kernel."""

import torch


def fallbacks() -> dict[str, int]:
    """{operator: times it ran on the CPU} since the last reset_fallbacks()."""
    return dict(torch.ops.pytorch_ocl.fallbacks())


def reset_fallbacks() -> None:
    """Starts counting anew."""
    torch.ops.pytorch_ocl.reset_fallbacks()
