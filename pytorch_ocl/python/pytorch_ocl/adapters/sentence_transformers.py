# SPDX-License-Identifier: MIT
"""sentence-transformers' choice of a device (read in 6.2)."""

import functools
import os

from pytorch_ocl.adapters import chosen_automatically


def environment(module) -> None:
    original = module.get_device_name

    @functools.wraps(original)
    def get_device_name():
        name = original()
        return f"ocl:{os.environ.get('LOCAL_RANK', 0)}" if name == "cpu" and chosen_automatically() else name

    module.get_device_name = get_device_name
