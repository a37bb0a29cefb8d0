# SPDX-License-Identifier: MIT
"""SpikingJelly's neurons (read in 2.0): their operators refuse devices other than the CPU and CUDA. On "ocl" they run
the formulas in PyTorch that serve every device, which CUDA has by SJ_*_CUDA_IMPLEMENTATION=torch."""

import functools


def _with_ocl(original, reference):
    @functools.wraps(original)
    def get(self, device):
        return getattr(self, reference) if device.type == "ocl" else original(self, device)

    return get


def selection(module) -> None:
    kinds = module._CudaSelection
    kinds.get_trace_forward = _with_ocl(kinds.get_trace_forward, "_cpu_forward")
    kinds.get_trace_backward = _with_ocl(kinds.get_trace_backward, "_cpu_backward")
