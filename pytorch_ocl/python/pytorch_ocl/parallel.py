# SPDX-License-Identifier: MIT
"""torch.nn.DataParallel where "ocl" is the accelerator."""
import itertools

import torch
from torch._utils import _get_available_device_type


def _wants_devices(module, device_ids) -> bool:
    """Whether a module is to run on ocl devices: it is told which, or lies on one."""
    tensors = itertools.chain(module.parameters(), module.buffers())
    return device_ids is not None or any(tensor.device.type == "ocl" for tensor in tensors)


def _initialize(original):
    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        """As PyTorch's; a module on the CPU stays there, as without an accelerator: PyTorch would move it to
        whatever device it finds."""
        if _get_available_device_type() == "ocl" and not _wants_devices(module, device_ids):
            torch.nn.Module.__init__(self)
            self.module, self.device_ids = module, []
        else:
            original(self, module, device_ids, output_device, dim)

    return __init__


def install() -> None:
    """Patches the class (read in PyTorch 2.11 to 2.14)."""
    torch.nn.DataParallel.__init__ = _initialize(torch.nn.DataParallel.__init__)
