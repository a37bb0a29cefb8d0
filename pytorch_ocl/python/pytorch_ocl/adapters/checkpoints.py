# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint, which copies tensors of one kind of device to the CPU before it writes them: of CUDA
where that is available, whatever the tensors are on (read in PyTorch 2.11 to 2.14). `AssertionError: Tensor must be on
CPU` is what a program then gets that saves tensors of "ocl"."""

import torch


def filesystem(module) -> None:
    original = module._get_available_device_type

    def _get_available_device_type():
        accelerator = torch._C._get_accelerator().type
        return accelerator if accelerator == "ocl" and torch.ocl.is_available() else original()

    module._get_available_device_type = _get_available_device_type
