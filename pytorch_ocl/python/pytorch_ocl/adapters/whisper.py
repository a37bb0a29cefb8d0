# SPDX-License-Identifier: MIT
"""The device of OpenAI's whisper.load_model (read in 20250625)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def package(module) -> None:
    if not hasattr(module, "load_model"):  # Graphite's package of the same name
        return
    original = module.load_model

    @functools.wraps(original)
    def load_model(name, device=None, *arguments, **options):
        if device is None and not torch.cuda.is_available() and chosen_automatically():
            device = "ocl"
        return original(name, device, *arguments, **options)

    module.load_model = load_model
