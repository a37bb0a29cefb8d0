#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles kernels for GPUs that are not here, and lists registers, local memory and spills of each.

check_kernels.py FOLDER [--vendor NAME...] [--architecture NAME...] [--all]: FOLDER holds programs as DLPRIM_KERNEL_DUMP
writes them. AMD's architectures need clang (CLANG, default clang-19) and libclc (Debian: libclc-15), NVIDIA's ptxas
besides, Intel's its own compiler (tools/intel_compiler.sh), and are left out where that is not found. Those that name
a target of their own, such as sm_90a, are assembled as dlprim/runtime/program.cpp has the driver do it; those with
NVIDIA's assembly are compiled for its architecture alone, those of float64 not for Intel's.
With --all every program is listed, else those that are wrong. The exit code is 1 when a program does not compile, a
kernel spills more than --spills bytes or takes more registers or local memory than its launch can have, or the
assembler makes matrix products wait for one another.
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
INTEL = ("tgllp", "acm-g10", "pvc")  # the last where it is named: kernels for 32 lanes of 64 bytes spill there
VENDORS = ("amd", "nvidia", "intel")
OCLOC = pathlib.Path(__file__).resolve().parents[1] / "build/intel_compiler/usr/bin/ocloc"
# Local memory of a compute unit of Hopper, which keeps 1 KB for each work-group, and what a kernel can declare of it.
SHARED = 228 << 10
LARGEST = (227 << 10) - 16
FIELDS = {
    "registers": r"\.vgpr_count: +(\d+)",
    "local": r"\.group_segment_fixed_size: (\d+)",
    "spills": r"\.vgpr_spill_count: (\d+)",
}


def front_end(program, options, target, library):
    """The command that compiles OpenCL C as the drivers do."""
    language = ["-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-Dasm=__asm__"]
    linked = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(LIBRARIES / library)]
    return [CLANG, *language, "-O3", "-w", "-nogpulib", "-target", *target, *linked, *options, "-S", str(program), "-o"]


def output_of(command, environment=None):
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if process.returncode:
        said = (process.stderr.strip() + "\n" + process.stdout.strip()).strip().split("\n")
        raise RuntimeError(next((line for line in said if "error:" in line), said[0]) or f"{command[0]} failed")
    return process.stdout + process.stderr


def compile_amd(program, options, architecture, folder):
    library = "gfx906-amdgcn-mesa-mesa3d.bc"
    assembly = folder / f"{program.stem}-{architecture}.s"
    output_of([*front_end(program, options, ("amdgcn-amd-amdhsa", f"-mcpu={architecture}"), library), str(assembly)])
    text = assembly.read_text()
    return {name: int(re.search(pattern, text)[1]) for name, pattern in FIELDS.items()}


def work_items(text):
    """The size that a kernel requires of its work-groups, as its LLVM code says it; None."""
    node = re.search(r"!reqd_work_group_size !(\d+)", text)
    numbers = node and re.search(rf"^!{node[1]} = (.*)", text, re.M)[1]
    return [int(n) for n in re.findall(r"i32 (\d+)", numbers)] if node else None


def retarget(ptx, size, target):
    """PTX with the size of work-groups, as NVIDIA's compiler writes it, changed as program.cpp does for `target`."""
    head, body = ptx.split("\n{", 1)
    if target:
        name, *resident = target.split()
        head = re.sub(r"\.target sm_\w+", f".target {name}", head, count=1)
        if resident or "setmaxnreg" in body:
            head += f"\n.minnctapersm {resident[0] if resident else 1}"
        body = body.replace("//@", "")
    head += "\n.reqntid {}, {}, {}".format(*size) if size else ""
    return head + "\n{" + body


def wrong_on_hopper(listing, found, size, resident):
    """Why a kernel cannot run there as its host code wants it, or would wait where it need not; None."""
    serialized = re.search(r"\(C75(?!08)\d\d\).*", listing)  # C7508: setmaxnreg is left out
    if serialized:
        return serialized[0]
    warps = 65536 // (32 * -(-found["registers"] // 8) * 8) // 4 * 4
    if size and resident * -(-size[0] * size[1] * size[2] // 32) > warps:
        return f"{found['registers']} registers for {resident} work-groups of {size}"
    if found["local"] > LARGEST or resident * (found["local"] + 1024) > SHARED:
        return f"{found['local']} bytes of local memory for {resident} work-groups"
    return None


def assemble(ptx, architecture):
    """What ptxas says of a file, and the numbers in it."""
    listing = output_of(["ptxas", "-v", f"-arch={architecture}", str(ptx), "-o", str(ptx.with_suffix(".cubin"))])
    fields = {"registers": r"Used (\d+) registers", "local": r"(\d+) bytes smem", "spills": r"(\d+) bytes spill stores"}
    return listing, {name: int((re.search(pattern, listing) or [0, 0])[1]) for name, pattern in fields.items()}


def compile_nvidia(program, options, architecture, folder, target=""):
    ptx, code = (folder / f"{program.stem}-{architecture}.{suffix}" for suffix in ("ptx", "ll"))
    machine = ["nvptx64-nvidia-nvcl", f"-march={architecture}", "-Xclang", "-target-feature", "-Xclang", "+ptx80"]
    output_of([*front_end(program, ["-emit-llvm", *options], machine, "nvptx64--nvidiacl.bc"), str(code)])
    output_of([CLANG, "-x", "ir", "-O3", "-w", "-target", *machine, "-S", str(code), "-o", str(ptx)])
    size = work_items(code.read_text())
    ptx.write_text(retarget(ptx.read_text(), size, target))
    name = target.split()[0] if target else architecture if architecture >= "sm_75" else "sm_75"
    listing, found = assemble(ptx, name)
    if found["spills"] and not target:
        # The assembler spills some registers by choice, so that more work-groups are resident: what has to be spilled
        # is what it spills where one is enough.
        head, body = ptx.read_text().split("\n{", 1)
        ptx.write_text(head + "\n.minnctapersm 1\n{" + body)
        found["spills"] = assemble(ptx, name)[1]["spills"]
    resident = int((target.split() + ["1", "1"])[1]) if target else 1
    wrong = wrong_on_hopper(listing, found, size, resident) if target else None
    if wrong:
        raise RuntimeError(wrong)
    return found


def run_ocloc(*arguments):
    libraries = next(OCLOC.parents[1].glob("lib/*-linux-gnu"))
    return output_of([str(OCLOC), *arguments], {**os.environ, "LD_LIBRARY_PATH": str(libraries)})


def numbers_of(listing, token):
    """What the first entry of a number in the patch list of Intel's binaries holds, as numbers of 32 bits; None."""
    found = re.search(rf"Token {token}\n\s*4 Size \d+\n\s*Hex ([0-9a-f ]+)", listing)
    values = bytes(int(value, 16) for value in found[1].split()) if found else b""
    return [int.from_bytes(values[i : i + 4], "little") for i in range(0, len(values), 4)] or None


def read_intel(listing):
    """Registers of a thread, bytes of local memory and of a thread's spills, as `ocloc disasm` lists a kernel's entries
    15 (local memory), 18 (scratch memory, which holds no arrays) and 23 (what it runs with)."""
    environment, local, scratch = (numbers_of(listing, token) for token in (23, 15, 18))
    if not environment or len(environment) < 21:
        raise RuntimeError("the compiler writes another format than that of Debian 12's")
    return {"registers": environment[20], "local": local[1] if local else 0, "spills": scratch[1] if scratch else 0}


def compile_intel(program, options, architecture, folder):
    name = f"{program.stem}-{architecture}"
    built = (
        "-file",
        str(program),
        "-device",
        architecture,
        "-output_no_suffix",
        "-output",
        name,
        "-out_dir",
        str(folder),
    )
    run_ocloc("compile", *built, "-options", " ".join(["-cl-std=CL1.2", "-w", *options]))
    listing = folder / f"{name}.listing"
    run_ocloc("disasm", "-file", str(folder / name), "-device", architecture, "-dump", str(listing))
    kernels = (listing / "PTM.txt").read_text().split("KernelBinaryHeader")[1:]
    found = [read_intel(kernel) for kernel in kernels]
    return {key: max(kernel[key] for kernel in found) for key in found[0]}


def options_of(program):
    """The options in a program's first line, and the target that it wants."""
    with program.open() as file:
        options, _, target = file.readline().removeprefix("//").partition("target:")
    return options.split(), target.strip()


def serves(program, architecture):
    """Whether the program is for the architecture. One with NVIDIA's assembly names the one, and Intel's
    have no float64 but for the last."""
    if architecture in INTEL and re.search(r"^#define \w+ (double\d*|f64|c128)$", program.read_text(), re.M):
        return False
    named = [o.partition("=")[2] for o in options_of(program)[0] if o.startswith("-DNV_PTX=")]
    return not named or architecture == f"sm_{named[0]}"


def check(program, architecture, folder):
    """(program, architecture, {"registers", "local", "spills"} or an error's text)."""
    # What the device at hand has and the one compiled for need not have is left out.
    options, target = options_of(program)
    options = [o for o in options if re.match(r"-D(?!FP16|CPU_DEVICE)", o)]
    try:
        if architecture in INTEL:
            options = [o for o in options if o != "-DFP64"]
            return program.stem, architecture, compile_intel(program, options, architecture, folder)
        if architecture.startswith("gfx"):
            return program.stem, architecture, compile_amd(program, options, architecture, folder)
        options += ["-DFP16"] if target else []
        return program.stem, architecture, compile_nvidia(program, options, architecture, folder, target)
    except RuntimeError as error:
        return program.stem, architecture, str(error)


def architectures(vendors):
    """Those of the vendors whose compilers are here."""
    here = {"amd": AMD, "nvidia": NVIDIA if shutil.which("ptxas") else (), "intel": INTEL[:2] if OCLOC.exists() else ()}
    return [architecture for vendor in vendors for architecture in here[vendor]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--vendor", nargs="+", default=VENDORS, choices=VENDORS, help="(default: all)")
    parser.add_argument("--architecture", nargs="+", metavar="NAME", help="(default: all whose compilers are here)")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--spills", type=int, default=0, metavar="BYTES", help="that pass")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), metavar="N", help="compilers at a time")
    parser.add_argument("--most", type=int, metavar="N", help="compiled, spread over all (default: all)")
    options = parser.parse_args()
    options.architecture = options.architecture or architectures(options.vendor)
    programs = sorted(options.folder.glob("*.cl"))
    if options.most:
        programs = programs[:: max(1, len(programs) // options.most)]
    jobs = [(p, a) for p in programs for a in options.architecture if serves(p, a)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        for name, architecture, result in pool.map(lambda job: check(*job, pathlib.Path(folder)), jobs):
            bad = isinstance(result, str) or result["spills"] > options.spills
            wrong += bad
            if bad or options.all:
                text = result if isinstance(result, str) else ", ".join(f"{k} {v}" for k, v in result.items())
                print(f"{name} {architecture}: {text}", flush=True)
    print(f"{len(jobs)} compiled for {len(options.architecture)} architectures, {wrong} wrong")
    # None at all is right where the vendor's compiler is not here.
    return 1 if wrong or not programs or (options.architecture and not jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
