# SPDX-License-Identifier: MIT
"""Index expressions (sympy) as OpenCL C. Their variables are int or long, sizes included. Fractions between them are of
the type REAL, as precise as Python's where the device has double (see assembly.py)."""

import math

import sympy
from sympy.printing.precedence import PRECEDENCE
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat
from torch.utils._sympy.printers import ExprPrinter
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

_FUNCTIONS = ("cos", "cosh", "acos", "sin", "sinh", "asin", "tan", "tanh", "atan", "sqrt", "log2")


class OclPrinter(ExprPrinter):
    """Prints what Inductor computes of indices and sizes."""

    real = "REAL"

    def _fraction(self, value):
        return f"REAL_NUMBER({value!r})"

    def _as_real(self, expr):
        return f"({self.real})({self._print(expr)})"

    def _atom(self, expr):
        return self.parenthesize(expr, PRECEDENCE["Atom"] - 0.5)

    def _print_Integer(self, expr):
        value = int(expr)
        if value == -(2**63):
            return "LONG_MIN"
        return f"{value}L" if abs(value) >= 2**31 else str(value)

    def _divided(self, dividend, divisor):
        if divisor == 1:
            return self._atom(dividend)
        if dividend.is_nonnegative and divisor.is_nonnegative:  # nothing is divided by sizes that are 0
            return f"({self._atom(dividend)} / {self._atom(divisor)})"
        return f"quotient_floor_i64({self._print(dividend)}, {self._print(divisor)})"

    def _print_FloorDiv(self, expr):
        return self._divided(*expr.args)

    def _print_ModularIndexing(self, expr):
        dividend, divisor, modulus = expr.args
        quotient = self._divided(dividend, divisor)
        if dividend.is_nonnegative and divisor.is_nonnegative:
            return f"({quotient} % {self._atom(modulus)})"
        # Of what may be negative, Inductor's index expressions hold C's remainder (of torch.fmod) and no other.
        return f"modulo_trunc_i64({quotient}, {self._print(modulus)})"

    def _print_PythonMod(self, expr):
        return f"modulo_floor_i64({', '.join(map(self._print, expr.args))})"

    def _print_Mod(self, expr):
        return f"({self._atom(expr.args[0])} % {self._atom(expr.args[1])})"

    def _extreme(self, expr, name):
        first, *rest = map(self._print, expr.args)
        for other in rest:
            first = f"{name}({first}, {other})"
        return first

    def _print_Min(self, expr):
        return self._extreme(expr, "LESSER")

    def _print_Max(self, expr):
        return self._extreme(expr, "GREATER")

    def _print_Abs(self, expr):
        inner = self._print(expr.args[0])
        return f"GREATER({inner}, -({inner}))"

    def _print_And(self, expr):
        return "(" + " && ".join(map(self._atom, expr.args)) + ")"

    def _print_Or(self, expr):
        return "(" + " || ".join(map(self._atom, expr.args)) + ")"

    def _print_Not(self, expr):
        return f"!({self._print(expr.args[0])})"

    def _print_BooleanTrue(self, expr):
        return "1"

    def _print_BooleanFalse(self, expr):
        return "0"

    def _print_Equality(self, expr):
        return f"({self._atom(expr.args[0])} == {self._atom(expr.args[1])})"

    def _print_Unequality(self, expr):
        return f"({self._atom(expr.args[0])} != {self._atom(expr.args[1])})"

    def _print_Where(self, expr):
        condition, first, second = map(self._atom, expr.args)
        return f"({condition} ? {first} : {second})"

    def _print_Piecewise(self, expr):
        result = "0"
        for value, condition in reversed(expr.args):
            text = self._atom(value)
            result = text if condition == True else f"({self._atom(condition)} ? {text} : {result})"  # noqa: E712
        return result

    def _print_Float(self, expr):
        value = float(expr)
        if not math.isfinite(value):
            return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
        return str(int(value)) if value == int(value) and abs(value) < 2**31 else self._fraction(value)

    def _print_Rational(self, expr):
        return f"({self._fraction(float(expr.p))} / {self._fraction(float(expr.q))})"

    _print_Half = _print_Rational

    def _print_Pow(self, expr):
        base, exponent = expr.args
        if exponent.is_integer and exponent.is_number and exponent < 0:
            return f"({self._fraction(1.0)} / {self._atom(base**-exponent)})"
        return super()._print_Pow(expr)

    def _print_ToFloat(self, expr):
        return f"({self._as_real(expr.args[0])})"

    def _print_IntTrueDiv(self, expr):
        return f"({self._as_real(expr.args[0])} / {self._as_real(expr.args[1])})"

    _print_FloatTrueDiv = _print_IntTrueDiv

    def _print_FloatPow(self, expr):
        return f"pow({self._as_real(expr.args[0])}, {self._as_real(expr.args[1])})"

    def _print_PowByNatural(self, expr):
        return f"power_i64({self._print(expr.args[0])}, {self._print(expr.args[1])})"

    def _print_LShift(self, expr):
        return f"({self._atom(expr.args[0])} << {self._atom(expr.args[1])})"

    def _print_RShift(self, expr):
        return f"({self._atom(expr.args[0])} >> {self._atom(expr.args[1])})"

    def _rounded(self, expr, function):
        inner = expr.args[0]
        return self._print(inner) if inner.is_integer else f"((long){function}({self._as_real(inner)}))"

    def _print_floor(self, expr):
        return self._rounded(expr, "floor")

    def _print_ceiling(self, expr):
        return self._rounded(expr, "ceil")

    def _print_RoundToInt(self, expr):
        return self._rounded(expr, "rint")

    _print_FloorToInt = _print_floor
    _print_CeilToInt = _print_ceiling

    def _print_RoundDecimal(self, expr):
        number, digits = expr.args
        scale = self._fraction(10.0 ** abs(int(digits)))
        up, down = (f"* {scale}", f"/ {scale}") if digits > 0 else (f"/ {scale}", f"* {scale}")
        return f"(rint({self._as_real(number)} {up}) {down})"

    def _print_TruncToInt(self, expr):
        return self._rounded(expr, "trunc")

    def _print_Infinity(self, expr):
        return "INFINITY"

    def _print_NegativeInfinity(self, expr):
        return "-INFINITY"

    def _print_NaN(self, expr):
        return "NAN"


def _function(name):
    return lambda self, expr: f"{name}({self._as_real(expr.args[0])})"


for _name in _FUNCTIONS:
    setattr(OclPrinter, f"_print_OpaqueUnaryFn_{_name}", _function(_name))


class _FloatPrinter(OclPrinter):
    """Prints fractions that are wanted as float, which GPUs compute many times as fast as double."""

    real = "float"

    def _fraction(self, value):
        return f"{value!r}f"

    def _rounded(self, expr, function):
        return print_index(expr)


print_index = OclPrinter().doprint
print_float = _FloatPrinter().doprint


def is_real(expr) -> bool:
    """Whether what an expression is printed as may be no whole number."""
    if expr.is_integer:
        return False
    return expr.is_integer is False or expr.has(IntTrueDiv, FloatTrueDiv, FloatPow, ToFloat, sympy.Float)


def exceeds_int(expr, lengths) -> bool:
    """Whether int may not hold an expression or a part of it. `lengths` are those of its loops, by their variables, of
    which each is an int; other variables may be any numbers."""
    if not expr.free_symbols <= lengths.keys():
        return True
    most = 2**31 - 1
    ranges = {
        symbol: ValueRanges(0, max(int(length) - 1, 0) if isinstance(length, (int, sympy.Integer)) else most)
        for symbol, length in lengths.items()
    }
    for part in sympy.preorder_traversal(expr):
        if isinstance(part, sympy.Expr) and part.is_integer:
            bounds = bound_sympy(part, ranges)
            if bounds.lower < -most or bounds.upper > most:
                return True
    return False


def is_symbol(expr) -> bool:
    """Whether an index is a variable and no more."""
    return isinstance(expr, sympy.Symbol)
