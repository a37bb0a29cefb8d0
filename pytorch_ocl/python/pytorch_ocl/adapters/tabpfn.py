# SPDX-License-Identifier: MIT
"""TabPFN's device="auto", its default (read in 9.2)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def utils(module) -> None:
    original = module.infer_devices

    @functools.wraps(original)
    def infer_devices(devices):
        chosen = original(devices)
        if isinstance(devices, str) and devices == "auto" and chosen[0].type == "cpu" and chosen_automatically():
            count = torch.ocl.device_count()
            kinds = [torch.ocl.get_device_properties(i).type for i in range(count)]
            return tuple(torch.device("ocl", i) for i, kind in enumerate(kinds) if kind != "cpu")
        return chosen

    module.infer_devices = infer_devices
