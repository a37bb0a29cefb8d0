# SPDX-License-Identifier: MIT
"""torchvision beside a PyTorch without CUDA, whose wheel from PyPI cannot load its compiled half there: its operators
are declared, run on "ocl", and for tensors of the CPU go through the device (read in 0.16 to 0.28)."""

import functools
import importlib.util

import torch
from torch.utils import _pytree

from pytorch_ocl import models

OPERATORS = "nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"
_library = None


def _through_the_device(name, *arguments):
    """An operator for tensors of the CPU. The copies carry gradients."""
    operator = getattr(torch.ops.torchvision, name)
    return _pytree.tree_map_only(
        torch.Tensor, torch.Tensor.cpu, operator(*_pytree.tree_map_only(torch.Tensor, lambda x: x.to("ocl"), arguments))
    )


def _serve_the_cpu() -> None:
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("torchvision", "IMPL")
    for name in OPERATORS:
        for key in ("CPU", "AutogradCPU"):
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"torchvision::{name}", key):
                _library.impl(name, functools.partial(_through_the_device, name), key)


def _has_ops():  # TorchScript compiles it with torchvision's functions; it reads no lambda
    return True


def extension(module) -> None:
    if not module._has_ops() and torch.version.cuda is None and importlib.util.find_spec("torchvision") is not None:
        models.declare_torchvision()
        _serve_the_cpu()
        module._has_ops, module._check_cuda_version = _has_ops, (lambda: -1)
