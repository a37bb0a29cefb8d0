# SPDX-License-Identifier: MIT
"""Every row of dlprim's tables of elementwise operators with every dtype: the CPU's errors, dtypes and values."""

import pathlib
import re

import pytest
import torch
from torch.nn import functional as F

PRIMITIVES = pathlib.Path(__file__).parents[2] / "dlprim/include/dlprim/primitives"
DTYPES = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool]
DTYPES += [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
TOLERANCES = {
    torch.float16: 5e-3,
    torch.bfloat16: 3e-2,
    torch.float32: 1e-4,
    torch.float64: 1e-9,
    torch.complex64: 1e-4,
    torch.complex128: 1e-9,
}
# Rows that no operator of PyTorch runs by itself: those of networks and of epilogues.
OWN = frozenset(
    """relu6 swish softsign shrink_biased above_or_zero from_or_zero affine affine_clipped tanh_scaled
    infinite_of_sign""".split()
)
# Served here, refused by the CPU.
MORE = {("abs", torch.bool), ("polar", torch.float16)}
MORE |= {(row, dtype) for row in ("glu_jvp", "standard_gamma_grad") for dtype in (torch.float16, torch.bfloat16)}
# Where the CPU takes sixths in float32, or an approximation of few digits.
ROUGH = {"hardsigmoid_backward": 1e-6, "standard_gamma_grad": 1e-3, "dirichlet_grad": 1e-3}
aten, special = torch.ops.aten, torch.special

# Calls by row, where the row is not a function of torch or torch.special of as many tensors as its expression has.
CALLS = {
    "copy": lambda x: x.clone(),
    "fill": lambda x: torch.full_like(x, 3),
    "masked_fill": lambda x: x.masked_fill(torch.tensor([True, False] * 6, device=x.device), 1),
    "where": lambda x, y: torch.where(torch.tensor([True, False] * 6, device=x.device), x, y),
    "round": special.round,
    "round_decimals": lambda x: torch.round(x, decimals=1),
    "pow_tensor_tensor": lambda x, y: torch.pow(x, y.abs() if not y.is_complex() and y.dtype != torch.bool else y),
    "pow_tensor_scalar": lambda x: torch.pow(x, 3),
    "div_true": torch.div,
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "addr": lambda x, y: torch.addr(x.new_ones(12, 12), x, y),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z),
    "lerp_scalar": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp_tensor": lambda x, y, z: torch.lerp(x, y, z),
    "lshift": lambda x, y: torch.bitwise_left_shift(x, y),
    "rshift": lambda x, y: torch.bitwise_right_shift(x, y),
    "clamp": lambda x, y, z: torch.clamp(x, y, z),
    "clamp_scalar": lambda x: torch.clamp(x, 1, 2),
    "clamp_min_scalar": lambda x: torch.clamp_min(x, 1),
    "clamp_max_scalar": lambda x: torch.clamp_max(x, 1),
    "sigmoid_backward": lambda x, y: aten.sigmoid_backward(x, y),
    "tanh_backward": lambda x, y: aten.tanh_backward(x, y),
    "logit_backward": lambda x, y: aten.logit_backward(x, y, 0.1),
    "log_sigmoid": F.logsigmoid,
    "log_sigmoid_backward": lambda x, y: aten.log_sigmoid_backward(x, y, aten.log_sigmoid_forward(y)[1]),
    "threshold": lambda x: F.threshold(x, 1, 2),
    "elu": F.elu,
    "elu_backward": lambda x, y: aten.elu_backward(x, 1, 1, 1, False, y),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_backward": lambda x, y: aten.gelu_backward(x, y),
    "gelu_tanh_backward": lambda x, y: aten.gelu_backward(x, y, approximate="tanh"),
    "silu": F.silu,
    "silu_backward": lambda x, y: aten.silu_backward(x, y),
    "mish": F.mish,
    "mish_backward": lambda x, y: aten.mish_backward(x, y),
    "softplus": F.softplus,
    "softplus_backward": lambda x, y: aten.softplus_backward(x, y, 1, 20),
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "shrink_backward": lambda x, y: aten.hardshrink_backward(x, y, 0.5),
    "hardtanh_backward": lambda x, y: aten.hardtanh_backward(x, y, -1, 1),
    "hardsigmoid": F.hardsigmoid,
    "hardsigmoid_backward": lambda x, y: aten.hardsigmoid_backward(x, y),
    "hardswish": F.hardswish,
    "hardswish_backward": lambda x, y: aten.hardswish_backward(x, y),
    "leaky_relu": F.leaky_relu,
    "leaky_relu_backward": lambda x, y: aten.leaky_relu_backward(x, y, 0.1, False),
    "prelu": lambda x, y: aten._prelu_kernel(x, y),
    "prelu_backward": lambda x, y, z: aten._prelu_kernel_backward(x, y, z),
    "glu": F.glu,
    "glu_backward": lambda x: aten.glu_backward(x[:6], x, 0),
    "glu_jvp": lambda x, y, z: aten.glu_jvp(x[:6], y, z, 0),
    "renorm_scale_factor": lambda x: torch.renorm(x.view(3, 4), 2, 0, 1),
    "mse": F.mse_loss,
    "mse_backward": lambda x, y: aten.mse_loss_backward(x[0], x, y, 1),
    "smooth_l1": F.smooth_l1_loss,
    "smooth_l1_backward": lambda x, y: aten.smooth_l1_loss_backward(x[0], x, y, 1, 1.0),
    "huber": F.huber_loss,
    "huber_backward": lambda x, y: aten.huber_loss_backward(x[0], x, y, 1, 1.0),
    "conj_physical": lambda x: torch.conj_physical(x),
    "ldexp": lambda x, y: torch.ldexp(x, y),
    "nan_to_num": lambda x: torch.nan_to_num(x, 1),
    "logit": lambda x: torch.logit(x, 0.1),
    "polygamma": lambda x: torch.polygamma(1, x),
    "trigamma": lambda x: torch.polygamma(1, x),
    "standard_gamma_grad": lambda x, y: aten._standard_gamma_grad(x, y),
    "dirichlet_grad": lambda x, y, z: aten._dirichlet_grad(x / 8, y, y + z),
    "kaiser_window": lambda x: torch.kaiser_window(12, dtype=x.dtype, device=x.device),
    "logical_not": torch.logical_not,
    "bitwise_not": torch.bitwise_not,
}


TEXTS = dict(
    match
    for table in ("pointwise_table.inc", "special_table.inc")
    for match in re.findall(r"^ROW\((\w+),(.*?)\)$", (PRIMITIVES / table).read_text(), flags=re.M | re.S)
)


def call_of(row):
    if row in CALLS:
        return CALLS[row]
    call = getattr(special, row.removeprefix("special_"), None) or getattr(torch, row, None)
    assert call, f"no call of the row {row}"
    return call


def operands(row, dtype):
    """As many tensors of 12 elements as the row's call takes; no zeros, since dividing by them is left to machines."""
    code = getattr(CALLS.get(row), "__code__", None)
    inputs = code and code.co_name == "<lambda>"
    count = code.co_argcount if inputs else 1 + max(map(int, re.findall(r"\bx(\d)", TEXTS[row])), default=0)
    values = torch.tensor([1, 2, 3, 1, 2, 1, 3, 2, 1, 1, 2, 3])
    return [
        (values.roll(k) / 4 if dtype.is_floating_point or dtype.is_complex else values.roll(k)).to(dtype)
        for k in range(count)
    ]


def outcome(call, inputs, device):
    try:
        result = call(*[x.to(device) for x in inputs])
        return [r.cpu() for r in (result if isinstance(result, (tuple, list)) else [result])]
    except Exception as error:  # noqa: BLE001
        return error


@pytest.mark.parametrize("row", [row for row in TEXTS if row not in OWN])
def test_rows_serve_the_dtypes_that_the_cpu_serves(device, row):
    for dtype in DTYPES:
        inputs = operands(row, dtype)
        expected, got = (outcome(call_of(row), inputs, where) for where in ("cpu", device))
        if (row, dtype) in MORE:
            assert isinstance(expected, NotImplementedError) and not isinstance(got, Exception), f"{dtype}: {got!r}"
        elif isinstance(expected, Exception):
            assert isinstance(got, type(expected)), f"{dtype}: {got!r}, the CPU: {expected!r}"
            if isinstance(expected, NotImplementedError):  # behind the kernel's name
                assert str(got).split('"')[2:] == str(expected).split('"')[2:] or "ComplexHalf" in str(got)
        else:
            assert not isinstance(got, Exception), f"{dtype}: {got!r}"
            for g, e in zip(got, expected, strict=True):
                tolerance = max(TOLERANCES.get(g.dtype, 0), ROUGH.get(row, 0) if g.is_floating_point() else 0)
                torch.testing.assert_close(g, e, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_logaddexp_of_complex_numbers(device):
    parts = torch.tensor([-200.0, -1, 0, 0.5, 300, float("inf"), float("-inf")])
    x = torch.complex(parts.repeat(7), torch.linspace(-3, 3, 49))
    y = torch.complex(parts.repeat_interleave(7), torch.linspace(2, -2, 49))
    for dtype, tolerance in ((torch.complex64, 1e-4), (torch.complex128, 1e-10)):
        a, b = x.to(dtype), y.to(dtype)
        got, expected = torch.logaddexp(a.to(device), b.to(device)).cpu(), torch.logaddexp(a, b)
        finite = a.real.isfinite() & b.real.isfinite()
        torch.testing.assert_close(got[finite], expected[finite], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(got[~finite].real, expected[~finite].real, equal_nan=True)


def test_a_wider_result_is_rounded_to_the_common_dtype(device):
    """out= does not change what is computed."""
    x = torch.tensor([33000.0, 1.0009765625], dtype=torch.float16)
    for function in (torch.add, torch.mul):
        expected = function(x, x, out=torch.empty(0, dtype=torch.float64))
        out = torch.empty(0, dtype=torch.float64, device=device)
        assert torch.equal(function(x.to(device), x.to(device), out=out).cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
def test_least_multiples_that_do_not_fit(device, dtype):
    limits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randint(limits.min + 1, limits.max, (300,), generator=generator).to(dtype) for _ in range(2))
    if dtype == torch.int32:  # whose product overflows in C
        a, b = a // 65536, b // 65536
    assert torch.equal(torch.lcm(a.to(device), b.to(device)).cpu(), torch.lcm(a, b))
