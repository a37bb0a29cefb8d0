# SPDX-License-Identifier: MIT
"""Tensors, modules and storages: .to("cuda"), .cuda(), .is_cuda, .type("torch.cuda.FloatTensor")."""

import functools

import torch

from pytorch_ocl.as_cuda.devices import Device, asked_by_program, translate, translated
from pytorch_ocl.ocl.tensor_types import KINDS, TypeOfTensors


def _current(device):
    """The ocl device of an argument of cuda(): None, a number, a name or a device."""
    if device is None:
        return Device("ocl", torch.ocl.current_device())
    device = translate(device)
    device = Device("ocl", device) if isinstance(device, int) else Device(device)
    if device.type != "ocl":
        raise ValueError(f"Invalid device, must be cuda device, got {device}")
    return device


def _tensor_cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    """The tensor on a device; itself where it is there."""
    return self.to(_current(device), non_blocking=non_blocking, memory_format=memory_format)


def _module_cuda(self, device=None):
    """Moves parameters and buffers to a device."""
    return self.to(_current(device))


def _storage_cuda(self, device=None, non_blocking=False):
    return self.to(device=_current(device), non_blocking=non_blocking)


def _is_cuda(original):
    """Property that says True to the program for what lies on "ocl"."""

    def is_cuda(self):
        return original(self) or (self.device.type == "ocl" and asked_by_program())

    return property(is_cuda)


def _dtype_of(kind):
    """dtype of torch.cuda.FloatTensor or its name; None for anything else."""
    if isinstance(kind, str):
        module, _, name = kind.rpartition(".")
        return KINDS.get(name.removesuffix("Tensor")) if module == "torch.cuda" else None
    return kind.dtype if isinstance(kind, TypeOfTensors) else None


def _type(original):
    @functools.wraps(original)
    def tensor_type(self, dtype=None, non_blocking=False, **options):
        if dtype is None:
            return original(self).replace("torch.ocl.", "torch.cuda.")
        wanted = _dtype_of(dtype)
        if wanted is None:
            return original(self, dtype, non_blocking, **options)
        return self.to(_current(None) if self.device.type != "ocl" else self.device, wanted, non_blocking=non_blocking)

    return tensor_type


def set_default_tensor_type(original):
    @functools.wraps(original)
    def set_default(kind):
        wanted = _dtype_of(kind)
        if wanted is None:
            return original(kind)
        torch.set_default_dtype(wanted)
        torch.set_default_device("ocl")

    return set_default


def install() -> None:
    tensor, untyped, typed = torch.Tensor, torch.UntypedStorage, torch.TypedStorage
    for name in ("to", "pin_memory", "is_pinned"):
        setattr(tensor, name, translated(getattr(tensor, name)))
    tensor.cuda, torch.nn.Module.cuda, untyped.cuda, typed.cuda = (
        _tensor_cuda,
        _module_cuda,
        _storage_cuda,
        _storage_cuda,
    )
    packed = torch.nn.utils.rnn.PackedSequence
    packed.cuda = lambda self, *arguments, **options: self.to(_current(*arguments, **options))
    tensor.type = _type(tensor.type)
    tensor.is_cuda = _is_cuda(tensor.is_cuda.__get__)
    packed.is_cuda = _is_cuda(lambda self: False)
    for storage in (untyped, typed):
        storage.to = translated(storage.to)
        storage.is_cuda = _is_cuda(lambda self: False)
    torch._C._nn._parse_to = translated(torch._C._nn._parse_to)
    torch.set_default_device = translated(torch.set_default_device)
    torch.set_default_tensor_type = set_default_tensor_type(torch.set_default_tensor_type)
