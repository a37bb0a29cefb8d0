# SPDX-License-Identifier: MIT
"""torch.load of files that were saved on CUDA devices, and map_location="cuda"."""

import functools

import torch

from pytorch_ocl.as_cuda.devices import Device, translate


def _map(location):
    """A map_location, translated; in a dictionary both names of a device are served."""
    if isinstance(location, dict):
        both = {key: translate(value) for key, value in location.items()}
        return {**both, **{translate(key): value for key, value in both.items()}}
    return translate(location)


def _loads(original):
    @functools.wraps(original)
    def load(f, map_location=None, *arguments, **options):
        return original(f, _map(map_location), *arguments, **options)

    return load


def _restore(storage, location):
    """Storages that were saved on cuda:1 come to ocl:1."""
    if location != "cuda" and not location.startswith("cuda:"):
        return None
    device = Device(translate(location))
    count = torch.ocl.device_count()
    if device.index is not None and device.index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {device.index}, but there are {count} devices. "
            "Please use torch.load with map_location to map your storages to an existing device."
        )
    return storage.to(device=device)


def install() -> None:
    torch.load = _loads(torch.load)
    torch.jit.load = _loads(torch.jit.load)
    torch.serialization.register_package(5, lambda storage: None, _restore)  # before PyTorch's own for CUDA
