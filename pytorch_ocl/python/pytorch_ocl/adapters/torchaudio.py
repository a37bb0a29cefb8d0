# SPDX-License-Identifier: MIT
"""torchaudio beside a PyTorch without CUDA, where the compiled half of its wheel from PyPI cannot be loaded: torchaudio
does without it then, as it does where it was built without (read in 2.11)."""

import functools

import torch


def extension_utils(module) -> None:
    original = module._load_lib

    @functools.wraps(original)
    def load_lib(lib):
        try:
            return original(lib)
        except OSError:
            if torch.version.cuda is not None:
                raise
            return False

    module._load_lib = load_lib
