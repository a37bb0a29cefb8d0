# SPDX-License-Identifier: MIT
"""ignite.distributed.device(), in one process and in torch.distributed's (read in 0.5.5)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def _adapt(kind) -> None:
    original = kind.device

    @functools.wraps(original)
    def device(self):
        chosen = original(self)
        if chosen.type == "cpu" and chosen_automatically():
            return torch.device("ocl", self.get_local_rank() % torch.ocl.device_count())
        return chosen

    kind.device = device


def base(module) -> None:
    _adapt(module._SerialModel)


def native(module) -> None:
    if module.has_native_dist_support:
        _adapt(module._NativeDistModel)
