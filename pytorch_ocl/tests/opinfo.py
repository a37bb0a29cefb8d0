# SPDX-License-Identifier: MIT
"""Runs PyTorch's own operator database (op_db) on an OpenCL device and on the CPU, and compares.

`check(op, dtype, device)` raises AssertionError (a wrong result), or whatever the device raised; it returns the
operators that ran on the CPU for want of a kernel. `check_rounding` compares with the CPU's result in float64 instead,
`check_digits` wants floats made of integers to be the CPU's to the last bit.
"""

import contextlib
import itertools
import unittest
import unittest.mock
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
FORWARD_SAMPLES, BACKWARD_SAMPLES = 6, 2
# (rtol, atol) by the result's type; what is not listed is compared exactly.
TOLERANCES = {
    torch.float64: (1e-9, 1e-9),
    torch.float32: (1e-4, 1e-4),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.complex64: (1e-4, 1e-4),
    torch.complex128: (1e-9, 1e-9),
    torch.complex32: (5e-3, 5e-3),
    torch.float8_e4m3fn: (0.13, 2e-3),  # one step
    torch.float8_e5m2: (0.26, 2e-5),
}
GRADIENT_TOLERANCE = (1e-3, 1e-3)
# Floats made of integers: the operands are exact.
OF_INTEGERS = {torch.float32: (1e-5, 1e-5)}
# Which of several equal elements is meant is not defined for these: only values are compared, not indices.
TIES = frozenset(
    "sort argsort topk argmax argmin max min msort mode median nanmedian kthvalue cummax cummin unique aminmax".split()
) | {f"nn.functional.{kind}max_pool{d}d" for kind in ("", "adaptive_") for d in (1, 2, 3)}

# What these save of numbers of 16 bits, all but the first output, is float32, as CUDA has it.
WIDE_STATISTICS = frozenset(
    "native_layer_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update".split()
)
# Compared by shape, dtype and device only, as their values are not those of the CPU's generator: samples of a
# distribution, random masks, random windows, random projections, memory that nothing has written.
RANDOM = frozenset(
    """
    bernoulli cauchy exponential geometric log_normal multinomial normal rand_like randint randint_like randn randn_like
    uniform nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.feature_alpha_dropout nn.functional.rrelu nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d pca_lowrank svd_lowrank
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided""".split()
)
# Representatives of every family, few enough for a device that compiles slowly.
REPRESENTATIVES = frozenset(
    """
    add addcmul div.no_rounding_mode exp sin where clamp eq bitwise_and nn.functional.gelu special.i0e digamma
    sum amax argmax mean var all prod logsumexp cumsum cummax sort topk searchsorted gather scatter_add index_put
    index_select take nonzero masked_select unique bincount cat roll flip tril arange linspace mm addmm bmm
    nn.functional.linear nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.batch_norm
    nn.functional.layer_norm nn.functional.group_norm nn.functional.max_pool2d nn.functional.avg_pool2d
    nn.functional.adaptive_avg_pool2d softmax.with_dtype log_softmax nn.functional.nll_loss
    nn.functional.cross_entropy nn.functional.embedding nn.functional.pad.reflect nn.functional.interpolate.bilinear
    nn.functional.grid_sample nn.functional.dropout normal cdist
    nn.functional.scaled_dot_product_attention""".split()
)
# Random where the sample asks for dropout.
WITH_DROPOUT = frozenset(
    """
    nn.functional.multi_head_attention_forward nn.functional.scaled_dot_product_attention
    torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward""".split()
)


def cases():
    """Every (operator, dtype) pair that the CPU supports."""
    for op in op_db:
        for dtype in DTYPES:
            if op.supports_dtype(dtype, "cpu"):
                yield op, dtype


def tolerance(op, dtype, result, gradient=False):
    """(rtol, atol): the largest of that of the operands' type, that of the result's, and what the OpInfo asks for."""
    if not (result.is_floating_point or result.is_complex):
        return 0, 0
    if not (dtype.is_floating_point or dtype.is_complex):
        return OF_INTEGERS.get(result) or TOLERANCES[result]
    bounds = [GRADIENT_TOLERANCE if gradient else TOLERANCES.get(dtype, (0, 0)), TOLERANCES.get(result, (0, 0))]
    for decorator in op.decorators:
        for part in [decorator, *getattr(decorator, "decorators", [])]:
            for table in (getattr(part, "tolerance", None), getattr(part, "d", None)):
                entry = table.get(dtype) if isinstance(table, dict) else None
                if hasattr(entry, "rtol"):
                    bounds.append((entry.rtol, entry.atol))
                elif isinstance(entry, float):
                    bounds.append((0, entry))
    return tuple(max(column) for column in zip(*bounds))


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
    for position, (x, y) in enumerate(zip(expected, actual)):
        if not isinstance(x, torch.Tensor):
            if not random and isinstance(x, (bool, int, float, complex)):
                relative, absolute = TOLERANCES.get(dtype, (0, 0))
                torch.testing.assert_close(y, x, rtol=max(relative, 1e-6), atol=absolute, equal_nan=True)
            continue
        if position in (1, 2) and x.dtype.itemsize == 2 and op.name in WIDE_STATISTICS:
            assert y.dtype == torch.float32, f"output {position}: {y.dtype}"
            y = y.to(x.dtype)
        assert (y.shape, y.dtype, y.layout) == (x.shape, x.dtype, x.layout), f"output {position}: {y.shape} {y.dtype}"
        assert y.device.type in ("ocl", "meta"), f"output {position} is on {y.device}"
        if random or (x.dtype == torch.int64 and op.name in TIES and (position or op.name.startswith("arg"))):
            continue
        relative, absolute = tolerance(op, dtype, x.dtype, gradient)
        y, x = y.detach().cpu(), x.detach()
        if x.dtype == torch.complex32:
            x, y = x.to(torch.complex64), y.to(torch.complex64)
        elif x.dtype.is_floating_point and x.dtype.itemsize == 1:
            x, y = x.float(), y.float()
        torch.testing.assert_close(
            y, x, rtol=relative, atol=absolute, equal_nan=True, check_device=False, check_stride=False
        )


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


def widened(sample, dtype):
    """The sample with its tensors, and its arguments that name `dtype`, in float64."""

    def widen(x):
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return x.detach().double()
        return torch.float64 if x is dtype else x

    return tree_map(widen, sample)


@contextlib.contextmanager
def may_lack_float64(device):
    """A device without float64 may refuse a sample for it."""
    try:
        yield
    except NotImplementedError as error:
        if torch.ocl.get_device_properties(device).has_fp64 or "float64 is not available" not in str(error):
            raise


# The CPU's vector unit divides, and makes NaN of quotients beyond float32.
QUOTIENTS = frozenset(["fmod", "remainder"])


def check_forward(op, dtype, device, through_float64=False):
    through_float64 = through_float64 or op.name in QUOTIENTS
    tried = compared = 0
    for sample in samples(op, dtype, FORWARD_SAMPLES):
        try:
            random = is_random(op, sample)
            expected = call(op, to_device(sample[:3], "cpu"), 1)
            if through_float64 and not random:
                wide = call(op, widened(to_device(sample[:3], "cpu"), dtype), 1)
                expected = [x.to(like) if isinstance(x, torch.Tensor) else x for x, like in zip(wide, expected)]
            expected = expected if random else finished(expected, sample[3])
        except Exception:  # noqa: BLE001  what the CPU refuses is no yardstick
            continue
        tried += 1
        with may_lack_float64(device):
            actual = call(op, to_device(sample[:3], device), 1)
            compare(op, dtype, expected, actual if random else finished(actual, sample[3]), random)
            compared += 1
    if tried and not compared:
        raise unittest.SkipTest("every sample needs float64, which the device lacks")


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
        with may_lack_float64(device):
            compare(op, dtype, list(expected), list(gradients(op, sample, device, 1)), False, gradient=True)
        done += 1
        if done == BACKWARD_SAMPLES:
            return


@contextlib.contextmanager
def counted_fallbacks(device):
    """A list that is filled with the operators that fell back inside."""
    fallbacks = []
    torch.ocl.reset_fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield fallbacks
        torch.ocl.synchronize(device)
    fallbacks.extend(sorted(torch.ocl.fallbacks()))


def check(op, dtype, device):
    """Compares forward (and, for float32, backward) with the CPU; returns the operators that fell back."""
    with counted_fallbacks(device) as fallbacks:
        check_forward(op, dtype, device)
        if dtype == torch.float32 and op.supports_autograd:
            check_backward(op, dtype, device)
    return fallbacks


def check_rounding(op, dtype, device):
    """Compares forward with the CPU's results in float64, rounded to the types of its results in `dtype`."""
    with counted_fallbacks(device) as fallbacks:
        check_forward(op, dtype, device, through_float64=True)
    return fallbacks


def check_digits(op, dtype, device):
    """`check` for integers, with results that are floats compared bit for bit."""
    with unittest.mock.patch(f"{__name__}.tolerance", lambda *_: (0, 0)):
        check_forward(op, dtype, device)
