# SPDX-License-Identifier: MIT
"""Operators that run as eager kernels within a program, where Inductor would give them another form, and those whose
decompositions give other results than eager kernels."""

import functools

import torch
from torch._decomp.decompositions_for_rng import extra_random_decomps
from torch._inductor import lowering
from torch._inductor.decomposition import fast_random_decomps
from torch._inductor.lowering import ELEMENTWISE_TYPE_PROMOTION_KIND, fallback_handler, get_promoted_dtype, lowerings
from torch._inductor.virtualized import V

from pytorch_ocl.inductor import runtime, types

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


def is_ocl_cpu(device):
    """Whether it is a CPU's OpenCL device, whose kernels get the form for CPUs."""
    if device is None or device.type != "ocl" or runtime.gpu_forms:
        return False
    return torch.ocl.get_device_properties(device).type == "cpu"


def _is_on_cpu(x, *_):
    """Of two values, the largest and its place, no vectors are made."""
    return is_ocl_cpu(x.get_device())


def _runs_on_ocl_cpu():
    """Whether what is lowered now is computed on a CPU's OpenCL device."""
    return is_ocl_cpu(getattr(V.graph.current_node.meta.get("val"), "device", None))


def _variance_in_two_steps(original):
    """CPUs take the mean first: the loops over a row, which is at hand for the second, become vector code."""

    @functools.wraps(original)
    def use_two_step_variance(x, *arguments, **options):
        return is_ocl_cpu(x.get_device()) or original(x, *arguments, **options)

    return use_two_step_variance


def _adds_eagerly(original):
    """CPUs add to elements by index 1.3 to 12 times as fast in eager kernels, which have no atomic additions."""

    @functools.wraps(original)
    def needs_fallback_due_to_atomic_add_limitations(dtype):
        return original(dtype) or dtype.is_floating_point and _runs_on_ocl_cpu()

    return needs_fallback_due_to_atomic_add_limitations


def _scatters_eagerly(original):
    """The same for scatter_add and scatter_reduce."""

    @functools.wraps(original)
    def use_scatter_fallback(op, reduction, dtype, *others):
        adds = reduction in ("add", "sum") and dtype.is_floating_point
        return original(op, reduction, dtype, *others) or adds and _runs_on_ocl_cpu()

    return use_scatter_fallback


def _keep_dtype(operator):
    """Has a random operator's result the dtype of its operand on ocl: that of bernoulli(p) is bool on all GPUs."""
    original = extra_random_decomps.get(operator)
    if original is None:
        return

    @functools.wraps(original)
    def decompose(self, *arguments, **options):
        result = original(self, *arguments, **options)
        return result.to(self.dtype) if self.device.type == "ocl" else result

    for table in (extra_random_decomps, fast_random_decomps()):
        table[operator] = decompose


def _replace(holder, name, wrap) -> None:
    """Wraps a function that Inductor's lowerings call, where this version has it (read in PyTorch 2.11 to 2.15)."""
    if hasattr(holder, name):
        setattr(holder, name, wrap(getattr(holder, name)))


def register() -> None:
    _replace(lowering, "use_two_step_variance", _variance_in_two_steps)
    _replace(lowering, "needs_fallback_due_to_atomic_add_limitations", _adds_eagerly)
    _replace(lowering, "use_scatter_fallback", _scatters_eagerly)
    _keep_dtype(aten.bernoulli.p)
    _run_eagerly(aten.nextafter.default, _is_narrow_nextafter)
    for operator in (aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim):
        _run_eagerly(operator, _is_on_cpu)
