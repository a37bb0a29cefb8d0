# SPDX-License-Identifier: MIT
"""torch.backends.ocl: whether OpenCL can be used, and how kernels are chosen."""

import contextlib
import sys
import types

import torch


class _Backend(types.ModuleType):
    """The module torch.backends.ocl."""

    @property
    def benchmark(self) -> bool:
        """True: tiles of a matrix product or convolution are timed at its first use, and the fastest is taken.

        What was measured is kept in the program cache for later processes. Sizes that change all the time cost a
        measurement each: leave it False for them.
        """
        return torch.ops.pytorch_ocl.benchmark()

    @benchmark.setter
    def benchmark(self, wanted: bool) -> None:
        if not isinstance(wanted, bool):
            raise RuntimeError(f"set_benchmark expects a bool, but got {type(wanted).__name__}")
        torch.ops.pytorch_ocl.set_benchmark(wanted)

    @staticmethod
    def is_built() -> bool:
        """Whether the backend was loaded. That alone does not make a device available."""
        return hasattr(torch.ops.pytorch_ocl, "device_count")

    @staticmethod
    def is_available() -> bool:
        """Whether there is a device."""
        return torch.ocl.is_available()

    @staticmethod
    def version() -> str:
        """Version of the backend."""
        import pytorch_ocl

        return pytorch_ocl.__version__

    @contextlib.contextmanager
    def flags(self, benchmark: bool = False):
        """Context manager that sets the flags and restores them."""
        former = self.benchmark
        self.benchmark = benchmark
        try:
            yield
        finally:
            self.benchmark = former


def install() -> None:
    """Adds the module to PyTorch."""
    torch.backends.ocl = sys.modules["torch.backends.ocl"] = _Backend("torch.backends.ocl", __doc__)
