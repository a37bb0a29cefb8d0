# SPDX-License-Identifier: MIT
"""pytorch-tabnet's device "auto" (read in 4.1)."""

import functools

from pytorch_ocl.adapters import chosen_automatically


def utils(module) -> None:
    original = module.define_device

    @functools.wraps(original)
    def define_device(device_name):
        device = original(device_name)
        return "ocl" if device_name == "auto" and device == "cpu" and chosen_automatically() else device

    module.define_device = define_device
