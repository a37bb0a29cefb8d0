# SPDX-License-Identifier: MIT
"""torch.distributed: "nccl" means Gloo's process groups, which serve "ocl" (docs/distributed.md); meshes of "cuda" are
of "ocl"."""

import functools

import torch

from pytorch_ocl.as_cuda.devices import translated
from pytorch_ocl.as_cuda.settings import for_program

_BACKENDS = {"nccl": "gloo", "cuda:nccl": "ocl:gloo", "cuda:gloo": "ocl:gloo"}
_TAKE_BACKENDS = ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")


def _backend(value):
    """A backend, or several as in "cpu:gloo,cuda:nccl", for "ocl"; anything else as it is."""
    if not isinstance(value, str):
        return value
    return ",".join(_BACKENDS.get(each.strip().lower(), each) for each in value.split(","))


def _with_backends(original):
    @functools.wraps(original)
    def call(*arguments, **options):
        return original(*map(_backend, arguments), **{name: _backend(value) for name, value in options.items()})

    return call


def install() -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import device_mesh, distributed_c10d

    for name in _TAKE_BACKENDS:
        if hasattr(distributed_c10d, name):
            function = _with_backends(getattr(distributed_c10d, name))
            setattr(distributed_c10d, name, function)
            setattr(torch.distributed, name, function)
    available = for_program(distributed_c10d.is_nccl_available, True)
    torch.distributed.is_nccl_available = distributed_c10d.is_nccl_available = available
    torch.distributed.init_device_mesh = device_mesh.init_device_mesh = translated(device_mesh.init_device_mesh)
    device_mesh.DeviceMesh.__init__ = translated(device_mesh.DeviceMesh.__init__)
