# SPDX-License-Identifier: MIT
"""The device "auto" of GluonTS's predictors (read in 0.17)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def util(module) -> None:
    original = module.resolve_device

    @functools.wraps(original)
    def resolve_device(device):
        if device == "auto" and not torch.cuda.is_available() and chosen_automatically():
            return "ocl"
        return original(device)

    module.resolve_device = resolve_device
