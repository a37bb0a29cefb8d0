# SPDX-License-Identifier: MIT
"""The Python program around the kernels: Inductor's own, but for results of operators that run as they are.

Inductor plans with the strides that an operator's fake kernel gives, and its program asserts that they are so. Kernels
of this device may choose others; then the result is copied to the planned strides.
"""

import dataclasses
import re

from torch._inductor.codegen.common import PythonPrinter
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

_IMPORT = "from pytorch_ocl.inductor.runtime import with_strides"
_IMPORT_KERNEL = "from pytorch_ocl.inductor.runtime import FusedKernel"
_ASSERTION = re.compile(r"assert_size_stride\((buf\w+), ")


_expression = PythonPrinter().doprint


@dataclasses.dataclass
class FusedText:
    """A fused kernel as programs carry it; runtime.py's FusedKernel says what the fields are."""

    device: int
    form: str
    length: int
    vector: int
    messages: list
    source: str
    comment: str  # lines that say which operators of the graph it stands for


def _planned(line):
    """An assertion about a buffer that the program made, as a statement that sees to it."""
    found = _ASSERTION.match(line)
    return f"{found[1]} = with_strides({line.removeprefix('assert_size_stride(')}" if found else line


class _Program:
    def define_fused(self, name, kernel):
        """Adds a kernel to the program."""
        self.add_import_once(_IMPORT_KERNEL)
        for line in kernel.comment.splitlines():
            self.header.writeline(line)
        source = kernel.source.replace("\\", "\\\\")
        self.header.writeline(
            f"{name} = FusedKernel({name!r}, device={kernel.device}, form={kernel.form!r}, length={kernel.length}, "
            f"vector={kernel.vector}, messages={kernel.messages!r}, source='''"
        )
        for line in source.splitlines():
            self.header.writeline(line)
        self.header.writeline("''')")

    def call_fused(self, name, device, tensors, numbers, items):
        """Has it run. `tensors` are names, with whether they are to be moved to the device first."""
        arguments = [f"{caller}.to({str(device)!r})" if moved else caller for caller, moved in tensors]
        counts = ", ".join(map(_expression, numbers))
        self.writeline(f"{name}([{', '.join(arguments)}], [{counts}], {_expression(items)})")

    def check_numbers(self, caller):
        """Has the program raise where a tensor has NaN or infinity."""
        for function in ("isnan", "isinf"):
            self.writeline(f"assert not {caller}.{function}().any().item()")

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


class OclSubgraphWrapper(_Program, SubgraphPythonWrapperCodegen):
    """Of a graph within a graph."""


class OclWrapper(_Program, PythonWrapperCodegen):
    """Of a whole graph."""

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return OclSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return OclWrapper()
