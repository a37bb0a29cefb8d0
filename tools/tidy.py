#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy (.clang-tidy) over the C++ files of a build, and exits with 1 when it finds something.

tidy.py [--build FOLDER] [PATH...]: only the files below one of the paths; without, everything that the build compiles.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import sources

CONFIGURATION = sources.ROOT / ".clang-tidy"


def commands(build):
    """What compiles each source of a build, also where CMake compiles several as one (in a folder Unity)."""
    for each in json.loads((build / "compile_commands.json").read_text()):
        unit = pathlib.Path(each["directory"], each["file"])
        parts = re.findall(r'#include "(.*)"', unit.read_text()) if unit.parent.name == "Unity" else [each["file"]]
        yield from ({**each, "file": part, "command": each["command"].replace(each["file"], part)} for part in parts)


def compiled(database, paths):
    """The project's files below one of the paths that this database of commands compiles."""
    found = {pathlib.Path(each["directory"], each["file"]).resolve() for each in database}
    ours = {(sources.ROOT / path).resolve() for path in sources.tracked_files()}
    wanted = [pathlib.Path(path).resolve() for path in paths]
    return sorted(file for file in found & ours if any(file.is_relative_to(path) for path in wanted))


def tidy(file, database, program):
    """(whether nothing was found, what clang-tidy prints) for one file; `database`: a folder with compile commands."""
    command = [program, f"--config-file={CONFIGURATION}", "-p", str(database), "--quiet", str(file)]
    result = subprocess.run(command, text=True, capture_output=True)
    # Without a finding, standard error has no more than counts of what was left out.
    return result.returncode == 0, result.stdout or (result.stderr if result.returncode else "")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=sources.ROOT / "build/make", metavar="FOLDER")
    parser.add_argument("paths", nargs="*", default=[sources.ROOT], metavar="PATH")
    options = parser.parse_args(arguments)
    program = shutil.which("clang-tidy", path=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not program:
        sys.exit("clang-tidy was not found: pip install clang-tidy")
    if not (options.build / "compile_commands.json").exists():
        sys.exit(f"{options.build} has no compile_commands.json: build there first, or name a folder with --build")
    database = list(commands(options.build))
    files = compiled(database, options.paths)
    if not files:
        sys.exit("the build compiles no file there")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps(database))
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for fine, output in pool.map(lambda file: tidy(file, folder, program), files):
                bad += not fine
                print(output, end="", flush=True)
    print(f"clang-tidy: {len(files)} files, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
