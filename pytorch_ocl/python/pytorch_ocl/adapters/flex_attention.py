# SPDX-License-Identifier: MIT
"""torch.nn.attention.flex_attention, which takes tensors on devices of a list only (read in PyTorch 2.11 to 2.13)."""


def module(module) -> None:
    validate_device = module._validate_device

    def _validate_device(query, key, value):
        if query.device.type != "ocl":
            validate_device(query, key, value)

    module._validate_device = _validate_device
