#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Formats C++ (clang-format) and Python (ruff), and mends what ruff's linter can mend.

style.py [--check]: with --check, changes nothing, and exits with 1 where something is to do. The programs are those of
tools/style.txt, for other versions format otherwise.
"""

import argparse
import importlib.metadata
import pathlib
import subprocess
import sys

import sources

VERSIONS = pathlib.Path(__file__).with_name("style.txt")
CPP = {".cpp", ".hpp", ".h"}
PYTHON = {".py", ".pyi"}


def other_versions(text):
    """What is not installed in the version that a line name==version of the text asks for."""
    for line in text.split():
        name, wanted = line.split("==")
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "none"
        if found != wanted:
            yield f"expected {name} {wanted}, found {found}"


def commands(files, check):
    cpp = [str(file) for file in files if file.suffix in CPP]
    python = [str(file) for file in files if file.suffix in PYTHON]
    bin = pathlib.Path(sys.executable).parent
    if cpp:
        yield [bin / "clang-format", *(["--dry-run", "-Werror"] if check else ["-i"]), *cpp]
    if python:
        # The linter first: what it mends is formatted then.
        yield [bin / "ruff", "check", "--quiet", *([] if check else ["--fix"]), *python]
        yield [bin / "ruff", "format", "--quiet", *(["--diff"] if check else []), *python]


def main(arguments=None, root=sources.ROOT):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    if others := list(other_versions(VERSIONS.read_text())):
        print("\n".join(others), f"\npip install -r {VERSIONS.relative_to(sources.ROOT)}", sep="")
        return 1
    files = [file for file in sources.tracked_files(root) if not (root / file).is_symlink()]
    return max([subprocess.run(each, cwd=root).returncode != 0 for each in commands(files, options.check)], default=0)


if __name__ == "__main__":
    sys.exit(main())
