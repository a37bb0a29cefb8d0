# SPDX-License-Identifier: MIT
"""EasyOCR's device with gpu=True, its default (read in 1.7)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def reader(module) -> None:
    original = module.Reader.__init__

    @functools.wraps(original)
    def __init__(self, lang_list, gpu=True, *args, **options):
        if gpu is True and not torch.cuda.is_available() and chosen_automatically():
            gpu = "ocl"
        original(self, lang_list, gpu, *args, **options)

    module.Reader.__init__ = __init__
