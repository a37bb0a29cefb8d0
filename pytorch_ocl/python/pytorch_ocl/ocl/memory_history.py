# SPDX-License-Identifier: MIT
"""Which code holds and held device memory, in the format of PyTorch's viewer (pytorch.org/memory_viz)."""

import itertools
import pickle
import sys

import torch
from torch.types import Device

from pytorch_ocl.ocl.device import _index, _lazy_init, device_count
from pytorch_ocl.ocl.memory import memory_snapshot

# In the order of dlprim::MemoryEvent::Kind.
_ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom")
_ENABLED, _CONTEXTS, _STACKS = (None, "state", "all"), (None, "state", "alloc", "all"), ("python", "all")


def _check(name, value, allowed):
    if value not in allowed:
        raise RuntimeError(f"_record_memory_history: expected {name} to be one of {allowed}, got {value!r}")


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
) -> None:
    """Records what is done with the memory of all devices from now on, as torch.cuda.memory._record_memory_history
    does. `enabled`: "all", "state" (only where present memory was allocated) or None (no more); `context`: "all",
    "alloc", "state" (no stacks where memory is freed) or None (no stacks); `stacks`: "python" or "all" (with C++
    frames); of more than `max_entries` events the oldest are dropped. Raises RuntimeError for other values."""
    _check("enabled", enabled, _ENABLED)
    _check("context", context, _CONTEXTS)
    _check("stacks", stacks, _STACKS)
    _lazy_init()
    if enabled is None:
        torch.ops.pytorch_ocl.stop_memory_history()
        return
    depth = 0 if context is None else 1 + _STACKS.index(stacks)
    torch.ops.pytorch_ocl.record_memory_history(
        max_entries if enabled == "all" else 0, depth, context == "all", clear_history
    )


def _stacks(tracebacks, files, functions, lines):
    frames = [
        {"filename": file, "name": function, "line": line} for file, function, line in zip(files, functions, lines)
    ]
    numbers, stacks = iter(tracebacks), []
    for length in numbers:
        stacks.append([frames[number] for number in itertools.islice(numbers, length)])
    return stacks


def _device_snapshot(index: int):
    entries, held, *described = torch.ops.pytorch_ocl.memory_history(index)
    stacks = [*_stacks(*described), []]  # the last for number -1, no stack
    trace = []
    for kind, address, size, stream, microseconds, stack in zip(*[iter(entries)] * 6):
        entry = {
            "action": _ACTIONS[kind],
            "size": size,
            "stream": stream,
            "time_us": microseconds,
            "frames": stacks[stack],
        }
        entry["device_free" if _ACTIONS[kind] == "oom" else "addr"] = address
        trace.append(entry)
    allocated_at = {address: stacks[stack] for address, stack in zip(*[iter(held)] * 2)}
    segments = memory_snapshot(index)
    for segment in segments:
        for block in segment["blocks"]:
            block["frames"] = allocated_at.get(block["address"], [])
    return segments, trace


def _snapshot(device: Device = None) -> dict:
    """{"segments": [...], "device_traces": [[...], ...]}: the memory of a device, or of all for None, and what
    _record_memory_history() recorded, as torch.cuda.memory._snapshot() gives them."""
    chosen = range(device_count()) if device is None else [_index(device)]
    segments, traces = [], [[] for _ in range(device_count())]
    for index in chosen:
        own, traces[index] = _device_snapshot(index)
        segments += own
    return {"segments": segments, "device_traces": traces}


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes _snapshot() to a file for the viewer at pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
