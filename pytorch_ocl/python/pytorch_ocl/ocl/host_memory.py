# SPDX-License-Identifier: MIT
"""Pinned memory: host memory that devices read and write without making the host wait."""

import torch

from pytorch_ocl.ocl.memory import _nested

__all__ = [
    "empty_host_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "reset_peak_host_memory_stats",
    "reset_accumulated_host_memory_stats",
]


def empty_host_cache() -> None:
    """Gives pinned memory that is cached and not in use back to the system."""
    torch.ops.pytorch_ocl.empty_host_cache()


def host_memory_stats() -> dict[str, int]:
    """Counters of pinned memory: allocations and allocated_bytes (cached included), active_requests and
    active_bytes (in use), each with .current, .peak, .allocated and .freed, num_host_alloc, num_host_free."""
    return dict(sorted(torch.ops.pytorch_ocl.host_memory_stats().items()))


def host_memory_stats_as_nested_dict() -> dict:
    """The counters of pinned memory, nested."""
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Lets the peaks of pinned memory start from the present values."""
    torch.ops.pytorch_ocl.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Sets the totals of allocated and freed pinned memory to 0."""
    torch.ops.pytorch_ocl.reset_accumulated_host_memory_stats()
