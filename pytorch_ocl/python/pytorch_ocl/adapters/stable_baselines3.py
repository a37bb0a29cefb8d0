# SPDX-License-Identifier: MIT
"""stable-baselines3's device "auto" (read in 2.9)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def utils(module) -> None:
    original = module.get_device

    @functools.wraps(original)
    def get_device(device="auto"):
        chosen = original(device)
        return torch.device("ocl") if device == "auto" and chosen.type == "cpu" and chosen_automatically() else chosen

    module.get_device = get_device
