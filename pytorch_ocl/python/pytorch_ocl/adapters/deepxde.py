# SPDX-License-Identifier: MIT
"""DeepXDE makes the first GPU PyTorch's default device when its backend is imported (read in 1.15)."""

import torch

from pytorch_ocl.adapters import chosen_automatically


def tensor(module) -> None:
    if torch.get_default_device().type == "cpu" and chosen_automatically():
        torch.set_default_device("ocl")
