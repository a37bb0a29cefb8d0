# SPDX-License-Identifier: MIT
"""Device memory: what is allocated, what the caching allocator holds. All sizes are in bytes."""

import torch
from torch.types import Device

from pytorch_ocl.ocl.device import _index, get_device_name

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "mem_get_info",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_snapshot",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "get_per_process_memory_fraction",
    "set_per_process_memory_fraction",
]

OutOfMemoryError = torch.OutOfMemoryError


def empty_cache() -> None:
    """Gives memory that is cached and not in use back to the devices."""
    torch.accelerator.empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) memory of a device. What other programs and the cache of this one hold is not free, as far as the
    driver (AMD), NVML (NVIDIA) or the operating system (devices that compute in the host's memory) tells."""
    return torch.accelerator.get_memory_info(_index(device))


def memory_stats(device: Device = None) -> dict[str, int]:
    """{"allocated_bytes.all.current": ..., ...}: the counters of the caching allocator."""
    return torch.accelerator.memory_stats(_index(device))


def _nested(flat: dict[str, int]) -> dict:
    nested = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return nested


def memory_stats_as_nested_dict(device: Device = None) -> dict:
    """The counters of the caching allocator, nested."""
    return _nested(memory_stats(device))


def _stat(name: str, device: Device) -> int:
    return memory_stats(device).get(name, 0)


def memory_allocated(device: Device = None) -> int:
    """Memory held by tensors."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device: Device = None) -> int:
    """The most memory held by tensors since the start or reset_peak_memory_stats()."""
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device: Device = None) -> int:
    """Memory taken from the device, cached included."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device: Device = None) -> int:
    """The most memory taken from the device since the start or reset_peak_memory_stats()."""
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Lets the peaks start from the present values."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the totals of allocated and freed memory to 0."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The share of the device's memory that this process may take."""
    return torch.ops.pytorch_ocl.memory_fraction(_index(device))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Lets this process take a share (0 to 1) of the device's memory; above it torch.OutOfMemoryError is
    raised."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0 to 1")
    torch.ops.pytorch_ocl.set_memory_fraction(_index(device), fraction)


def memory_snapshot(device: Device = None) -> list[dict]:
    """The segments taken from a device with the blocks they are cut into, as torch.cuda.memory_snapshot()
    gives them."""
    index = _index(device)
    numbers = iter(torch.ops.pytorch_ocl.memory_segments(index))
    segments = []
    for address in numbers:
        size, stream, small, count = (next(numbers) for _ in range(4))
        blocks = []
        for _ in range(count):
            at, length, requested, used, waiting = (next(numbers) for _ in range(5))
            state = "active_allocated" if used else "active_awaiting_free" if waiting else "inactive"
            blocks.append({"address": at, "size": length, "requested_size": requested, "state": state})
        segments.append(
            {
                "device": index,
                "address": address,
                "total_size": size,
                "stream": stream,
                "segment_type": "small" if small else "large",
                "blocks": blocks,
                "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),
                "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
                "requested_size": sum(b["requested_size"] for b in blocks),
            }
        )
    return segments


def _human(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the caching allocator's counters; `abbreviated` leaves out the totals."""
    stats = memory_stats(device)
    columns = ["current", "peak"] + ([] if abbreviated else ["allocated", "freed"])
    rows = [
        ("Allocated memory", "allocated_bytes", _human),
        ("Active memory", "active_bytes", _human),
        ("Requested memory", "requested_bytes", _human),
        ("Reserved memory", "reserved_bytes", _human),
        ("Allocations", "allocation", str),
        ("Segments", "segment", str),
    ]
    lines = [
        f"OpenCL memory of ocl:{_index(device)} ({get_device_name(device)})",
        f"{'':18}" + "".join(f"{column:>14}" for column in columns),
    ]
    for title, key, form in rows:
        lines.append(f"{title:18}" + "".join(f"{form(stats.get(f'{key}.all.{c}', 0)):>14}" for c in columns))
    lines.append(
        f"Retries after freeing the cache: {stats.get('num_alloc_retries', 0)}, "
        f"out of memory: {stats.get('num_ooms', 0)}"
    )
    return "\n".join(lines)


# As torch.cuda.memory has them; they stand upon memory_snapshot().
from pytorch_ocl.ocl.memory_history import _dump_snapshot, _record_memory_history, _snapshot  # noqa: E402,F401
