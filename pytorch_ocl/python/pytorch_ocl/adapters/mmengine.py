# SPDX-License-Identifier: MIT
"""MMEngine, which knows devices by the names of their kinds: the device of its Runner and of inference, mixed
precision, and indices of InstanceData (read in 0.10.7)."""

import contextlib
import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def _on_ocl(module) -> bool:
    return torch.device(module.get_device()).type == "ocl"


def utils(module) -> None:
    original = module.get_device

    @functools.wraps(original)
    def get_device():
        chosen = original()
        return "ocl" if chosen == "cpu" and chosen_automatically() else chosen

    module.get_device = get_device


def amp(module) -> None:
    original = module.autocast

    @functools.wraps(original)
    @contextlib.contextmanager
    def autocast(device_type=None, enabled=True, dtype=None, cache_enabled=None):
        kind = torch.device(device_type or module.get_device()).type
        if kind == "ocl":
            context = torch.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
        else:
            context = original(device_type, enabled, dtype, cache_enabled)
        with context:
            yield

    module.autocast = autocast


def amp_optimizer_wrapper(module) -> None:
    """AmpOptimWrapper asks for CUDA, and scales gradients of CUDA."""
    from mmengine import device

    scaler, available = module.GradScaler, module.is_cuda_available

    def make_scaler(*arguments, **options):
        return torch.amp.GradScaler("ocl", *arguments, **options) if _on_ocl(device) else scaler(*arguments, **options)

    module.GradScaler = make_scaler
    module.is_cuda_available = lambda: available() or _on_ocl(device)


def instance_data(module) -> None:
    """Tensors on "ocl" as indices, for which it asks by their types."""
    module.BoolTypeTensor = module.BoolTypeTensor | torch.ocl.BoolTensor
    module.LongTypeTensor = module.LongTypeTensor | torch.ocl.LongTensor
    module.IndexType = module.IndexType | torch.ocl.BoolTensor | torch.ocl.LongTensor
