# SPDX-License-Identifier: MIT
"""What programs that Inductor generated call: their kernels, built in threads while the rest is loaded."""

import concurrent.futures
import os

import torch

gpu_forms = False  # for tests: kernels as GPUs have them, on any device
_threads = None
_pending = []


def _executor():
    global _threads
    if _threads is None:
        _threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="ocl-build")
    return _threads


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
    """A kernel of one device, of a form that kernel.py tells; csrc/runtime/fused_kernel.cpp lays out its work-items.

    `length` is that of the rows, 0 where it changes; `vector` the number of neighbouring elements that it can take
    together; `messages` are what the kernel may report (see dlprim/runtime/status.hpp).
    """

    def __init__(self, name, *, device, form, length, vector, messages, source):
        self.name = name
        self._number = None
        self._run = torch.ops.pytorch_ocl.run_fused.default
        build = torch.ops.pytorch_ocl.build_fused
        self._built = _executor().submit(build, source, name, form, length, vector, messages, device, gpu_forms)
        _pending.append(self._built)

    def __call__(self, tensors, numbers, items):
        """Runs it on the current stream for `items` elements, rows or columns."""
        if self._number is None:
            self._number = self._built.result()
        self._run(self._number, tensors, numbers, items)
