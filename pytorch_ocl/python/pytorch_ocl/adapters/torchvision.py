# SPDX-License-Identifier: MIT
"""torchvision beside a PyTorch without CUDA, whose wheel from PyPI cannot load its compiled half there: its operators
are declared, so that networks can be imported and run on "ocl" (read in 0.16 to 0.28)."""

import importlib.util

import torch

from pytorch_ocl import models


def extension(module) -> None:
    if not module._has_ops() and torch.version.cuda is None and importlib.util.find_spec("torchvision") is not None:
        models.declare_torchvision()
