#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles kernels for GPUs that are not here, and lists registers, local memory and spills of each.

check_kernels.py FOLDER [--architecture NAME...] [--all]: FOLDER holds programs as DLPRIM_KERNEL_DUMP writes them. AMD's
architectures need clang (CLANG, default clang-19) and libclc (Debian: libclc-15), NVIDIA's ptxas besides, and are left
out where it is not found. With --all every program is listed, else those with spills. The exit code is 1 when a program
does not compile or a kernel spills registers.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CLANG = os.environ.get("CLANG", "clang-19")
LIBRARIES = pathlib.Path("/usr/lib/clc")  # of OpenCL C's functions, without which every call would count as unknown
AMD = ("gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
NVIDIA = ("sm_70", "sm_80", "sm_90")
FIELDS = {
    "registers": r"\.vgpr_count: +(\d+)",
    "local": r"\.group_segment_fixed_size: (\d+)",
    "spills": r"\.vgpr_spill_count: (\d+)",
}


def front_end(program, options, target, library):
    """The command that compiles OpenCL C as the drivers do."""
    return [
        CLANG,
        "-x",
        "cl",
        "-cl-std=CL1.2",
        "-Xclang",
        "-finclude-default-header",
        "-O3",
        "-w",
        "-nogpulib",
        "-target",
        *target,
        "-Xclang",
        "-mlink-builtin-bitcode",
        "-Xclang",
        str(LIBRARIES / library),
        *options,
        "-S",
        str(program),
        "-o",
    ]


def output_of(command):
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr.strip().split("\n")[0] or f"{command[0]} failed")
    return process.stdout + process.stderr


def compile_amd(program, options, architecture, folder):
    library = "gfx906-amdgcn-mesa-mesa3d.bc"
    assembly = folder / f"{program.stem}-{architecture}.s"
    output_of([*front_end(program, options, ("amdgcn-amd-amdhsa", f"-mcpu={architecture}"), library), str(assembly)])
    text = assembly.read_text()
    return {name: int(re.search(pattern, text)[1]) for name, pattern in FIELDS.items()}


def compile_nvidia(program, options, architecture, folder):
    ptx = folder / f"{program.stem}-{architecture}.ptx"
    output_of(
        [
            *front_end(program, options, ("nvptx64-nvidia-nvcl", f"-march={architecture}"), "nvptx64--nvidiacl.bc"),
            str(ptx),
        ]
    )
    listing = output_of(
        [
            "ptxas",
            "-v",
            f"-arch={architecture if architecture >= 'sm_75' else 'sm_75'}",
            str(ptx),
            "-o",
            str(folder / "out.cubin"),
        ]
    )
    number = lambda pattern: int((re.search(pattern, listing) or [0, 0])[1])  # noqa: E731
    return {
        "registers": number(r"Used (\d+) registers"),
        "local": number(r"(\d+) bytes smem"),
        "spills": number(r"(\d+) bytes spill stores"),
    }


def check(program, architecture, folder):
    """(program, architecture, {"registers", "local", "spills"} or an error's text)."""
    # What the device at hand has and the one compiled for need not have is left out.
    options = [o for o in program.read_text().split("\n", 1)[0].split() if re.match(r"-D(?!FP16|NV_PTX|CPU_DEVICE)", o)]
    compile_for = compile_amd if architecture.startswith("gfx") else compile_nvidia
    try:
        return program.stem, architecture, compile_for(program, options, architecture, folder)
    except RuntimeError as error:
        return program.stem, architecture, str(error)


def architectures():
    return [*AMD, *(NVIDIA if shutil.which("ptxas") else ())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--architecture", nargs="+", default=architectures())
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    jobs = [(p, a) for p in sorted(options.folder.glob("*.cl")) for a in options.architecture]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, architecture, result in pool.map(lambda job: check(*job, pathlib.Path(folder)), jobs):
            bad = isinstance(result, str) or result["spills"] > 0
            wrong += bad
            if bad or options.all:
                text = result if isinstance(result, str) else ", ".join(f"{k} {v}" for k, v in result.items())
                print(f"{name} {architecture}: {text}", flush=True)
    print(f"{len(jobs)} compiled for {len(options.architecture)} architectures, {wrong} wrong")
    return 1 if wrong or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
