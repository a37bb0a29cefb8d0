# SPDX-License-Identifier: MIT
"""Texts of errors are put together where they are thrown, not on the way of calls that succeed."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("dlprim/primitives", "dlprim/include/dlprim/primitives", "dlprim/runtime", "pytorch_ocl/csrc/ops")
# A variable that holds the beginning of an error's text: "[operator] ".
EARLY = re.compile(r'^\s*(?:const )?(?:std::string|auto) (\w+) = (?:std::string\()?"\[[\w ]*(?:\] ?)?"', re.M)


def early_texts(text):
    return [match[1] for match in EARLY.finditer(text)]


def test_the_check_finds_what_it_is_for():
    assert early_texts('  const std::string head = std::string("[") + op + "] expected ";\n') == ["head"]
    assert early_texts('  auto prefix = "[index] " + name;\n') == ["prefix"]
    assert early_texts('  throw Error(std::string("[") + op + "] expected");\n') == []
    assert early_texts('  const auto text = [&] { return "["; };\n') == []


def test_no_text_is_made_before_a_check_fails():
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.[ch]pp")]
    assert len(files) > 100
    found = {file.relative_to(ROOT).as_posix(): early_texts(file.read_text()) for file in files}
    assert not {file: names for file, names in found.items() if names}
