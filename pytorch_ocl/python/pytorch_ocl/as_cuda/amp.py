# SPDX-License-Identifier: MIT
"""autocast("cuda"), torch.cuda.amp and GradScaler."""

import functools

import torch

from pytorch_ocl.as_cuda.devices import translate, translated

_BY_TYPE = ("get_autocast_dtype", "set_autocast_dtype", "set_autocast_enabled")
_OF_CUDA = {"get_autocast_gpu_dtype": "get_autocast_dtype", "set_autocast_gpu_dtype": "set_autocast_dtype"}


def _with_type(original):
    """__init__ with the device's type as first argument, "cuda" when there is none."""

    @functools.wraps(original)
    def __init__(self, device_type="ocl", *arguments, **options):
        if "device" in options:  # GradScaler's name of it
            device_type = options.pop("device")
        return original(self, translate(device_type), *arguments, **options)

    return __init__


def _is_autocast_enabled(original):
    @functools.wraps(original)
    def is_autocast_enabled(device_type="ocl"):
        return original(translate(device_type))

    return is_autocast_enabled


def _of_cuda(name):
    def call(*arguments):
        return getattr(torch, name)("ocl", *arguments)

    return call


def install() -> None:
    torch.amp.autocast.__init__ = _with_type(torch.amp.autocast.__init__)
    torch.amp.GradScaler.__init__ = _with_type(torch.amp.GradScaler.__init__)
    torch.is_autocast_enabled = _is_autocast_enabled(torch.is_autocast_enabled)
    for name in _BY_TYPE:
        setattr(torch, name, translated(getattr(torch, name)))
    for name, general in _OF_CUDA.items():
        setattr(torch, name, _of_cuda(general))
    available = translated(torch.amp.is_autocast_available)
    torch.amp.is_autocast_available = torch.amp.autocast_mode.is_autocast_available = available
    for name in ("custom_fwd", "custom_bwd"):
        setattr(torch.amp, name, translated(getattr(torch.amp, name)))
        setattr(torch.cuda.amp, name, functools.partial(getattr(torch.amp, name), device_type="ocl"))
