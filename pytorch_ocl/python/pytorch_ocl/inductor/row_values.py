# SPDX-License-Identifier: MIT
"""Values of a row's elements that a later loop over the row computes again: CPUs keep them in an array.

Inductor writes the loops of a softmax, say, each from the inputs on, so that the exponentials come twice. GPUs have the
inputs in registers and time left while memory is read; CPUs have neither, but their cache holds a row."""

import re

import sympy
from torch._inductor.utils import DeferredLineBase

from pytorch_ocl.inductor import types
from pytorch_ocl.inductor.overrides import BUILT_IN, BY_TYPE

_LONGEST_ROW = 2048
_MOST_ARRAYS = 4  # of a kernel: they lie on a thread's stack
# Functions, and elements that lie at random.
_CHEAP = ("sqrt", "rsqrt", "copysign", "fma")
_COSTLY = re.compile(
    rf"^({'|'.join(BUILT_IN)})\(|^({'|'.join({'erf_plus_one', 'sigmoid', *BY_TYPE}.difference(_CHEAP))})(_f32)?\(|"
    r"^(power|special|random)_\w+\(|\w\[.*\btmp\d+"
)
_VARIABLE = re.compile(r"\btmp\d+\b")


class _Line(DeferredLineBase):
    """A line that is written if what it is about was needed."""

    def __init__(self, needed, line):
        super().__init__(line)
        self.needed = needed

    def __call__(self):
        return self.line if self.needed else None

    def _new_line(self, line):
        return _Line(self.needed, line)


class RowValues:
    """Of one kernel. Values have the same number if they are the same expression of the same inputs."""

    def __init__(self, kernel):
        length = kernel.features.reduction_numel
        fits = isinstance(length, (int, sympy.Integer)) and int(length) <= _LONGEST_ROW
        self.applies = kernel.on_cpu and kernel.form == "rows" and fits
        self.length = int(length) if fits else 0
        self.numbers = {}  # {expression in numbers: number}
        self.number_of = {}  # {variable: number}
        self.arrays = {}  # {number: (name, loop, what tells whether it is needed)}
        self.checks = {}  # {(number of an index, code of what is reported): loop}
        self.loop = 0
        self.changing = False  # while what is loaded may be another value in a later loop

    def _canonical(self, text):
        return _VARIABLE.sub(lambda match: f"value{self.number_of.get(match[0], match[0])}", text)

    def known(self, kernel, text):
        """The text that reads a value which an earlier loop kept, else the text as it is."""
        if not self._in_loop(kernel):
            return text
        number = self.numbers.get(self._canonical(text))
        name, loop, needed = self.arrays.get(number, ("", self.loop, None))
        if loop == self.loop:
            return text
        needed.append(True)
        return f"{name}[r0_index]"

    def note(self, kernel, buffer, variable, text, dtype):
        """Numbers a variable of that expression; writes what keeps it if it is costly."""
        name = str(variable)
        if not self.applies or name in self.number_of:
            return
        number = len(self.number_of)
        if not self.changing and not kernel._load_mask:
            number = self.numbers.setdefault(self._canonical(text), number)
        self.number_of[name] = number
        costly = _COSTLY.search(text) and not self.changing and self._in_loop(kernel)
        if costly and number not in self.arrays and len(self.arrays) < _MOST_ARRAYS:
            array, needed = f"values{len(self.arrays)}", []
            self.arrays[number] = array, self.loop, needed
            kernel.indexing_code.writeline(_Line(needed, f"{types.computed(dtype)} {array}[{self.length}];"))
            buffer.writeline(_Line(needed, f"{array}[r0_index] = {name};"))

    def was_checked(self, name, code):
        """Whether an earlier loop checks the same index; else notes that this one does."""
        number = self.number_of.get(name)
        return number is not None and self.checks.setdefault((number, code), self.loop) != self.loop

    def _in_loop(self, kernel):
        return self.applies and kernel.inside_reduction and not kernel._load_mask

    def end_loop(self):
        self.loop += 1
