# SPDX-License-Identifier: MIT
"""Runs PyTorch's own operator database (op_db) on an OpenCL device and on the CPU, and compares.

`check(op, dtype, device)` raises AssertionError (a wrong result), or whatever the device raised; it returns the
operators that ran on the CPU for want of a kernel.
"""
import itertools
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
FORWARD_SAMPLES, BACKWARD_SAMPLES = 6, 2
TOLERANCES = {torch.float32: (1e-4, 1e-4), torch.float16: (5e-3, 5e-3), torch.bfloat16: (2e-2, 2e-2)}
GRADIENT_TOLERANCE = (1e-3, 1e-3)
# Which of several equal elements is meant is not defined for these: only values are compared, not indices.
TIES = frozenset(
    "sort argsort topk argmax argmin max min msort mode median nanmedian kthvalue cummax cummin unique aminmax".split()
) | {f"nn.functional.{kind}max_pool{d}d" for kind in ("", "adaptive_") for d in (1, 2, 3)}

# Compared by shape, dtype and device only, as their values are not those of the CPU's generator: samples of a
# distribution, random masks, random windows, random projections, memory that nothing has written.
RANDOM = frozenset("""
    bernoulli cauchy exponential geometric log_normal multinomial normal rand_like randint randint_like randn randn_like
    uniform nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.feature_alpha_dropout nn.functional.rrelu nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d pca_lowrank svd_lowrank
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided""".split())
# Random where the sample asks for dropout.
WITH_DROPOUT = frozenset("""
    nn.functional.multi_head_attention_forward nn.functional.scaled_dot_product_attention
    torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward""".split())


def cases():
    """Every (operator, dtype) pair that the CPU supports."""
    for op in op_db:
        for dtype in DTYPES:
            if op.supports_dtype(dtype, "cpu"):
                yield op, dtype


def tolerance(op, dtype, gradient=False):
    """(rtol, atol): the larger of ours and what the OpInfo itself asks for."""
    relative, absolute = GRADIENT_TOLERANCE if gradient else TOLERANCES.get(dtype, (0, 0))
    for decorator in op.decorators:
        for part in [decorator, *getattr(decorator, "decorators", [])]:
            for table in (getattr(part, "tolerance", None), getattr(part, "d", None)):
                entry = table.get(dtype) if isinstance(table, dict) else None
                if hasattr(entry, "rtol"):
                    relative, absolute = max(relative, entry.rtol), max(absolute, entry.atol)
                elif isinstance(entry, float):
                    absolute = max(absolute, entry)
    return relative, absolute


def to_device(value, device):
    """A copy with tensors, and the name "cpu", moved to the device; strides and requires_grad are kept."""

    def move(x):
        if isinstance(x, torch.Tensor):
            return x.detach().clone().to(device).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) and x.type == "cpu" or isinstance(x, str) and x == "cpu":
            return torch.device(device)
        return x

    return tree_map(move, value)


def call(op, sample, seed):
    """The operator's outputs as a list of leaves."""
    torch.manual_seed(seed)
    output = op(sample[0], *sample[1], **sample[2])
    return [leaf for leaf in tree_flatten(output)[0]]


def compare(op, dtype, expected, actual, random, gradient=False):
    assert len(actual) == len(expected), f"{len(actual)} outputs, the CPU has {len(expected)}"
    relative, absolute = tolerance(op, dtype, gradient)
    for position, (x, y) in enumerate(zip(expected, actual)):
        if not isinstance(x, torch.Tensor):
            if not random and isinstance(x, (bool, int, float, complex)):
                torch.testing.assert_close(y, x, rtol=max(relative, 1e-6), atol=absolute, equal_nan=True)
            continue
        assert (y.shape, y.dtype, y.layout) == (x.shape, x.dtype, x.layout), f"output {position}: {y.shape} {y.dtype}"
        assert y.device.type in ("ocl", "meta"), f"output {position} is on {y.device}"
        if random or (x.dtype == torch.int64 and op.name in TIES and (position or op.name.startswith("arg"))):
            continue
        exact = not (x.is_floating_point() or x.is_complex())
        y, x = y.detach().cpu(), x.detach()
        if x.dtype == torch.complex32:
            x, y = x.to(torch.complex64), y.to(torch.complex64)
        torch.testing.assert_close(y, x, rtol=0 if exact else relative, atol=0 if exact else absolute, equal_nan=True,
                                   check_device=False, check_stride=False)


def samples(op, dtype, count, requires_grad=False):
    torch.manual_seed(0)
    found = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), count)
    return [(s.input, s.args, s.kwargs, s.output_process_fn_grad) for s in found]


def finished(outputs, function):
    """Outputs as the OpInfo wants them compared (signs of singular vectors removed and the like)."""
    return [leaf for leaf in tree_flatten(function(outputs[0] if len(outputs) == 1 else tuple(outputs)))[0]]


def is_random(op, sample):
    """Whether the values of a sample are not to be compared."""
    options = sample[2]
    return op.name in RANDOM or op.name in WITH_DROPOUT and bool(options.get("dropout_p") or options.get("training"))


def check_forward(op, dtype, device):
    compared = 0
    for sample in samples(op, dtype, FORWARD_SAMPLES):
        try:
            random = is_random(op, sample)
            expected = call(op, to_device(sample[:3], "cpu"), 1)
            expected = expected if random else finished(expected, sample[3])
        except Exception:  # noqa: BLE001  what the CPU refuses is no yardstick
            continue
        actual = call(op, to_device(sample[:3], device), 1)
        compare(op, dtype, expected, actual if random else finished(actual, sample[3]), random)
        compared += 1
    return compared


def gradients(op, sample, device, seed):
    arguments = to_device(sample[:3], device)
    leaves = [x for x in tree_flatten(arguments)[0] if isinstance(x, torch.Tensor) and x.requires_grad]
    outputs = finished(call(op, arguments, seed), sample[3])
    outputs = [x for x in outputs if isinstance(x, torch.Tensor) and x.requires_grad]
    generator = torch.Generator().manual_seed(7)
    seeds = [torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device) for x in outputs]
    return torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)


def check_backward(op, dtype, device):
    done = 0
    for sample in samples(op, dtype, FORWARD_SAMPLES, requires_grad=True):
        if is_random(op, sample):
            continue
        try:
            expected = gradients(op, sample, "cpu", 1)
        except Exception:  # noqa: BLE001
            continue
        if all(x is None for x in expected):
            continue
        compare(op, dtype, list(expected), list(gradients(op, sample, device, 1)), False, gradient=True)
        done += 1
        if done == BACKWARD_SAMPLES:
            return


def check(op, dtype, device):
    """Compares forward (and, for float32, backward) with the CPU; returns the operators that fell back."""
    torch.ocl.reset_fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_forward(op, dtype, device)
        if dtype == torch.float32 and op.supports_autograd:
            check_backward(op, dtype, device)
        torch.ocl.synchronize(device)
    return sorted(torch.ocl.fallbacks())
