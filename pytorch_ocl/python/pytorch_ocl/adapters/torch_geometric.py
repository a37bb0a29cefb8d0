# SPDX-License-Identifier: MIT
"""PyTorch Geometric's torch_geometric.device("auto") (read in 2.8)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def device(module) -> None:
    original = module.device

    @functools.wraps(original)
    def choose(device):
        chosen = original(device)
        return torch.device("ocl") if device == "auto" and chosen.type == "cpu" and chosen_automatically() else chosen

    module.device = choose
