# SPDX-License-Identifier: MIT
"""torch.backends.cudnn and torch.backends.cuda, and the profiler's activity CUDA. Settings that PyTorch keeps for all
devices (precision of float32, determinism, which attention) are its own and hold for "ocl" already."""

import functools

import torch
from torch.profiler import ProfilerActivity

from pytorch_ocl.as_cuda.devices import asked_by_program


def _benchmark():
    """torch.backends.cudnn.benchmark as torch.backends.ocl's: kernels are timed at their first use."""
    return property(
        lambda self: torch.backends.ocl.benchmark,
        lambda self, wanted: setattr(torch.backends.ocl, "benchmark", bool(wanted)),
    )


def for_program(original, answer):
    @functools.wraps(original)
    def call(*arguments, **options):
        return answer if asked_by_program() else original(*arguments, **options)

    return call


def _profiles(original):
    @functools.wraps(original)
    def __init__(self, *, activities=None, **options):
        if activities is not None:
            activities = {
                ProfilerActivity.PrivateUse1 if each == ProfilerActivity.CUDA else each for each in activities
            }
        return original(self, activities=activities, **options)

    return __init__


def install() -> None:
    cudnn = torch.backends.cudnn
    cudnn.benchmark  # noqa: B018  (the class of the module is made when it is imported)
    type(cudnn).benchmark = _benchmark()
    torch.backends.cuda.is_built = for_program(torch.backends.cuda.is_built, True)
    torch.profiler.profile.__init__ = _profiles(torch.profiler.profile.__init__)
