# SPDX-License-Identifier: MIT
"""PyKEEN's device where none is given, or "gpu" (read in 1.11): "cuda" or, with a warning, the CPU."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def utils(module) -> None:
    original = module.resolve_device

    @functools.wraps(original)
    def resolve_device(device=None):
        if device in (None, "gpu") and not torch.cuda.is_available() and chosen_automatically():
            return torch.device("ocl")
        return original(device)

    module.resolve_device = resolve_device
