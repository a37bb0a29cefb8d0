# SPDX-License-Identifier: MIT
"""What programs that Inductor generated call: their kernels, built in threads while the rest is loaded."""

import concurrent.futures
import os

import torch

_GROUP, _SMALLEST_GROUP = 256, 32  # work-items of a group on GPUs
_PARTS = 4  # work-items for each unit of a CPU
_SMALLEST_SHARE = {"elements": 4096, "rows": 1, "columns": 64}  # what one of them does at least
gpu_forms = False  # for tests: kernels as GPUs have them, on any device
_threads = None
_pending = []


def _executor():
    global _threads
    if _threads is None:
        _threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="ocl-build")
    return _threads


def _largest_power(wish, limit):
    """The largest power of 2 of at most `wish` and `limit`."""
    return 1 << (min(wish, limit).bit_length() - 1)


def wait_for_builds() -> None:
    """Waits until the kernels defined so far are built; raises RuntimeError with the compiler's log."""
    builds = _pending[:]
    _pending.clear()
    for build in builds:
        build.result()


def with_strides(tensor, size, stride, operator="", dtype=None):
    """The result of an operator that runs as it is, in memory as the program expects it. Raises AssertionError for
    another shape or dtype."""
    if dtype not in (None, tensor.dtype):
        raise AssertionError(f"{operator}: expected a result of {dtype}, got {tensor.dtype}")
    try:
        torch._C._dynamo.guards.assert_size_stride(tensor, size, stride)
        return tensor
    except AssertionError:
        if tuple(tensor.shape) != tuple(size):
            raise
    return torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


class FusedKernel:
    """A kernel of one device, of a form that kernel.py tells.

    `length` is that of the rows, 0 where it changes; `messages` are what the kernel may report (see
    dlprim/runtime/status.hpp).
    """

    def __init__(self, name, *, device, form, length, messages, source):
        properties = torch.ocl.get_device_properties(device)
        on_cpu = properties.type == "cpu" and not gpu_forms
        if gpu_forms:
            source = f"#undef CPU_DEVICE\n{source}"
        self.name, self.form = name, form
        wish = min(_GROUP, max(length, _SMALLEST_GROUP)) if form == "rows" and length else _GROUP
        self.local = 1 if on_cpu else _largest_power(wish, properties.max_work_group_size)
        self._parts = _PARTS * properties.max_compute_units if on_cpu else 0
        self._number = None
        self._run = torch.ops.pytorch_ocl.run_fused.default
        self._built = _executor().submit(
            torch.ops.pytorch_ocl.build_fused, source, name, f"-DGROUP={self.local}", messages, device
        )
        _pending.append(self._built)

    def _share(self, items):
        share = -(-items // self._parts)
        return max(-(-share // 64) * 64 if self.form != "rows" else share, _SMALLEST_SHARE[self.form])

    def __call__(self, tensors, numbers, items):
        """Runs it on the current stream for `items` elements, rows or columns."""
        if self._number is None:
            self._number = self._built.result()
        if not items:
            return
        if self._parts:
            share = self._share(items)
            work_items = -(-items // share)
        else:
            share, work_items = 1, items * self.local if self.form == "rows" else items
        self._run(self._number, tensors, [share, *numbers], work_items, self.local)
