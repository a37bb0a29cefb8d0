# SPDX-License-Identifier: MIT
"""Environment variables: one list in the library, one table in the documents, one function that reads them."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
HEADER = ROOT / "dlprim/include/dlprim/runtime/environment.hpp"
# Read by the tests of the library, by what is called before it, and by Python alone.
ELSEWHERE = {
    "DLPRIM_TEST_DEVICE",
    "FAULTY_OPENCL",
    "PYTORCH_OCL_ADAPTERS",
    "PYTORCH_OCL_AS_CUDA",
    "PYTORCH_OCL_AUTOLOAD",
    "PYTORCH_OCL_HOLD_STREAMS",
    "PYTORCH_OCL_SHARED_LEAST",
    "PYTORCH_OCL_SHARED_MEMORY",
    "PYTORCH_OCL_SHARED_PIECE",
    "XDG_CACHE_HOME",
    "HOME",
    "LOCALAPPDATA",
}


def listed():
    table = HEADER.read_text().split("names[] = {")[1].split("};")[0]
    return set(re.findall(r'"(\w+)"', table))


def test_documents_have_every_variable_and_no_other():
    section = (ROOT / "docs/architecture.md").read_text().split("## Environment variables")[1]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    documented = set(re.findall(r"`((?:DLPRIM|OCL|PYTORCH_OCL|LOCAL)_\w+)`", "\n".join(rows)))
    assert documented - ELSEWHERE == listed()


def test_variables_are_read_in_one_place():
    sources = [p for folder in ("dlprim", "pytorch_ocl/csrc") for p in (ROOT / folder).rglob("*.[ch]pp")]
    assert len(sources) > 100
    reading = {
        p.relative_to(ROOT).as_posix(): set(re.findall(r'getenv\((?:std::string\()?"?([^")]+)', p.read_text()))
        for p in sources
    }
    assert {p: names - ELSEWHERE for p, names in reading.items() if names - ELSEWHERE} == {
        "dlprim/runtime/environment.cpp": {"names[variable.index("}
    }
