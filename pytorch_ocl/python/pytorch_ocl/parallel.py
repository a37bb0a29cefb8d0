# SPDX-License-Identifier: MIT
"""torch.nn.DataParallel and torch.nn.parallel.scatter, gather and replicate over ocl devices (read in PyTorch 2.11 to
2.14, whose own functions below torch.nn.parallel.comm are CUDA's)."""

import itertools

import torch
from torch._utils import _get_available_device_type


def _device(index) -> torch.device:
    """The device of a number as torch.nn.parallel.comm hands it on: -1 is the CPU, None the current device."""
    if index is None:
        index = torch.ocl.current_device()
    return torch.device("cpu") if index == -1 else torch.device("ocl", index)


def _move(tensor, device):
    return tensor.to(device, non_blocking=True)


def _broadcast(tensor, devices):
    return [_move(tensor, _device(index)) for index in devices]


def _broadcast_out(tensor, out):
    return [each.copy_(tensor, non_blocking=True) for each in out]


def _broadcast_coalesced(tensors, devices, buffer_size):
    return [[_move(tensor, _device(index)) for tensor in tensors] for index in devices]


def _chunks(tensor, count, sizes, dim):
    chunks = tensor.split(sizes, dim) if sizes else tensor.chunk(count, dim)
    if len(chunks) > count:
        raise RuntimeError(f"scatter: expected chunk_sizes for {count} devices, but got {len(chunks)} sizes")
    return chunks


def _scatter(tensor, devices, chunk_sizes, dim, streams):
    chunks = _chunks(tensor, len(devices), chunk_sizes, dim)
    return [_move(chunk, _device(index)) for chunk, index in zip(chunks, devices)]


def _scatter_out(tensor, out, dim, streams):
    for each, chunk in zip(out, tensor.split([each.size(dim) for each in out], dim)):
        each.copy_(chunk, non_blocking=True)
    return out


def _gather(tensors, dim, destination):
    device = _device(destination)
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def _gather_out(tensors, out, dim):
    return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))


def _ours(values) -> bool:
    """Whether a tensor, or the first of several, is for ocl devices: on one, or on the CPU where no others are."""
    first = values if isinstance(values, torch.Tensor) else next(iter(values), None)
    kind = first.device.type if first is not None else "cpu"
    return kind == "ocl" or (kind == "cpu" and _get_available_device_type() == "ocl")


def _streams_are_ours(arguments) -> bool:
    """Whether streams among the arguments (of scatter) are of ocl devices: they tell where CUDA is available, too."""
    lists = (a for a in arguments if isinstance(a, (list, tuple)))
    return any(isinstance(s, torch.Stream) and s.device.type == "ocl" for each in lists for s in each)


def _either(function, original):
    def call(tensors, *arguments):
        if _ours(tensors) or _streams_are_ours(arguments):
            return function(tensors, *arguments)
        if original is None:
            raise RuntimeError(f"torch._C.{function.__name__}: this PyTorch was built without CUDA")
        return original(tensors, *arguments)

    return call


def _tensors(module):
    return itertools.chain(module.parameters(), module.buffers())


def _alike(device) -> list[int]:
    """Numbers of the devices that have this one's name, itself first."""
    name = torch.ocl.get_device_name(device)
    others = (i for i in range(torch.ocl.device_count()) if i != device.index and torch.ocl.get_device_name(i) == name)
    return [device.index, *others]


def _initialize(original):
    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        """As PyTorch's, with two differences where "ocl" is the accelerator and no devices are given (None, or none in
        the list): a module on the CPU stays there, as without an accelerator (PyTorch would move it, or raise), and one
        on a device takes all devices of that name."""
        if not device_ids and _get_available_device_type() == "ocl":
            on = next((t.device for t in _tensors(module) if t.device.type == "ocl"), None)
            if on is None:
                torch.nn.Module.__init__(self)
                self.module, self.device_ids = module, []
                return
            device_ids = _alike(on)
        original(self, module, device_ids, output_device, dim)

    return __init__


def install() -> None:
    """Patches the class, and the functions that torch.nn.parallel.comm calls."""
    torch.nn.DataParallel.__init__ = _initialize(torch.nn.DataParallel.__init__)
    for function in (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out):
        setattr(torch._C, function.__name__, _either(function, getattr(torch._C, function.__name__, None)))
