#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds wheels of the Python module dlprim that need of the system glibc and libgcc alone (make wheels).

One for each Python named, by default the one that runs this, and beside them the wheel's program `dlprim` as one file
that runs where there are these two and an OpenCL driver. Protobuf is compiled from the sources of Debian's release,
of which the compiler protoc must be at hand, PCRE2 and SQLite are linked statically, and HDF5 is left out: parameters
in .h5 files are refused by name. docs/releasing.md describes releases."""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile

from wheels import MANYLINUX, REQUIREMENTS, ROOT, call, repair, say

PROTOBUF = "http://deb.debian.org/debian/pool/main/p/protobuf/protobuf_3.21.12.orig.tar.gz"
BUILDERS = [*REQUIREMENTS, "nanobind>=2", "ninja"]
SHA256 = "930c2c3b5ecc6c9c12615cf5ad93f1cd6e12d0aba862b572e076259970ac3a53"


def protobuf_sources(cache):
    """The folder of protobuf's sources, downloaded when it is not there; complete or absent."""
    folder = cache / "protobuf"
    if folder.exists():
        return folder
    say(f"downloading {PROTOBUF}")
    archive, part = cache / "protobuf.tar.gz", cache / "protobuf.part"
    with urllib.request.urlopen(PROTOBUF, timeout=120) as response:
        archive.write_bytes(response.read())
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{archive} is not the archive that is expected (SHA-256)")
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(part)  # the hash vouches for the names
    next(part.iterdir()).rename(folder)
    part.rmdir()
    archive.unlink()
    return folder


def call_with_progress(*command):
    """Runs a command and prints which files it compiles; all that it prints is shown when it fails."""
    command, lines = [str(c) for c in command], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        for line in run.stdout:
            lines.append(line)
            if step := re.search(r"\[\d+/\d+\] .*", line):
                print(step[0], flush=True)
    if run.returncode:
        sys.exit(f"{''.join(lines)}\n{' '.join(command)} failed with {run.returncode}")


def with_builders(python, folder):
    """This Python as it is; for another one an environment of its own."""
    if python == sys.executable:
        return python
    call(python, "-m", "venv", folder)
    call(folder / "bin/python", "-m", "pip", "install", "-q", *BUILDERS)
    return folder / "bin/python"


def build(python, cache):
    """The wheel for a Python, with the tag of this machine's Linux."""
    version = call(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    say(f"compiling dlprim for Python {version}")
    python = with_builders(python, cache / f"environment{version}")
    made = cache / f"python{version}"
    shutil.rmtree(made, ignore_errors=True)
    defines = {
        "DLPRIM_MANYLINUX": "ON" if MANYLINUX else "OFF",
        "DLPRIM_PROTOBUF_SOURCE": protobuf_sources(cache),
        "DLPRIM_HDF5": "OFF",
    }
    settings = [f"--config-settings=cmake.define.{key}={value}" for key, value in defines.items()]
    # A folder that an isolated build has made is emptied by the next one.
    settings.append(f"--config-settings=build-dir={cache / f'build{version}'}")
    command = [python, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", *settings]
    call_with_progress(*command, "-w", made, ROOT / "dlprim/python")
    return next(made.glob("dlprim-*.whl"))


def extract_program(wheel, output):
    """Takes the program `dlprim` out of a wheel: dlprim-<version>-<platform>. Exits where there is none."""
    name, version, *_, platform = wheel.stem.split("-")
    file = output / f"{name}-{version}-{platform.removeprefix('manylinux_2_28_')}"
    with zipfile.ZipFile(wheel) as archive:
        if "dlprim/dlprim" not in archive.namelist():
            sys.exit(f"{wheel} has no program: are CLI11 and stb installed?")
        file.write_bytes(archive.read("dlprim/dlprim"))
    file.chmod(0o755)
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="EXE", help="default: this one")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "dist", help="folder (default: dist)")
    parser.add_argument(
        "--cache", type=pathlib.Path, default=ROOT / "build/wheels/dlprim", help="folder of what is built"
    )
    parser.add_argument("--install", action="store_true", help="first install what this needs into this Python")
    options = parser.parse_args()
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if options.install:
        call(sys.executable, "-m", "pip", "install", "-q", *BUILDERS)
    if "3.21." not in (found := call("protoc", "--version").strip()):
        sys.exit(f"protoc must be of the series 3.21, as the sources are; got {found}")
    cache = options.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    output = options.output.resolve()
    for python in options.python:
        wheel = repair(build(python, cache), output, "manylinux_2_28_x86_64" if MANYLINUX else None)
        say(f"{wheel} ({wheel.stat().st_size / 2**20:.1f} MiB)")
    program = extract_program(wheel, output)
    say(f"{program} ({program.stat().st_size / 2**20:.1f} MiB)")


if __name__ == "__main__":
    main()
