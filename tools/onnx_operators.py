#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/onnx_operators.md: which operators of ONNX networks may hold, and which can be trained.

onnx_operators.py PROGRAM [--check]: the program `dlprim`; --check writes nothing and exits with 1 when the file is out
of date. Needs the package `onnx`.
"""

import argparse
import pathlib
import subprocess
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs/onnx_operators.md"
HEAD = """\
# Operators of ONNX

Written by `tools/onnx_operators.py`; the tests check that it is up to date.

{supported} of the {total} operators that ONNX {version} has in its main domain (operator sets 7 to {opset}) are supported, with all
attributes but those of strings (DeformConv: two spatial dimensions), for float32, float16, bfloat16, float64 where the
device has it, integers and bool as ONNX allows them. What is not supported is refused when a model is loaded, by one
error that lists every such node.
"""  # noqa: E501  shorter once filled in
SECTIONS = {
    "gradient": "With gradients\n\nTested against finite differences (`dlprim/tests/net`).",
    "gradient 0": "With gradients of 0\n\nTheir results are integers or truths, steps, random, or depend on no input.",
    "no gradient": "Without gradients\n\nSequences and optional values cannot be trained through.",
}

RUNTIME = """\
## Of ONNX Runtime

Operators of the domain `com.microsoft` that ONNX Runtime's optimizers and quantizers write, without gradients. Layouts
for one processor (`com.microsoft.nchwc`) are refused: save with `ORT_ENABLE_EXTENDED`. `SimplifiedLayerNormalization`,
which it has in the main domain, runs, too, and has a gradient.
"""


def page(program):
    import onnx

    command = [program, "info", "--operators"]
    lines = subprocess.run(command, text=True, capture_output=True, check=True).stdout.splitlines()
    rows = [(line[:13].strip(), line[14:46].strip(), line[47:59].strip()) for line in lines]
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    ours = {name: gradient for domain, name, gradient in rows if domain == "onnx" and name in known}
    text = HEAD.format(
        supported=len(ours),
        total=len(known),
        version=onnx.__version__.rsplit(".", 1)[0],
        opset=onnx.defs.onnx_opset_version(),
    )

    def paragraph(names):
        return "\n".join(textwrap.wrap(", ".join(sorted(names)), 118)) + "\n"

    for gradient, title in SECTIONS.items():
        text += f"\n## {title}\n\n" + paragraph(name for name, has in ours.items() if has == gradient)
    text += "\n" + RUNTIME + "\n" + paragraph(name for domain, name, _ in rows if domain == "com.microsoft")
    return text + "\n## Refused\n\nStrings, and encoded images.\n\n" + paragraph(known - set(ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program dlprim")
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    text = page(options.program)
    if not options.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"docs/{PAGE.name} is out of date: run tools/onnx_operators.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
