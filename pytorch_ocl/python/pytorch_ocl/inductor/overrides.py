# SPDX-License-Identifier: MIT
"""What each operation of Inductor's loops is in OpenCL C. An argument is a variable that knows its dtype."""

import torch
from torch._inductor.codegen.common import OpOverrides
from torch._inductor.ops_handler import OP_NAMES
from torch._inductor.utils import get_bounds_index_expr
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.value_ranges import ValueRanges

from pytorch_ocl.inductor import types

# Functions of OpenCL C that take float or double.
BUILT_IN = ("erfc",)
# Those of which lib/fused_values.clh has forms for CPUs.
BY_TYPE = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh "
    "sqrt rsqrt hypot copysign fma erf lgamma"
).split()
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}
# Functions of lib/math.clh and lib/special.clh that take numbers of one type, which the kernel defines.
_SPECIAL = {
    "erfinv": "special_erfinv",
    "erfcx": "special_erfcx",
    "digamma": "special_digamma",
    "zeta": "special_zeta",
    "i0": "special_i0",
    "i0e": "special_i0e",
    "i1": "special_i1",
    "i1e": "special_i1e",
    "modified_bessel_i0": "special_i0",
    "modified_bessel_i1": "special_i1",
    "modified_bessel_k0": "special_k0",
    "modified_bessel_k1": "special_k1",
    "scaled_modified_bessel_k0": "special_k0e",
    "scaled_modified_bessel_k1": "special_k1e",
    "bessel_j0": "special_j0",
    "bessel_j1": "special_j1",
    "bessel_y0": "special_y0",
    "bessel_y1": "special_y1",
    "spherical_bessel_j0": "spherical_j0",
    "airy_ai": "airy_ai",
    "log_ndtr": "special_log_ndtr",
    "ndtri": "special_ndtri",
    "ndtr": "normal_cdf",
    "chebyshev_polynomial_t": "chebyshev_t",
    "chebyshev_polynomial_u": "chebyshev_u",
    "chebyshev_polynomial_v": "chebyshev_v",
    "chebyshev_polynomial_w": "chebyshev_w",
    "hermite_polynomial_h": "hermite_h",
    "hermite_polynomial_he": "hermite_he",
    "laguerre_polynomial_l": "laguerre_l",
    "legendre_polynomial_p": "legendre_p",
}


def _is_real(value):
    return types.is_real(value.dtype)


def _as_long(x):
    return f"(long){x}" if x.dtype == torch.float64 else f"long_f32({x})"


def _joint_tag(*values):
    """The tag of the type that operands of an operation are promoted to."""
    dtype = values[0].dtype
    for value in values[1:]:
        dtype = torch.promote_types(dtype, value.dtype)
    return types.value_tag(dtype)


class OclOverrides(OpOverrides):
    """Operations; those not named here are Inductor's own, of these or of C."""

    @staticmethod
    def constant(value, dtype):
        if dtype in types.SMALL:
            value = torch.tensor(float(value)).to(dtype).item()
        return types.literal(value, dtype)

    @staticmethod
    def to_dtype(x, dtype, src_dtype=None, use_compute_types=True):
        if dtype == torch.bool:
            return f"{x} != 0"
        if dtype in types.SMALL or (dtype in types.NARROW and not use_compute_types):
            return f"ROUNDED_TO({types.tag(dtype)}, (float){x})"
        kind = types.computed(dtype)
        if x.dtype is not None and types.computed(x.dtype) == kind:
            return f"{x}" if x.dtype == torch.bool else x  # Inductor's bounds of bool are no numbers
        if x.dtype is not None and _is_real(x) and dtype.itemsize < 4 and not types.is_real(dtype):
            return f"({kind}){_as_long(x)}"  # out of range: the low bits, as eager
        if x.dtype is not None and _is_real(x) and dtype == torch.int64:
            return _as_long(x)
        return f"({kind}){x}"

    @staticmethod
    def to_dtype_bitcast(x, dtype, src_dtype):
        if dtype.itemsize != src_dtype.itemsize:
            raise NotImplementedError(f"bits of {src_dtype} as {dtype}")
        source = f"encode_{types.tag(src_dtype)}({x})" if src_dtype in types.CODED else f"{x}"
        if dtype in types.CODED:
            return f"decode_{types.tag(dtype)}(({types.storage(dtype)}){source})"
        if dtype.itemsize < 4 or not (dtype.is_floating_point or src_dtype.is_floating_point):
            return f"({types.computed(dtype)}){source}"
        return f"as_{types.computed(dtype)}({source})"

    @staticmethod
    def index_expr(expr, dtype):
        text, kind = V.kernel.number(expr, dtype)
        value = V.kernel.cse.generate(V.kernel.compute, text, bounds=get_bounds_index_expr(expr), dtype=kind)
        return ops.to_dtype(value, dtype)

    @staticmethod
    def value_expr(expr, dtype):
        return f"({types.computed(dtype)})({V.kernel.number(expr, dtype)[0]})"

    @staticmethod
    def masked(mask, body, other):
        kernel = V.kernel
        scoped = kernel.new_buffer()
        with kernel.swap_buffers(scoped), kernel.mask_loads(mask, other):
            result = body()
        dtype = result.dtype
        variable = kernel.cse.newvar(bounds=ValueRanges.unknown(), dtype=dtype)
        kernel.compute.writeline(f"{types.computed(dtype)} {variable} = {types.literal(other, dtype)};")
        kernel.compute.writeline(f"if ({mask}) {{")
        with kernel.compute.indent():
            kernel.compute.splice(scoped)
            kernel.compute.writeline(f"{variable} = {result};")
        kernel.compute.writeline("}")
        kernel.note_variable(variable)
        return variable

    @staticmethod
    def where(condition, first, second):
        return f"{condition} ? {first} : {second}"

    @staticmethod
    def add(a, b):
        for x, one in ((a, b), (b, a)):  # in GELU
            text = getattr(x, "text", "")
            if text.startswith("erf_f32(") and getattr(one, "text", "") == "1.0f":
                return f"erf_plus_one_f32{text.removeprefix('erf_f32')}"
        return f"{a} + {b}"

    @staticmethod
    def maximum(a, b):
        return f"NAN_MAX({a}, {b})" if _is_real(a) or _is_real(b) else f"GREATER({a}, {b})"

    @staticmethod
    def minimum(a, b):
        return f"NAN_MIN({a}, {b})" if _is_real(a) or _is_real(b) else f"LESSER({a}, {b})"

    @staticmethod
    def abs(x):
        return f"fabs_{types.value_tag(x.dtype)}({x})" if _is_real(x) else f"{x} < 0 ? -{x} : {x}"

    @staticmethod
    def isnan(x):
        return f"{x} != {x}"

    @staticmethod
    def isinf(x):
        return f"fabs_{types.value_tag(x.dtype)}({x}) == INFINITY" if _is_real(x) else "0"

    @staticmethod
    def sign(x):
        return f"SIGN({x})"

    @staticmethod
    def signbit(x):
        return f"signbit({x}) != 0" if _is_real(x) else f"{x} < 0"

    @staticmethod
    def logical_not(x):
        return f"!{x}"

    @staticmethod
    def logical_and(a, b):
        return f"{a} && {b}"

    @staticmethod
    def logical_or(a, b):
        return f"{a} || {b}"

    @staticmethod
    def logical_xor(a, b):
        return f"!{a} != !{b}"

    @staticmethod
    def bitwise_not(x):
        return f"!{x}" if x.dtype == torch.bool else f"~{x}"

    @staticmethod
    def bitwise_left_shift(a, b):
        return f"shift_left_{_joint_tag(a, b)}({a}, {b})"

    @staticmethod
    def bitwise_right_shift(a, b):
        return f"shift_right_{_joint_tag(a, b)}({a}, {b})"

    lshift, rshift = bitwise_left_shift, bitwise_right_shift

    @staticmethod
    def truediv(a, b):
        return f"{a} / {b}" if _is_real(a) or _is_real(b) else f"(float){a} / (float){b}"

    int_truediv = truediv

    @staticmethod
    def floordiv(a, b):
        return f"quotient_floor_{_joint_tag(a, b)}({a}, {b})"

    @staticmethod
    def sigmoid(x):
        return f"1.0 / (1.0 + exp(-{x}))" if x.dtype == torch.float64 else f"sigmoid_f32({x})"

    @staticmethod
    def truncdiv(a, b):
        return f"quotient_trunc_{_joint_tag(a, b)}({a}, {b})"

    @staticmethod
    def mod(a, b):
        return f"modulo_trunc_{_joint_tag(a, b)}({a}, {b})"

    fmod = mod

    @staticmethod
    def remainder(a, b):
        return f"modulo_floor_{_joint_tag(a, b)}({a}, {b})"

    @staticmethod
    def pow(a, b):
        return f"power_{_joint_tag(a, b)}({a}, {b})"

    @staticmethod
    def nextafter(a, b):
        return f"nextafter({a}, {b})"

    @staticmethod
    def ldexp(x, n):
        return f"ldexp({x}, (int){n})"

    @staticmethod
    def frexp(x):
        kernel, kind = V.kernel, types.computed(x.dtype)
        mantissa = kernel.cse.newvar(dtype=x.dtype)
        exponent = kernel.cse.newvar(dtype=torch.int32)
        kernel.compute.writeline(f"int {exponent};")
        kernel.compute.writeline(f"{kind} {mantissa} = frexp({x}, &{exponent});")
        kernel.note_variable(mantissa)
        kernel.note_variable(exponent)
        return mantissa, exponent

    @staticmethod
    def rand(seed, offset):
        return f"random_uniform({seed}, {offset})"

    @staticmethod
    def randn(seed, offset):
        return f"random_normal({seed}, {offset})"

    @staticmethod
    def randint64(seed, offset, low, high):
        return f"random_integer({seed}, {offset}, {low}, {high})"

    @staticmethod
    def polygamma(n, x):
        return f"special_polygamma((int){n}, {V.kernel.special(x)})"

    @staticmethod
    def igamma(a, x):
        return f"incomplete_gamma({V.kernel.special(a)}, {V.kernel.special(x)}, 0)"

    @staticmethod
    def igammac(a, x):
        return f"incomplete_gamma({V.kernel.special(a)}, {V.kernel.special(x)}, 1)"

    gammainc, gammaincc = igamma, igammac

    @classmethod
    def define_missing(cls):
        """Gives operations without a form here an error that names them."""
        for name in OP_NAMES:
            if cls._is_unimplemented(name):
                setattr(cls, name, cls._unimplemented(name))


def _built_in(name):
    def function(*values):
        return f"{name}({', '.join(map(str, values))})"

    return staticmethod(function)


def _by_type(name):
    def function(*values):
        kind = "" if any(value.dtype == torch.float64 for value in values) else "_f32"
        return f"{name}{kind}({', '.join(map(str, values))})"

    return staticmethod(function)


def _turn(name):
    """sin or cos. Intel's compiler for CPUs makes sincos of both of one argument, and ends the process where that
    argument is itself such a result: a bound that changes nothing hides it."""

    def function(x):
        if getattr(x, "text", "").startswith(("sin(", "cos(")):
            bound = types.literal(-2.0, x.dtype)
            x = f"{x} < {bound} ? {bound} : {x}"
            return f"{name}({x})"
        return by_type(x)

    by_type = _by_type(name).__func__
    return staticmethod(function)


def _rounding(name):
    by_type = _by_type(name).__func__
    return staticmethod(lambda x: by_type(x) if _is_real(x) else x)


def _shifted(name):
    return staticmethod(lambda x, n: f"{name}(2 * {V.kernel.special(x)} - 1, {V.kernel.special(n)})")


def _special(name):
    return staticmethod(lambda *values: f"{name}({', '.join(V.kernel.special(v) for v in values)})")


for _name in BUILT_IN:
    setattr(OclOverrides, _name, _built_in(_name))
for _name in BY_TYPE:
    setattr(OclOverrides, _name, _by_type(_name))
for _name in ("sin", "cos"):
    setattr(OclOverrides, _name, _turn(_name))
for _name, _function in _ROUNDING.items():
    setattr(OclOverrides, _name, _rounding(_function))
for _name, _function in _SPECIAL.items():
    setattr(OclOverrides, _name, _special(_function))
for _kind in "tuvw":
    setattr(OclOverrides, f"shifted_chebyshev_polynomial_{_kind}", _shifted(f"chebyshev_{_kind}"))
OclOverrides.define_missing()
