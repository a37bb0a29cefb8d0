# SPDX-License-Identifier: MIT
"""torchao's 4-bit weights in the layout of torch._weight_int4pack_mm, which it makes only where it finds a CUDA device
with the product's instructions (read in 0.18)."""

import functools
import unittest.mock

import torch


def tile_packed(module) -> None:
    kind = module.Int4TilePackedTo4dTensor
    original = kind.from_hp.__func__

    @functools.wraps(original)
    def from_hp(cls, hp_tensor, *arguments, **options):
        if hp_tensor.device.type != "ocl":
            return original(cls, hp_tensor, *arguments, **options)
        with unittest.mock.patch.object(torch.cuda, "get_device_capability", lambda device=None: (8, 0)):
            return original(cls, hp_tensor, *arguments, **options)

    kind.from_hp = classmethod(from_hp)
