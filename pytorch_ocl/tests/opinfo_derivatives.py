# SPDX-License-Identifier: MIT
"""Derivatives of the operators of op_db beyond the gradient: in forward mode, and of the gradients themselves.

Each check compares with the CPU, raises AssertionError when the device does otherwise, and returns how many samples it
compared.
"""

import opinfo
import torch
import torch.autograd.forward_ad as forward_ad
from torch.utils._pytree import tree_flatten, tree_map

SAMPLES = 2


def differentiable(values):
    return [x for x in values if isinstance(x, torch.Tensor) and x.requires_grad]


def random_like(tensors, generator):
    """A random tensor for each, the same ones on every device."""
    return [torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device) for x in tensors]


def forward_mode(op, sample, device):
    """Outputs and their tangents, for random tangents of all that requires gradients."""
    arguments, generator = opinfo.to_device(sample[:3], device), torch.Generator().manual_seed(7)
    with forward_ad.dual_level():

        def dual(x):
            if not (isinstance(x, torch.Tensor) and x.requires_grad):
                return x
            return forward_ad.make_dual(x.detach(), *random_like([x], generator))

        outputs = opinfo.finished(opinfo.call(op, tree_map(dual, arguments), 1), sample[3])
        pairs = [forward_ad.unpack_dual(x) for x in outputs if isinstance(x, torch.Tensor)]
        return [x for pair in pairs for x in pair]


def second(op, sample, device):
    """Gradients of a weighted sum of the gradients."""
    arguments, generator = opinfo.to_device(sample[:3], device), torch.Generator().manual_seed(7)
    leaves = differentiable(tree_flatten(arguments)[0])
    outputs = differentiable(opinfo.finished(opinfo.call(op, arguments, 1), sample[3]))
    seeds = [x.requires_grad_() for x in random_like(outputs, generator)]
    first = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True, create_graph=True)
    first = differentiable(first)
    leaves = leaves + seeds
    return list(torch.autograd.grad(first, leaves, random_like(first, generator), allow_unused=True))


# What has each, and why an operator is left out.
DERIVATIVES = {forward_mode: lambda op: op.supports_forward_ad, second: lambda op: op.supports_gradgrad}
LEFT_OUT = {"tensor_split": "its samples hold sections, which are to be on the CPU"}
# Their samples name places more than once: on GPUs any of the tangents may stay there.
UNORDERED = {(forward_mode, f"nn.functional.max_unpool{dims}d") for dims in (1, 2, 3)}


def check(derivative, op, dtype, device):
    """Compares the first samples whose derivatives the CPU has."""
    count = 0
    for sample in opinfo.samples(op, dtype, opinfo.FORWARD_SAMPLES, requires_grad=True):
        if opinfo.is_random(op, sample):
            continue
        try:
            expected = derivative(op, sample, "cpu")
        except Exception:  # noqa: BLE001  what the CPU refuses is no yardstick
            continue
        if not any(isinstance(x, torch.Tensor) for x in expected):
            continue
        opinfo.compare(op, dtype, expected, derivative(op, sample, device), False, gradient=True)
        count += 1
        if count == SAMPLES:
            break
    return count
