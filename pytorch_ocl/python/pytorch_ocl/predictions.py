# SPDX-License-Identifier: MIT
"""What PyTorch foretells of this device's operators without running them (fake tensors, torch.compile)."""

import functools

import torch


def install() -> None:
    """Convolutions give channels-last results where input or weight is stored so (csrc/ops/conv.cpp). PyTorch (2.11 to
    2.15) expects contiguous ones of every device outside its tree, and torch.compile would copy each to that."""
    original = torch._C._conv_determine_backend_memory_format

    @functools.wraps(original)
    def memory_format(input, weight, backend):
        if input.device.type != "ocl":
            return original(input, weight, backend)
        from torch._prims_common import suggest_memory_format

        found = suggest_memory_format(input)
        return suggest_memory_format(weight) if found == torch.contiguous_format else found

    torch._C._conv_determine_backend_memory_format = memory_format
