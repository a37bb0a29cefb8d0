# SPDX-License-Identifier: MIT
"""Operators that run as eager kernels within a program, where Inductor would give them another form."""

import functools

import torch
from torch._inductor import lowering
from torch._inductor.lowering import ELEMENTWISE_TYPE_PROMOTION_KIND, fallback_handler, get_promoted_dtype, lowerings

from pytorch_ocl.inductor import types

aten = torch.ops.aten


def _is_narrow_nextafter(*operands):
    """Whether the result is of 16 bits: Inductor takes the neighbour in float32 and rounds it to the same number."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    return get_promoted_dtype(*operands, type_promotion_kind=kind) in types.NARROW


def _run_eagerly(operator, applies):
    """Has calls with an operand on ocl for which `applies` run as eager kernels; others stay as they are."""
    original = lowerings.get(operator)
    if original is None:
        return  # an eager kernel anyway
    eager = fallback_handler(operator, add_to_fallback_set=False)

    @functools.wraps(original)
    def lower(*arguments, **options):
        devices = [value.get_device() for value in arguments if hasattr(value, "get_device")]
        ours = any(device is not None and device.type == "ocl" for device in devices)
        return (eager if ours and applies(*arguments) else original)(*arguments, **options)

    lowerings[operator] = lower


def _variance_in_two_steps(original):
    """CPUs take the mean first: the loops over a row, which is at hand for the second, become vector code."""

    @functools.wraps(original)
    def use_two_step_variance(x, *arguments, **options):
        device = x.get_device()
        if device is not None and device.type == "ocl" and torch.ocl.get_device_properties(device).type == "cpu":
            return True
        return original(x, *arguments, **options)

    return use_two_step_variance


def register() -> None:
    if hasattr(lowering, "use_two_step_variance"):  # read in PyTorch 2.11 and 2.13
        lowering.use_two_step_variance = _variance_in_two_steps(lowering.use_two_step_variance)
    _run_eagerly(aten.nextafter.default, _is_narrow_nextafter)
