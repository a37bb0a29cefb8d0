#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Feeds mutated networks to dlprim: ONNX and JSON files with flipped bits, cut off, with wrong shapes, cycles, huge
sizes.

fuzz.py PROGRAM [--cases N] [--first N]: PROGRAM is dlprim_fuzz of a build, best one made with
-DDLPRIM_SANITIZE=address,undefined. Seeds are the program's own networks and, where the onnx package is installed, its
test models. Case N is always the same file (dlprim_fuzz N 1 --write FILE). A crash, a hang, memory over the limit or an
exception of another kind than dlprim's is a failure; the last line is "N passed, N failed".
"""

import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import resource
import subprocess
import sys

DEVICE_MEBIBYTES = 256  # what networks may allocate on the device
HOST_GIBIBYTES = 6  # address space of a process that runs OpenCL on the CPU, too


def environment():
    return {
        **os.environ,
        "DLPRIM_MEMORY_LIMIT": str(DEVICE_MEBIBYTES),
        # Drivers are not ours: what they never free is no finding.
        "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:hard_rss_limit_mb={1024 * HOST_GIBIBYTES}:"
        + os.environ.get("ASAN_OPTIONS", ""),
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def limit_memory():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (HOST_GIBIBYTES << 30, HOST_GIBIBYTES << 30))


def is_sanitized(program):
    return b"__asan_init" in pathlib.Path(program).read_bytes()


def corpus():
    """The folder of the onnx package's test models, or nothing."""
    spec = importlib.util.find_spec("onnx")
    folder = pathlib.Path(spec.origin).parent / "backend/test/data" if spec else None
    return ["--corpus", str(folder)] if folder and folder.exists() else []


def run_block(program, first, count, options):
    """Runs cases one process at a time, a new one after each that ends badly; returns {case: what happened}."""
    failures, done = {}, 0
    while done < count:
        process = subprocess.run(
            [program, str(first + done), str(count - done), *options],
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            preexec_fn=None if is_sanitized(program) else limit_memory,
        )
        cases = re.split(r"^case (?=\d+ )", process.stdout, flags=re.M)[1:]
        for case in cases:
            if re.search(r"^(wrong|hang)", case, re.M):
                failures[int(case.split()[0])] = case
        if process.returncode in (0, 1):
            break
        if not cases:
            raise RuntimeError(f"{program} did not start:\n{process.stdout}")
        last = int(cases[-1].split()[0])
        failures[last] = f"{cases[-1][:6000]}\nexit code {process.returncode}"
        done = last - first + 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--block", type=int, default=250, help="cases of one process")
    parser.add_argument("--seconds", type=int, default=30, help="a case that takes longer hangs")
    o = parser.parse_args()
    options = ["--seconds", str(o.seconds), *corpus()]
    failures = {}
    blocks = [(n, min(o.block, o.first + o.cases - n)) for n in range(o.first, o.first + o.cases, o.block)]
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        runs = [pool.submit(run_block, os.path.abspath(o.program), first, count, options) for first, count in blocks]
        for number, block in enumerate(concurrent.futures.as_completed(runs), 1):
            failures.update(block.result())
            print(f"{number}/{len(blocks)} blocks, {len(failures)} failures", file=sys.stderr)
    for case, text in sorted(failures.items()):
        print(f"== case {case}\n{text}")
    print(f"{o.cases - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
