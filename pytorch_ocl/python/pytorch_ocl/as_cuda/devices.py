# SPDX-License-Identifier: MIT
"""Names of devices: torch.device and torch.Generator take "cuda" for "ocl", and devices show it the type "cuda"."""

import ctypes
import functools
import gc
import sys

import torch

Device, Generator = torch.device, torch.Generator
_OURS = ("torch", "pytorch_ocl", "pytorch_ocl_autoload")


def asked_by_program(depth: int = 2) -> bool:
    """Whether the function that called the caller belongs neither to PyTorch nor to this package."""
    return sys._getframe(depth).f_globals.get("__name__", "").partition(".")[0] not in _OURS


def translate(device):
    """`device` with "cuda" replaced by "ocl" in strings and torch.device objects; anything else as it is."""
    if isinstance(device, str):
        return "ocl" + device[4:] if device == "cuda" or device.startswith("cuda:") else device
    if isinstance(device, Device) and _TYPE(device) == "cuda":
        return Device("ocl", device.index) if device.index is not None else Device("ocl")
    return device


def translated(function):
    """`function`, called with each argument translated."""

    @functools.wraps(function)
    def call(*arguments, **options):
        return function(*map(translate, arguments), **{name: translate(value) for name, value in options.items()})

    return call


class _StandIn(type):
    """Class of classes that stand for another one: its objects are theirs, and calling them makes one of those."""

    def __call__(cls, *arguments, **options):
        return cls._original(*map(translate, arguments), **{k: translate(value) for k, value in options.items()})

    def __instancecheck__(cls, value):
        return isinstance(value, cls._original)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, cls._original)

    def __eq__(cls, other):
        return other is cls or other is cls._original

    def __hash__(cls):
        return hash(cls._original)

    def __getattr__(cls, name):
        return getattr(cls._original, name)


def stand_in(original):
    """A class that makes objects of `original`, with devices translated. Cannot be derived from to any effect."""
    return _StandIn(
        original.__name__,
        (),
        {
            "_original": original,
            "__module__": original.__module__,
            "__qualname__": original.__qualname__,
            "__doc__": original.__doc__,
        },
    )


_TYPE = Device.type.__get__


def _type(device):
    """Type of the device: "cuda" for "ocl" where the program asks."""
    kind = _TYPE(device)
    return "cuda" if kind == "ocl" and asked_by_program() else kind


def set_attribute(of, name, value) -> None:
    """Sets an attribute of a type that Python does not let change."""
    gc.get_referents(of.__dict__)[0][name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(of))


def install() -> None:
    set_attribute(Device, "type", property(_type))
    torch.device, torch.Generator = stand_in(Device), stand_in(Generator)
    torch._utils._get_available_device_type = lambda: "ocl"
