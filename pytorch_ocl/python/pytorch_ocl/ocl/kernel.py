# SPDX-License-Identifier: MIT
"""Kernels written by the user in OpenCL C."""

import torch

from pytorch_ocl.ocl.device import _index

__all__ = ["compile_kernel"]


class _Kernel:
    """A compiled kernel; call it with its arguments."""

    def __init__(self, source, name, options):
        self.name = name
        self._source, self._options = source, options
        self._numbers = {}  # of the compiled kernel, by device

    def _compiled(self, device):
        if device not in self._numbers:
            self._numbers[device] = torch.ops.pytorch_ocl.compile_kernel(self._source, self.name, self._options, device)
        return self._numbers[device]

    def __call__(self, *arguments, global_size=None, local_size=()):
        """Runs the kernel on the current stream, asynchronously.

        `arguments` are tensors of one ocl device (for `__global` pointers, in their own memory order) and
        numbers. A number is passed as its parameter's type (`half` included), which must hold it: integers are not
        cut. An empty tensor is a null pointer.
        `global_size` is a number of work-items or up to three; default: elements of the first tensor.
        `local_size` is the work-group; default: the driver's choice. Raises RuntimeError for arguments the
        kernel does not take, TypeError for other objects.
        """
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        devices = {a.device for a in tensors}
        if len(devices) > 1 or any(d.type != "ocl" for d in devices):
            raise RuntimeError(f"{self.name}: expected tensors of one ocl device, got {sorted(map(str, devices))}")
        device = tensors[0].device.index if tensors else _index(None)
        if global_size is None:
            if not tensors:
                raise RuntimeError(f"{self.name}: expected global_size, as there is no tensor argument")
            global_size = tensors[0].numel()
        integers = [int(a) for a in arguments if isinstance(a, int)]
        reals = [a for a in arguments if isinstance(a, float)]
        kinds = [0 if isinstance(a, torch.Tensor) else 1 if isinstance(a, int) else 2 for a in arguments]
        if len(tensors) + len(integers) + len(reals) != len(arguments):
            raise TypeError(
                f"{self.name}: expected tensors, ints and floats, got {[type(a).__name__ for a in arguments]}"
            )
        sizes = [(s,) if isinstance(s, int) else tuple(s) for s in (global_size, local_size)]
        number = self._compiled(device)
        torch.ops.pytorch_ocl.run_kernel(number, tensors, kinds, integers, reals, *sizes, device)


def compile_kernel(source: str, name: str, options: str = "") -> _Kernel:
    """Turns OpenCL C into a callable.

    `source` holds `__kernel void name(...)` with `__global` pointers and numbers as parameters; `options` go
    to the OpenCL compiler. Compiled on first use on each device. Raises RuntimeError with the compiler's log.

    >>> scale = torch.ocl.compile_kernel("__kernel void scale(__global float *x, float by) "
    ...                                  "{ x[get_global_id(0)] *= by; }", "scale")
    >>> scale(tensor, 2.0)
    """
    kernel = _Kernel(source, name, options)
    if torch.ops.pytorch_ocl.device_count():
        kernel._compiled(_index(None))
    return kernel
