#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the sizes of source files and functions and prints their medians.

Exits with 1 when a file has more than 600 lines (tables, *.inc, are exempt) or a function more than 80; in OpenCL C
220, as a kernel that keeps its state in registers and barriers is one function by nature."""

import ast
import pathlib
import re
import statistics
import sys

import sources

FILE_LIMIT, FUNCTION_LIMIT, KERNEL_LIMIT = 600, 80, 220
C_LIKE = {".cpp", ".hpp", ".h", ".cl", ".clh"}
KERNELS = {".cl", ".clh"}
OTHERS = {".py", ".cmake", ".sh"}

_SCOPE = re.compile(r"^(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b", re.S)
_NO_CODE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\b(?:public|private|protected)\s*:", re.M)


def c_functions(text):
    """(line, lines) of every function in C++ or OpenCL C, from the first line of its head. A block outside of all
    functions is a function's body when its head has a parameter list and does not open a scope."""
    text = _NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), sources.without_noise(text))
    head, start, line, depth, brackets = "", 1, 1, 0, 0
    for position, char in enumerate(text):
        line += char == "\n"
        if depth:
            depth += (char == "{") - (char == "}")
            if depth == 0 and text[position + 1 :].lstrip()[:1] not in (",", "{"):  # else a member's initializer ended
                yield start, line - start + 1
                head = ""
            continue
        brackets += (char == "(") - (char == ")")
        if char == "{" and brackets == 0 and "(" in head and not _SCOPE.match(head.strip()):
            depth = 1
        elif char in "{};" and brackets == 0:
            head = ""
        else:
            start = start if head.strip() else line
            head += char


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def measure(path, text):
    """(lines, [(line, lines of the function)]) of a file."""
    find = c_functions if path.suffix in C_LIKE else python_functions if path.suffix == ".py" else lambda text: []
    return text.count("\n"), list(find(text))


def main(root=sources.ROOT):
    files = {
        path: measure(path, (root / path).read_text())
        for path in sources.tracked_files(root)
        if path.suffix in C_LIKE | OTHERS
    }
    found = []
    for path, (lines, functions) in files.items():
        if lines > FILE_LIMIT:
            found.append(f"{path}: {lines} lines, more than {FILE_LIMIT}")
        limit = KERNEL_LIMIT if path.suffix in KERNELS else FUNCTION_LIMIT
        found += [
            f"{path}:{line}: a function of {length} lines, more than {limit}"
            for line, length in functions
            if length > limit
        ]
    print("\n".join(found))
    sizes = [lines for lines, _ in files.values()]
    lengths = [length for _, functions in files.values() for _, length in functions] or [0]
    print(
        f"sizes: {len(sizes)} files, median {statistics.median(sizes):.0f} lines, largest {max(sizes)}; "
        f"{len(lengths)} functions, median {statistics.median(lengths):.0f} lines, longest {max(lengths)}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:2])))
