# SPDX-License-Identifier: MIT
"""fastai's default device (read in 2.8)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def torch_core(module) -> None:
    original = module.default_device

    @functools.wraps(original)
    def default_device(use=-1):
        device = original(use)
        wanted = module.defaults.use_cuda if use == -1 else use
        if device.type == "cpu" and wanted is not False and chosen_automatically():
            return torch.device("ocl", torch.ocl.current_device())
        return device

    module.default_device = default_device
