# SPDX-License-Identifier: MIT
"""Safetensors files straight to "ocl:0" (read in 0.4 to 0.8, whose core knows the names of devices it serves)."""

import torch


def _to_device(device):
    """The torch.device of an ocl device's name; None for others."""
    if isinstance(device, (str, torch.device)) and str(device).partition(":")[0] == "ocl":
        return torch.device(device)
    return None


class _Slice:
    """Part of a file's tensor: indexing it reads."""

    def __init__(self, part, device):
        self._part, self._device = part, device

    def __getitem__(self, index):
        return self._part[index].to(self._device)

    def __getattr__(self, name):
        return getattr(self._part, name)


class _File:
    """An open file whose tensors come to a device. What is read lies in the file's mapping until it is copied there."""

    def __init__(self, file, device):
        self._file, self._device = file, device

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *arguments):
        return self._file.__exit__(*arguments)

    def get_tensor(self, name):
        return self._file.get_tensor(name).to(self._device)

    def get_tensors(self, *arguments, **options):
        tensors = self._file.get_tensors(*arguments, **options)
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def get_slice(self, name):
        return _Slice(self._file.get_slice(name), self._device)

    def __getattr__(self, name):
        return getattr(self._file, name)


def package(safetensors) -> None:
    original = safetensors.safe_open

    def safe_open(filename, framework, device="cpu", **options):
        """Opens a safetensors file lazily and returns tensors on `device`."""
        wanted = _to_device(device)
        if wanted is None:
            return original(filename, framework, device=device, **options)
        return _File(original(filename, framework, device="cpu", **options), wanted)

    safetensors.safe_open = safe_open
