# SPDX-License-Identifier: MIT
"""Functions that make tensors, with device="cuda"."""

import functools
import inspect

import torch
from torch.jit import _builtins
from torch.utils import _device

from pytorch_ocl.as_cuda.devices import translate

_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")


def _with_device(function):
    @functools.wraps(function)
    def make(*arguments, **options):
        device = options.get("device")
        if device is not None:
            options["device"] = translate(device)
        return function(*arguments, **options)

    return make


def _as_tensor(original):
    """as_tensor alone takes a device by position."""

    @functools.wraps(original)
    def as_tensor(data, dtype=None, device=None):
        return original(data, dtype=dtype, device=translate(device))

    return as_tensor


def _replace(module, name, make) -> None:
    original = getattr(module, name)
    replacement = make(original)
    setattr(module, name, replacement)
    scripted = _builtins._find_builtin(original)
    if scripted is not None:  # torch.jit.script knows functions by their identity
        _builtins._register_builtin(replacement, scripted)


def install() -> None:
    # PyTorch keeps this set, by which torch.set_default_device goes, as it is before the functions are replaced.
    constructors = _device._device_constructors()
    for home in (torch, torch.fft, torch.nested):
        for name, function in list(vars(home).items()):
            if inspect.isroutine(function) and function in constructors:
                _replace(home, name, _as_tensor if name == "as_tensor" else _with_device)
    for name in _LIKE:
        _replace(torch, name, _with_device)
    for name in _METHODS:
        setattr(torch.Tensor, name, _with_device(getattr(torch.Tensor, name)))
