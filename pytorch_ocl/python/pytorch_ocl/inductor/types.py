# SPDX-License-Identifier: MIT
"""How dtypes are written in generated OpenCL C: their tag in dlprim/kernels/lib/types.clh and the type computed in.

16-bit and 8-bit floats are computed in float, bool in int, as comparisons give it.
"""

import math

import torch

# Floats of 8 bits (dlprim/kernels/lib/small_floats.clh). What is too large for e4m3fn is its largest number since 2.13.
_SATURATES = torch.tensor(1e6).to(torch.float8_e4m3fn).view(torch.uint8).item() == 0x7E
_SMALL_TAGS = {
    torch.float8_e4m3fn: "e4m3fn_saturating" if _SATURATES else "e4m3fn",
    torch.float8_e5m2: "e5m2",
    torch.float8_e4m3fnuz: "e4m3fnuz",
    torch.float8_e5m2fnuz: "e5m2fnuz",
}
TAGS = {
    **_SMALL_TAGS,
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint64: "u64",
    torch.uint32: "u32",
    torch.uint16: "u16",
    torch.uint8: "u8",
    torch.bool: "b8",
}
_COMPUTED = {
    **dict.fromkeys(_SMALL_TAGS, "float"),
    torch.float64: "double",
    torch.float32: "float",
    torch.float16: "float",
    torch.bfloat16: "float",
    torch.int64: "long",
    torch.int32: "int",
    torch.int16: "short",
    torch.int8: "char",
    torch.uint64: "ulong",
    torch.uint32: "uint",
    torch.uint16: "ushort",
    torch.uint8: "uchar",
    torch.bool: "int",
}
_VALUE_TAGS = {
    "double": "f64",
    "float": "f32",
    "long": "i64",
    "int": "i32",
    "short": "i16",
    "char": "i8",
    "ulong": "u64",
    "uint": "u32",
    "ushort": "u16",
    "uchar": "u8",
}
NARROW = (torch.float16, torch.bfloat16)
SMALL = tuple(_SMALL_TAGS)
CODED = (*NARROW, *SMALL)  # whose elements in memory are bits, and values float


def tag(dtype):
    """The dtype's tag; raises NotImplementedError for dtypes that kernels are not generated for."""
    if dtype not in TAGS:
        raise NotImplementedError(f"kernels for {dtype} tensors")
    return TAGS[dtype]


def computed(dtype):
    """The type that values of a dtype are computed in."""
    tag(dtype)
    return _COMPUTED[dtype]


def value_tag(dtype):
    """The tag of the type computed in, which names functions of lib/fused_values.clh."""
    return _VALUE_TAGS[computed(dtype)]


def is_real(dtype):
    """Whether values are computed in float or double."""
    return computed(dtype) in ("float", "double")


def literal(value, dtype):
    """A number as a constant of the type that `dtype` is computed in. Constants of different types have different
    texts, as variables are found again by theirs."""
    kind = computed(dtype)
    if kind in ("float", "double"):
        value = float(value)
        if math.isnan(value):
            return f"(({kind})NAN)"
        if math.isinf(value):
            return f"(({kind}){'-' if value < 0 else ''}INFINITY)"
        text = repr(value)
        return text + ("f" if kind == "float" else "")
    if dtype == torch.bool:
        return "true" if value else "false"
    value = int(value)
    if value == -(2**63):
        return "LONG_MIN"
    if value == -(2**31) and kind == "int":
        return "INT_MIN"
    suffix = {"long": "L", "ulong": "UL", "uint": "u"}.get(kind, "")
    if kind == "ulong":
        value %= 2**64
    return f"({kind}){value}" if dtype.itemsize < 4 else f"{value}{suffix}"


def lowest(dtype):
    """Before every value of the dtype, as the start of a maximum."""
    if is_real(dtype):
        return "-INFINITY"
    return literal(False if dtype == torch.bool else torch.iinfo(dtype).min, dtype)


def highest(dtype):
    """After every value of the dtype, as the start of a minimum."""
    if is_real(dtype):
        return "INFINITY"
    return literal(True if dtype == torch.bool else torch.iinfo(dtype).max, dtype)


def storage(dtype):
    """The type of the dtype's elements in memory."""
    return "ushort" if dtype in NARROW else "uchar" if dtype in (torch.bool, *SMALL) else computed(dtype)


def decode(dtype, element):
    """An element in memory, as a value."""
    if dtype == torch.bool:
        return f"{element} != 0"
    return f"decode_{tag(dtype)}({element})" if dtype in CODED else element


def encode(dtype, value):
    """A value as it is stored; numbers are rounded to the nearest."""
    return f"encode_{tag(dtype)}({value})" if dtype in (*CODED, torch.bool) else f"{value}"
