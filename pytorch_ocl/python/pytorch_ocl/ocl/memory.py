# SPDX-License-Identifier: MIT
"""Device memory: what is allocated, what the caching allocator holds. All sizes are in bytes."""
import torch

from pytorch_ocl.ocl.device import _index, get_device_name

__all__ = ["empty_cache", "mem_get_info", "memory_allocated", "max_memory_allocated", "memory_reserved",
           "max_memory_reserved", "memory_stats", "memory_stats_as_nested_dict", "memory_summary",
           "reset_peak_memory_stats", "reset_accumulated_memory_stats", "host_memory_stats"]


def empty_cache():
    """Gives memory that is cached and not in use back to the devices."""
    torch.accelerator.empty_cache()


def mem_get_info(device=None):
    """(free, total) memory of a device."""
    return torch.accelerator.get_memory_info(_index(device))


def memory_stats(device=None):
    """{"allocated_bytes.all.current": ..., ...}: the counters of the caching allocator."""
    return torch.accelerator.memory_stats(_index(device))


def memory_stats_as_nested_dict(device=None):
    """The counters of the caching allocator, nested."""
    nested = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return nested


def host_memory_stats():
    """Pinned memory is not counted: an empty dictionary."""
    return {}


def _stat(name, device):
    return memory_stats(device).get(name, 0)


def memory_allocated(device=None):
    """Memory held by tensors."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device=None):
    """The most memory held by tensors since the start or reset_peak_memory_stats()."""
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device=None):
    """Memory taken from the device, cached included."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device=None):
    """The most memory taken from the device since the start or reset_peak_memory_stats()."""
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device=None):
    """Lets the peaks start from the present values."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device=None):
    """Sets the totals of allocated and freed memory to 0."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def _human(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024


def memory_summary(device=None, abbreviated=False):
    """A table of the caching allocator's counters; `abbreviated` leaves out the totals."""
    stats = memory_stats(device)
    columns = ["current", "peak"] + ([] if abbreviated else ["allocated", "freed"])
    rows = [("Allocated memory", "allocated_bytes", _human), ("Active memory", "active_bytes", _human),
            ("Requested memory", "requested_bytes", _human), ("Reserved memory", "reserved_bytes", _human),
            ("Allocations", "allocation", str), ("Segments", "segment", str)]
    lines = [f"OpenCL memory of ocl:{_index(device)} ({get_device_name(device)})",
             f"{'':18}" + "".join(f"{column:>14}" for column in columns)]
    for title, key, form in rows:
        lines.append(f"{title:18}" + "".join(f"{form(stats.get(f'{key}.all.{c}', 0)):>14}" for c in columns))
    lines.append(f"Retries after freeing the cache: {stats.get('num_alloc_retries', 0)}, "
                 f"out of memory: {stats.get('num_ooms', 0)}")
    return "\n".join(lines)
