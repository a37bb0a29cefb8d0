# SPDX-License-Identifier: MIT
"""Other ways to call the operators of op_db: in place, with out=, with tensors that are not contiguous, and wrongly.

Each check compares with the CPU, raises AssertionError when the device does otherwise, and returns how many calls it
compared.
"""

import re

import opinfo
import torch
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_flatten, tree_map


def outcome(function, /, *arguments, **options):
    """(result, None) or (None, exception)"""
    try:
        return function(*arguments, **options), None
    except Exception as error:  # noqa: BLE001
        return None, error


def compared(op, expected, actual, dtype):
    opinfo.compare(op, dtype, tree_flatten(expected)[0], tree_flatten(actual)[0], False)
    return 1


def saturated(op, expected, x, arguments, options):
    """The CPU's result, where that does not hang on the processor: on some, scaled products beyond the largest number
    of 8 bits are NaN, on others, as on CUDA, that number."""
    if op.name != "torch._scaled_mm" or not expected.float().isnan().any():
        return expected
    largest = torch.finfo(expected.dtype).max
    wide = op(x, *arguments, **{**options, "out_dtype": torch.float32})
    return torch.where(expected.float().isnan(), wide.clamp(-largest, largest), expected.float()).to(expected.dtype)


def usable(op, dtype):
    return [
        sample[:3] for sample in opinfo.samples(op, dtype, opinfo.FORWARD_SAMPLES) if not opinfo.is_random(op, sample)
    ]


def is_strided(tensor):
    return tensor.layout == torch.strided


def is_dense(sample):
    """Whether every tensor of a sample has strides, which sparse ones lack."""
    return all(is_strided(value) for value in tree_flatten(sample)[0] if isinstance(value, torch.Tensor))


def check_inplace(op, dtype, device):
    """op_(x, ...) returns x and leaves the CPU's result in it."""
    variant, count = op.get_inplace(), 0
    for sample in usable(op, dtype) if variant else []:
        x, arguments, options = opinfo.to_device(sample, "cpu")
        expected, error = outcome(variant, x, *arguments, **options)
        if error:
            continue
        y, arguments, options = opinfo.to_device(sample, device)
        actual = variant(y, *arguments, **options)
        assert actual is y, f"{op.full_name} in place gave another tensor"
        count += compared(op, expected, actual, dtype)
    return count


def check_out(op, dtype, device):
    """Results go where out= says, whatever was there, and an empty tensor is resized."""
    count = 0
    for sample in usable(op, dtype) if op.supports_out else []:
        x, arguments, options = opinfo.to_device(sample, "cpu")
        like, error = outcome(op, x, *arguments, **options)
        if error or not all(isinstance(out, torch.Tensor) and is_strided(out) for out in tree_flatten(like)[0]):
            continue
        for make in (lambda out: torch.full_like(out, 7), lambda out: out.new_empty(0)):
            expected = tree_map(make, like)
            if outcome(op, x, *arguments, **options, out=expected)[1]:
                continue
            y, others, named = opinfo.to_device(sample, device)
            out = tree_map(make, tree_map(lambda value: value.to(device), like))
            op(y, *others, **named, out=out)
            count += compared(op, saturated(op, expected, x, arguments, options), out, dtype)
    return count


def check_noncontiguous(op, dtype, device):
    count = 0
    for sample in filter(is_dense, usable(op, dtype)):
        strided = SampleInput(sample[0], args=sample[1], kwargs=sample[2]).noncontiguous()
        strided = (strided.input, strided.args, strided.kwargs)
        x, arguments, options = strided
        expected, error = outcome(op, x, *arguments, **options)
        if error:
            continue
        expected = saturated(op, expected, x, arguments, options)
        y, arguments, options = opinfo.to_device(strided, device)
        count += compared(op, expected, op(y, *arguments, **options), dtype)
    return count


def check_errors(op, device):
    """Wrong calls raise errors of the type and with the message that op_db asks for, or what the CPU says instead."""
    if not op.error_inputs_func:
        return 0
    count, on_cpu, on_device = 0, list(op.error_inputs("cpu")), list(op.error_inputs(device))
    for i, wrong in enumerate(on_device):
        _, raised = outcome(call_wrongly, op, wrong)
        _, error = outcome(call_wrongly, op, on_cpu[i]) if len(on_cpu) == len(on_device) else (None, wrong)
        if not error:
            continue  # refused on other devices only
        assert isinstance(raised, wrong.error_type), f"expected {error!r}, got {raised!r}"
        first_lines = {str(e).split("\n")[0].replace(str(device), "cpu") for e in (error, raised)}
        assert re.search(wrong.error_regex, str(raised)) or len(first_lines) == 1, f"expected {error}, got {raised}"
        count += 1
    return count


def call_wrongly(op, wrong):
    sample = wrong.sample_input
    op(sample.input, *sample.args, **sample.kwargs)
    torch.ocl.synchronize()


CHECKS = {
    "inplace": check_inplace,
    "out": check_out,
    "noncontiguous": check_noncontiguous,
    "errors": lambda op, dtype, device: check_errors(op, device),
}
# (check, operator) that is left out, and why.
LEFT_OUT = {
    ("noncontiguous", "as_strided"): "it reads between the elements, which a copy to the device leaves undefined",
    ("noncontiguous", "as_strided_copy"): "see as_strided",
    ("noncontiguous", "as_strided_scatter"): "see as_strided",
    ("out", "linalg.eigh"): "the signs of eigenvectors are not determined",
    ("noncontiguous", "linalg.eigh"): "see out",
    ("noncontiguous", "matrix_exp"): "the CPU's result is not accurate enough: see expectations.yaml",
    ("errors", "gradient"): "its samples hold tensors of the meta device",
    ("errors", "nn.functional.max_pool3d"): "PyTorch's check for this device finds the same fault in other words",
}
