# SPDX-License-Identifier: MIT
"""Every operator of PyTorch's database, in five dtypes, against the CPU. Exceptions stand in expectations.yaml: a pair
that is listed must behave as listed, so an entry that is no longer true fails the run; of `digits` only, which depend
on the CPU's vector unit, no more is asked than of all others, nor of `rounding` with another PyTorch than the one that
the file was written with: its kernels of the CPU may round elsewhere."""

import pathlib

import opinfo
import opinfo_derivatives
import opinfo_variants
import pytest
import torch
import yaml

WRITTEN_WITH = "2.13."
EXPECTATIONS = yaml.safe_load((pathlib.Path(__file__).parent / "expectations.yaml").read_text())


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def expected_for(op, dtype):
    """(kind, reason) from expectations.yaml, or (None, None)."""
    for entry in EXPECTATIONS:
        if op.full_name in entry["operators"] and name_of(dtype) in entry.get("dtypes", [name_of(dtype)]):
            return entry["kind"], entry["reason"]
    return None, None


def case(number, op, dtype):
    marks = [pytest.mark.representative] if op.full_name in opinfo.REPRESENTATIVES else []
    return pytest.param(op, dtype, id=f"{op.full_name}-{name_of(dtype)}", marks=[*marks, *sampled(number)])


def sampled(number, of=4):
    """Marks a quarter of all cases; one after the other, so that most operators and every dtype are among them."""
    return [pytest.mark.sampled] if number % of == 0 else []


@pytest.mark.parametrize("op,dtype", [case(i, op, dtype) for i, (op, dtype) in enumerate(opinfo.cases())])
def test_operator(op, dtype, device):
    kind, reason = expected_for(op, dtype)
    if kind == "skip":
        pytest.skip(reason)
    if kind == "error":
        with pytest.raises(Exception):  # noqa: B017  of whatever type
            opinfo.check(op, dtype, device)
        return
    if kind == "rounding" and torch.__version__.startswith(WRITTEN_WITH):
        with pytest.raises(AssertionError):
            opinfo.check(op, dtype, device)
    fallbacks = (opinfo.check_rounding if kind == "rounding" else opinfo.check)(op, dtype, device)
    if kind == "fallback":
        assert fallbacks, f"expectations.yaml says that {op.full_name} {dtype} falls back, and it does not"
    else:
        assert not fallbacks, f"ran on the CPU: {', '.join(fallbacks)}"


@pytest.mark.parametrize(
    "op,check",
    [
        pytest.param(op, check, id=f"{op.full_name}-{check}", marks=sampled(i + j))
        for i, op in enumerate(opinfo.op_db)
        for j, check in enumerate(opinfo_variants.CHECKS)
    ],
)
def test_variant(op, check, device):
    if reason := opinfo_variants.LEFT_OUT.get((check, op.name)):
        pytest.skip(reason)
    dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else torch.int64
    if expected_for(op, dtype)[0] in ("error", "skip"):
        pytest.skip(f"see expectations.yaml: {expected_for(op, dtype)[1]}")
    opinfo_variants.CHECKS[check](op, dtype, device)


@pytest.mark.parametrize(
    "op,derivative",
    [
        pytest.param(op, derivative, id=f"{op.full_name}-{derivative.__name__}", marks=sampled(i + j, of=11))
        for i, op in enumerate(opinfo.op_db)
        for j, derivative in enumerate(opinfo_derivatives.DERIVATIVES)
        if opinfo_derivatives.DERIVATIVES[derivative](op) and op.supports_dtype(torch.float64, "cpu")
    ],
)
def test_derivative(op, derivative, device):
    if op.name in opinfo_derivatives.LEFT_OUT:
        pytest.skip(opinfo_derivatives.LEFT_OUT[op.name])
    on_gpu = torch.ocl.get_device_properties(device).type != "cpu"
    if on_gpu and (derivative, op.full_name) in opinfo_derivatives.UNORDERED:
        pytest.skip("its samples name places more than once, and the last to come stays")
    with opinfo.counted_fallbacks(device) as fallbacks:
        opinfo_derivatives.check(derivative, op, torch.float64, device)
    assert not fallbacks or expected_for(op, torch.float32)[0] == "fallback", f"ran on the CPU: {fallbacks}"


def test_expectations_name_operators():
    names = {op.full_name for op in opinfo.op_db}
    for entry in EXPECTATIONS:
        assert entry["kind"] in ("fallback", "error", "rounding", "digits", "skip"), entry
        assert entry["reason"].strip(), entry
        assert not set(entry["operators"]) - names, f"unknown operators: {set(entry['operators']) - names}"
    assert not opinfo.REPRESENTATIVES - names, f"unknown operators: {opinfo.REPRESENTATIVES - names}"
