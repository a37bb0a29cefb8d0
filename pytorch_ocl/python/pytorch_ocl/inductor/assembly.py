# SPDX-License-Identifier: MIT
"""The text of a kernel: of one, or of several small ones without reductions that take one launch together, its parts.
Parts have their buffers, numbers and messages in common."""

import collections
import re

import sympy
from torch._inductor.codegen.common import IndentedBuffer

from pytorch_ocl.inductor import types
from pytorch_ocl.inductor.overrides import BUILT_IN, BY_TYPE
from pytorch_ocl.inductor.printer import print_index

NAME = "KERNEL_NAME"  # stands for the kernel's name until it is known
ALIGNMENT = 32  # vectors: work-items that run together do the same part
# Parts of lib/fused_values.clh and fused.clh, by the names of what they define: the others need not be compiled.
_SECTIONS = {
    "INTEGERS": r"(quotient|modulo|power|shift)_",
    "REALS": r"(modulo|power)_|spread_|moments_|softmax_",
    "POSITIONS": r"position_",
    "RANDOM": r"random_",
    "SMALL_FLOATS": r"e[45]m[32]",
}
# Calls that CPUs' compilers make vectors of where work-items do one element each, but not within loops.
_LIBRARY = re.compile(
    rf"\b({'|'.join((*BUILT_IN, *BY_TYPE))}|lgamma_f32|modulo_(trunc|floor)_f\d+|power_f64|pow|nextafter|ldexp|frexp|"
    r"(special|spherical|airy|chebyshev|hermite|laguerre|legendre)_\w+)\("
)
# Fractions of sizes (printer.py).
_REAL = [
    "#ifdef FP64",
    "#define REAL double",
    "#define REAL_NUMBER(x) x",
    "#else",
    "#define REAL float",
    "#define REAL_NUMBER(x) x##f",
    "#endif",
]


def calls_library(text):
    """Whether the text of a kernel's body has functions that take the form of one element for each work-item."""
    return bool(_LIBRARY.search(text))


def starts(parts):
    """Where each part's elements begin in the index space of all, and how many there are."""
    first, found = 0, []
    for part in parts:
        found.append(first)
        end = first + int(part.numels["x"])
        first = -(-end // (ALIGNMENT * part.vector)) * ALIGNMENT * part.vector
    return found, end


def _definitions(parts, text):
    """What the text of a kernel's body needs before it."""
    lines = []
    kinds = {part.special_type for part in parts if part.special_type}
    if kinds:
        kind = "double" if "double" in kinds else "float"
        lines += [
            f"#define T {kind}",
            f"#define COMPUTE {'f64' if kind == 'double' else 'f32'}",
            f"#define COMPUTE_DOUBLE {int(kind == 'double')}",
            "#define COMPUTE_FLOATING 1",
            "#define COMPUTE_COMPLEX 0",
            "#define COMPUTE_NARROW 0",
            "#define COMPUTE_SIGNED 1",
            "#define SPECIAL",
        ]
    lines += [f"#define {name}" for name, pattern in _SECTIONS.items() if re.search(pattern, text)]
    lines.append('#include "lib/fused.clh"')
    if re.search(r"\bREAL\b|\bREAL_NUMBER\b", text):
        lines += _REAL
    if any(part.uses_atomics for part in parts):
        lines += ['#include "lib/atomics.clh"', "#define COMBINE(a, b) ((a) + (b))"]
    if kinds:
        lines += ['#include "lib/math.clh"', '#include "lib/special.clh"']
    numbers = ["share", *parts[0].parameters(), *parts[0].messages.values()]
    lines.append(f"typedef struct {{ long {', '.join(numbers)}; }} Parameters;")
    return lines


def _write_sizes(code, kernel):
    kind = kernel.index_dtype
    for name in kernel.args.sizevars.values():
        code.writeline(f"const {'long' if name.startswith('load_seed') else kind} {name} = p.{name};")
    for name, numel in kernel.numels_by_name().items():
        if name == "xnumel" or kernel.form != "elements":
            value = f"p.{name}" if name in kernel.parameters() else print_index(sympy.sympify(numel))
            code.writeline(f"const {kind} {name} = {value};")
    if kernel.form == "rows":
        code.writeline(f"SCRATCH({3 if any('_' in kind for kind in kernel.scratch) else 1})")


def _write_loop(code, kernel, loop):
    _write_sizes(code, kernel)
    code.writeline(f"{loop} {{")
    with code.indent():
        code.splice(kernel.indexing_code)
        code.splice(kernel.body)
    code.writeline("}")


def _loop(kernel):
    """The kind of loop over a kernel's index space, and what that takes besides its type and length."""
    run = kernel.index_to_str(kernel.run) if kernel.run else "xnumel"
    if kernel.form == "columns":
        return "COLUMNS", f", {run}"
    if kernel.tile:
        return "TILES", f", {kernel.tile}"
    return ("RUNS", f", {run}") if kernel.run and kernel.form == "elements" else (kernel.form.upper(), "")


def _write_parts(code, parts):
    if len(parts) == 1:
        kernel = parts[0]
        form, width = _loop(kernel)
        return _write_loop(code, kernel, f"FOR_{form}({kernel.index_dtype}, xnumel{width})")
    for kernel, start in zip(parts, starts(parts)[0]):
        code.writeline("{")
        with code.indent():
            _write_loop(code, kernel, f"FOR_PART({kernel.index_dtype}, xnumel, {start})")
        code.writeline("}")


def text(parts):
    """OpenCL C of kernels whose bodies are written, under the name NAME."""
    first = parts[0]
    code, body = IndentedBuffer(), IndentedBuffer()
    with body.indent():
        _write_parts(body, parts)  # may need numbers that are not among the parameters yet
    buffers = first.buffers()
    first.calls_library = calls_library(body.getvalue())
    code.writelines(_definitions(parts, body.getvalue()))
    code.writeline(f"__kernel {'ROW_KERNEL ' if first.form == 'rows' else ''}void {NAME}(")
    # Those of one buffer may overlap; atomic operations also read what others write.
    callers = collections.Counter(caller for _, caller, _, _ in buffers)
    atomic = any(part.uses_atomics for part in parts)
    for inner, caller, dtype, constant in buffers:
        alone = callers[caller] == 1 and not atomic
        macro = ("IN" if constant else "OUT") if alone else "CONST_GLOBAL" if constant else "GLOBAL"
        code.writeline(f"    {macro}({types.storage(dtype)}, {inner}),")
    if first.messages:
        code.writeline("    GLOBAL(int, status_buffer),")
    code.writeline("    const Parameters p) {")
    with code.indent():
        for inner, _, dtype, constant in buffers:
            kind, prefix, macro = types.storage(dtype), "const " * constant, "CONST_" * constant
            code.writeline(f"__global {prefix}{kind} *{inner} = {macro}POINTER({kind}, {inner});")
        if first.messages:
            code.writeline("__global int *status = POINTER(int, status_buffer);")
    code.splice(body)
    code.writeline("}")
    return code.getvalue()
