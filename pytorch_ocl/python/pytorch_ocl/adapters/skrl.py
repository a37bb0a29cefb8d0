# SPDX-License-Identifier: MIT
"""skrl's device where none is given, as of environments that have none (read in 2.1): "cuda:0" or the CPU, whatever
config.torch.device is."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def package(module) -> None:
    settings = module.config.torch
    original = settings.parse_device

    @functools.wraps(original)
    def parse_device(device, *arguments, **options):
        if device is None:
            if str(settings._device).split(":")[0] == "ocl":
                return torch.device(settings._device)
            if not torch.cuda.is_available() and chosen_automatically():
                return torch.device("ocl", 0)
        return original(device, *arguments, **options)

    type(settings).parse_device = staticmethod(parse_device)
