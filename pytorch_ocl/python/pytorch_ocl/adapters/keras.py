# SPDX-License-Identifier: MIT
"""Keras with PyTorch as its backend: the default device, and "gpu:0" in keras.device (read in 3.15).
KERAS_TORCH_DEVICE=ocl:0 chooses a device whatever its kind."""

import functools
import os

import torch

from pytorch_ocl.adapters import chosen_automatically


def core(module) -> None:
    current, parse = module.get_device, module._parse_device_input

    @functools.cache
    def choose():
        """Replaces the default once, when a device is first asked for."""
        if module.DEFAULT_DEVICE == "cpu" and "KERAS_TORCH_DEVICE" not in os.environ and chosen_automatically():
            module.DEFAULT_DEVICE = "ocl"

    @functools.wraps(current)
    def get_device():
        choose()
        return current()

    @functools.wraps(parse)
    def parse_device_input(device_name):
        name = parse(device_name)
        return name.replace("cuda", "ocl") if not torch.cuda.is_available() and chosen_automatically() else name

    module.get_device, module._parse_device_input = get_device, parse_device_input
