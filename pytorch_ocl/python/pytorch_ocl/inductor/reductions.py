# SPDX-License-Identifier: MIT
"""Reductions as generated code writes them: a partial result for each work-item, then their combination."""

import dataclasses

import torch

from pytorch_ocl.inductor import types


@dataclasses.dataclass
class Reduction:
    """How one kind of reduction goes on in OpenCL C."""

    kind: str  # type of a partial result
    start: str  # a partial result of no elements
    update: str  # of partial result {acc} by {value}, or by {value0}, {value1} ...
    combine: str  # of two partial results: a function or macro
    results: tuple  # what the combined {acc} gives, as (expression, dtype)
    whole: str = ""  # the type that is combined, where it is another
    convert: str = "{acc}"  # a partial result in that type

    @property
    def is_number(self):
        """Whether a partial result is a number, which `combine` takes further values into."""
        return "_" not in self.kind


_SIMPLE = {"sum": "SUM", "prod": "PRODUCT", "xor_sum": "DIFFERENT", "any": "EITHER"}


def _simple(dtype, name):
    start = types.literal(1 if name == "prod" else 0, dtype)
    combine = _SIMPLE[name]
    return Reduction(
        types.computed(dtype), start, "{acc} = %s({acc}, {value});" % combine, combine, (("{acc}", dtype),)
    )


def _extreme(dtype, name):
    start = types.lowest(dtype) if name == "max" else types.highest(dtype)
    combine = {"max": "GREATER", "min": "LESSER"}[name]
    if types.is_real(dtype):
        combine = {"max": "NAN_MAX", "min": "NAN_MIN"}[name]
    return Reduction(
        types.computed(dtype), start, "{acc} = %s({acc}, {value});" % combine, combine, (("{acc}", dtype),)
    )


def _position(dtype, name, index):
    """argmax and argmin, of the value's position {index} or of both."""
    function = name[: len("argmax")]
    tag = types.value_tag(dtype)
    start = types.lowest(dtype) if function == "argmax" else types.highest(dtype)
    update = (
        f"{{{{ const position_{tag} candidate = {{{{{{value}}, {index}}}}}; "
        f"{{acc}} = {function}_{tag}({{acc}}, candidate); }}}}"
    )
    value, place = ("{acc}.value", dtype), ("{acc}.index", torch.int64)
    results = (value, place) if name.endswith("with_value") else (value,) if name.endswith("value") else (place,)
    return Reduction(f"position_{tag}", f"{{{start}, LONG_MAX}}", update, f"{function}_{tag}", results)


def _variance(dtype, name):
    """Mean, sum of squared differences from it, and count, of elements or of parts of which these are known."""
    tag = types.value_tag(dtype)
    results = tuple((f"{{acc}}.{field}", dtype) for field in ("mean", "m2", "weight"))
    moments, join = f"moments_{tag}", f"moments_join_{tag}"
    if name == "welford_combine":
        part = "{{{value0}, {value1}, {value2}}}"
        update = "{{ const %s part = %s; {acc} = %s({acc}, part); }}" % (moments, part, join)
        return Reduction(moments, "{0, 0, 0}", update, join, results)
    update = f"{{acc}} = spread_add_{tag}({{acc}}, {{value}});"
    return Reduction(f"spread_{tag}", "{0, 0, 0, 0}", update, join, results, moments, f"moments_of_{tag}({{acc}})")


def _softmax(dtype):
    tag = types.value_tag(dtype)
    update = "{{ const softmax_%s part = {{{value}, 1}}; {acc} = softmax_join_%s({acc}, part); }}" % (tag, tag)
    return Reduction(
        f"softmax_{tag}",
        "{-INFINITY, 0}",
        update,
        f"softmax_join_{tag}",
        (("{acc}.largest", dtype), ("{acc}.sum", dtype)),
    )


def reduction(name, dtype, src_dtype, index):
    """What reduction `name` of values of `src_dtype` to `dtype` is; `index` is the element's position. Raises
    NotImplementedError for kinds that are not generated."""
    if name in _SIMPLE:
        return _simple(dtype, name)
    if name in ("max", "min"):
        return _extreme(src_dtype, name)
    if name.startswith(("argmax", "argmin")):
        return _position(src_dtype, name, index)
    if name.startswith("welford"):
        return _variance(dtype if types.is_real(dtype) else torch.float32, name)
    if name == "online_softmax_reduce":
        return _softmax(dtype)
    raise NotImplementedError(f"{name} reductions")
