# SPDX-License-Identifier: MIT
"""Kernels of your own, and a table of what ran on the devices."""
import contextlib
import ctypes
import dataclasses

import torch

from pytorch_ocl.ocl.device import _index, synchronize

__all__ = ["compile_kernel", "profile"]

_NUMBERS = {ctypes.c_int32: "i", ctypes.c_int64: "l", ctypes.c_float: "f", ctypes.c_double: "d"}


def _number(value):
    """(kind, value) of a number: a Python int is an OpenCL int, a float a float; ctypes numbers are what they say."""
    if type(value) in _NUMBERS:
        return _NUMBERS[type(value)], value.value
    if isinstance(value, (bool, int)):
        return "i", int(value)
    if isinstance(value, float):
        return "f", value
    raise TypeError(f"a kernel takes tensors, int, float and ctypes numbers, got {type(value).__name__}")


def compile_kernel(source, name, device=None):
    """Compiles OpenCL C and returns a callable `kernel(*arguments, global_size, local_size=None)`.

    A tensor needs the parameter GLOBAL(float, x); `__global float *x = POINTER(float, x);` in the kernel points at its
    first element (views are not copied: pass contiguous tensors, or strides as numbers). Python ints arrive as int, floats as float; wrap numbers in ctypes.c_int64 or c_double for long
    and double. Sizes are an int or up to three; global sizes are rounded up to multiples of local ones. The kernel runs
    on the current stream. Raises RuntimeError with the compiler's log."""
    handle = torch.ops.pytorch_ocl.compile_kernel(source, name, _index(device))

    def sizes(value):
        return [value] if isinstance(value, int) else list(value or ())

    def launch(*arguments, global_size, local_size=None):
        kinds, tensors, numbers = "", [], []
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                kinds += "t"
                tensors.append(argument)
            else:
                kind, value = _number(argument)
                kinds += kind
                numbers.append(value)
        torch.ops.pytorch_ocl.launch_kernel(handle, kinds, tensors, numbers, sizes(global_size), sizes(local_size))

    launch.__name__ = name
    return launch


@dataclasses.dataclass
class KernelTotal:
    """Totals of one kernel or kind of copy: calls, milliseconds on the device, gigabytes a second (0: not known)."""
    name: str
    calls: int
    milliseconds: float
    gigabytes_per_second: float


class Profile:
    """What profile() recorded: `kernels`, the longest first. Printing it gives a table."""

    def __init__(self):
        self.kernels = []

    def _fill(self, names, numbers):
        totals = {}
        for name, start, end, size in zip(names, numbers[1::4], numbers[2::4], numbers[3::4]):
            entry = totals.setdefault(name, [0, 0, 0])
            entry[0] += 1
            entry[1] += end - start
            entry[2] += size
        self.kernels = sorted((KernelTotal(name, calls, time * 1e-6, size / time if time else 0.0)
                               for name, (calls, time, size) in totals.items()), key=lambda row: -row.milliseconds)

    def __str__(self):
        lines = [f"{'kernel':48}{'calls':>8}{'total ms':>12}{'GB/s':>9}"]
        for row in self.kernels:
            speed = f"{row.gigabytes_per_second:9.1f}" if row.gigabytes_per_second else f"{'':9}"
            lines.append(f"{row.name[:47]:48}{row.calls:8}{row.milliseconds:12.3f}{speed}")
        total = sum(row.milliseconds for row in self.kernels)
        return "\n".join(lines + [f"{'total':48}{sum(r.calls for r in self.kernels):8}{total:12.3f}"])


@contextlib.contextmanager
def profile():
    """Context manager that records every kernel and copy of all devices: `with torch.ocl.profile() as p: ...`, then
    print(p). Regions must not overlap."""
    result = Profile()
    torch.ops.pytorch_ocl.profiler_start()
    try:
        yield result
    finally:
        synchronize()
        result._fill(*torch.ops.pytorch_ocl.profiler_stop())
