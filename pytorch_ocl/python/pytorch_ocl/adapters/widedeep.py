# SPDX-License-Identifier: MIT
"""pytorch-widedeep's device where none is given, and its models where one is: it moves batches to any device, models to
CUDA and MPS alone (read in 1.7)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def utils(module) -> None:
    setup, move = module.setup_device, module.to_device_model

    @functools.wraps(setup)
    def setup_device():
        chosen = setup()
        return "ocl" if chosen == "cpu" and chosen_automatically() else chosen

    @functools.wraps(move)
    def to_device_model(model, device):
        return model.to(device) if torch.device(device).type == "ocl" else move(model, device)

    module.setup_device, module.to_device_model = setup_device, to_device_model
