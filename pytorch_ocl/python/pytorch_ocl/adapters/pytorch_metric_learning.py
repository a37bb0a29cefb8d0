# SPDX-License-Identifier: MIT
"""The device of pytorch-metric-learning's trainers, testers and accuracy calculator (read in 2.9)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def common_functions(module) -> None:
    original = module.use_cuda_if_available

    @functools.wraps(original)
    def use_cuda_if_available():
        device = original()
        return torch.device("ocl") if device.type == "cpu" and chosen_automatically() else device

    module.use_cuda_if_available = use_cuda_if_available
