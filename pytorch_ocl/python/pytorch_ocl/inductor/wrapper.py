# SPDX-License-Identifier: MIT
"""The Python program around the kernels: Inductor's own, but for results of operators that run as they are.

Inductor plans with the strides that an operator's fake kernel gives, and its program asserts that they are so. Kernels
of this device may choose others; then the result is copied to the planned strides.
"""

import re

from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

_IMPORT = "from pytorch_ocl.inductor.runtime import with_strides"
_ASSERTION = re.compile(r"assert_size_stride\((buf\w+), ")


def _planned(line):
    """An assertion about a buffer that the program made, as a statement that sees to it."""
    found = _ASSERTION.match(line)
    return f"{found[1]} = with_strides({line.removeprefix('assert_size_stride(')}" if found else line


class _PlannedStrides:
    def write_header(self):
        super().write_header()
        self.imports.writeline(_IMPORT)

    def _codegen_assert_size_stride(self, code, name, size, stride, *rest):  # since PyTorch 2.13
        if name.startswith("buf"):  # `rest`: the operator's name and, since 2.14, the dtype or None
            code.writeline(f"{name} = with_strides({name}, {size}, {stride}, {', '.join(map(repr, rest))})")
        else:
            super()._codegen_assert_size_stride(code, name, size, stride, *rest)

    def writeline(self, line):  # before
        super().writeline(_planned(line) if isinstance(line, str) else line)


class OclSubgraphWrapper(_PlannedStrides, SubgraphPythonWrapperCodegen):
    """Of a graph within a graph."""


class OclWrapper(_PlannedStrides, PythonWrapperCodegen):
    """Of a whole graph."""

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return OclSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return OclWrapper()
