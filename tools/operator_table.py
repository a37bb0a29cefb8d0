#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/operators.md: which ATen operators have kernels here, family by family, and which run on the CPU.

Sources are what the code generator registered (pytorch_ocl_torch*.json beside the library) and the expectations of the
operator tests. operator_table.py [--check, which writes nothing and exits with 1 when the file is out of date] [JSON]
"""

import argparse
import collections
import importlib.util
import json
import pathlib
import sys
import textwrap

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/operators.md"
HEAD = """\
# Operators

Written by `tools/operator_table.py` for PyTorch {version}; the tests check that it is up to date.

{overloads} overloads of {operators} ATen operators are registered for the device; PyTorch's composites, which call these,
come on top. Of the {total} entries of PyTorch's operator database (`op_db`) that take float32, {native}
({percent:.0f} %) run on the device alone, with their gradients. dtypes: float32, float16, bfloat16, float64 where the device
has it, all integers, bool; complex64 and complex128 where an operator has a complex form.

{nested} overloads take nested tensors (strided), {sparse} sparse tensors of coordinates, {compressed} compressed ones
(CSR, CSC, BSR, BSC); [sparse.md](sparse.md) has what they do.

## With kernels

"""  # noqa: E501  shorter once filled in
FALLBACK_HEAD = """
## On the CPU for now

These run through PyTorch's CPU kernels with a warning that names them once; `PYTORCH_OCL_FALLBACK=error` makes that an
error. Names are those of `op_db`.

"""


def generated_json():
    """The file beside the installed library, or beside the one in the source tree."""
    package = importlib.util.find_spec("pytorch_ocl")
    folders = [pathlib.Path(package.origin).parent / "lib"] if package else []
    folders.append(ROOT / "pytorch_ocl/python/pytorch_ocl/lib")
    found = [file for folder in folders for file in sorted(folder.glob("pytorch_ocl_torch*.json"))]
    if not found:
        sys.exit("no pytorch_ocl_torch*.json: build the backend first")
    return found[-1]


def base_name(name):
    return name.split(".")[0]


def on_lists():
    """Overloads on lists of tensors, which csrc/ops/foreach*.cpp register themselves."""
    import torch

    import pytorch_ocl  # noqa: F401  registers them

    names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    return {name.removeprefix("aten::") for name in names if name.startswith("aten::_foreach_")}


def families(registered):
    """{family: sorted operator names}; rows of the tables are told apart by the table."""
    table_of = {stub["row"]: stub["table"] for stub in registered["stubs"] if stub["row"]}
    result = collections.defaultdict(set)
    for operator in registered["operators"]:
        family = operator["family"] or table_of.get(operator["row"]) or "pointwise"
        result[family].add(base_name(operator["name"]))
    result["foreach"] = {base_name(name) for name in on_lists()}
    return {family: without_in_place(result[family]) for family in sorted(result)}


def without_in_place(names):
    """Sorted; `abs_` goes unsaid beside `abs`."""
    return sorted(name for name in names if not (name.endswith("_") and name[:-1] in names))


def expectations():
    """[(reason, operators)] of what falls back or fails in float32."""
    entries = yaml.safe_load((ROOT / "pytorch_ocl/tests/expectations.yaml").read_text())
    return [
        (f"{entry['reason']}" + ("" if entry["kind"] == "fallback" else " (raises an error)"), entry["operators"])
        for entry in entries
        if entry["kind"] in ("fallback", "error") and "float32" in entry.get("dtypes", ["float32"])
    ]


def of_layout(registered, layout):
    return sum(name == layout for name, _ in registered["layouts"])


def cell(names):
    return ", ".join(f"`{name}`" for name in names)


def page(file):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    registered = json.loads(file.read_text())
    rows, missing = families(registered), expectations()
    entries = {op.full_name for op in op_db if op.supports_dtype(torch.float32, "cpu")}
    lost = {name for _, names in missing for name in names} & entries
    text = HEAD.format(
        version=file.stem.removeprefix("pytorch_ocl_torch"),
        overloads=len(registered["operators"]) + len(on_lists()),
        operators=len({name for names in rows.values() for name in names}),
        total=len(entries),
        native=len(entries - lost),
        percent=100 * (1 - len(lost) / len(entries)),
        nested=of_layout(registered, "NestedTensor"),
        sparse=of_layout(registered, "Sparse"),
        compressed=of_layout(registered, "SparseCsr"),
    )
    text += "| family | operators |\n|---|---|\n"
    text += "".join(f"| {family} ({len(names)}) | {cell(names)} |\n" for family, names in rows.items())
    text += FALLBACK_HEAD
    for reason, names in missing:
        text += "\n".join(textwrap.wrap(f"- **{reason}**: {', '.join(names)}", 118, subsequent_indent="  ")) + "\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("json", nargs="?", type=pathlib.Path, metavar="JSON")
    options = parser.parse_args()
    text = page(options.json or generated_json())
    if not options.check:
        PAGE.write_text(text)
        print(f"{PAGE.relative_to(ROOT)}: {len(text.splitlines())} lines")
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run tools/operator_table.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
