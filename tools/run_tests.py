#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every test of the project, after `make test` has set everything up, and adds up the counts.

run_tests.py [--list] [STEP...]: only the steps whose names contain one of the words. The last line is
"N passed, N failed, N skipped"; the exit code is 0 when nothing failed.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "pytorch_ocl/python/pytorch_ocl"))
import _runtime  # noqa: E402

OCLGRIND = "/usr/lib/oclgrind/liboclgrind-rt.so"
BUILD = "build/make"
# PoCL builds kernels in half the time when it does not optimize; these must not get into the user's cache.
DEVICES = {"Intel": {"OCL_VISIBLE_DEVICES": "Intel"},
           "PoCL": {"OCL_VISIBLE_DEVICES": "Portable", "POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable",
                    "DLPRIM_CACHE_DIR": str(ROOT / "build/pocl_cache")}}
# A device with the least of everything, on Intel's: small work-groups and local memory, no float64, no 64-bit atomics.
SMALL_DEVICE = {"DLPRIM_SIMULATE": "gpu=1,work_group=64,local_memory=16384,parameters=1024,fp64=0,fp16=0,"
                                   "int64_atomics=0,subgroups=0,allocation=1073741824,warp=8",
                "DLPRIM_CACHE_DIR": str(ROOT / "build/small_cache")}
SMALL_DEVICE_TESTS = "Device.*:Queue.*:Loss.*:Compact.*:Copy.*:Concat.J*:Sort.*:Index.Selects*:Softmax.Inf*:" \
                     "Fft.Columns:Fft.Real*"
# What Oclgrind, a thousand times slower than a device, can afford: small tests of each kind of kernel, none that makes
# an OpenCL call fail on purpose, which it reports. The simulated device has 16 KB of local memory.
OCLGRIND_TESTS = ":".join("""
    *.Small */GemmCandidate.Small/* */Attention.Small*/tiled BatchNorm.E* BatchNorm.G* BatchNorm.H* Concat.* Conv.Depthwise
    Copy.* Ctc.* Distance.* Embedding.* Fill.*
    Foreach.Adds* Gemm.Integers GridSample.Identity* Index.Selects* Index.Gathers* Index.Ordered* Loss.L* Loss.M*
    Optimizer.Sgd* Pad.FoldIs* PointwiseOperation.* PointwiseReduce.Broadcasts* PointwiseReduce.Nothing* Pool.Dilated*
    Pool.NanWins Pool.Fractional* Pool.Unpooling* Queue.CopiesAndFills Random.Phil* Random.Dropout* Range.*
    Reduce.EveryRow* Reduce.Strided* Rnn.*Small Scan.EveryDtype Softmax.EveryDtype Softmax.Infinities* Sort.* Status.*
    Upsample.Linear* Upsample.Nearest""".split())

# These make kernels of the families whose registers matter.
DUMPED_TESTS = "Softmax.Inf*:Conv.Small*:Attention.Small*:BatchNorm.E*:Gemm.Small*:Reduce.Strided*"

# counted: the output tells how many tests passed; otherwise the program is one test, and its exit code tells.
Step = collections.namedtuple("Step", "name command environment minutes counted", defaults=[True])


def pytest_command(*arguments):
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]


def sharded(program, processes=2):
    """The GoogleTest program with its tests dealt out to several processes."""
    script = (f"for i in $(seq 0 {processes - 1}); do GTEST_TOTAL_SHARDS={processes} GTEST_SHARD_INDEX=$i {program} & "
              "pids+=($!); done; code=0; for pid in ${pids[@]}; do wait $pid || code=$?; done; exit $code")
    return ["bash", "-c", script]


def steps():
    """Everything that is run, in this order: quick and general first."""
    yield Step("project checks", pytest_command("tools/tests", "pytorch_ocl/codegen/tests"), {}, 10)
    yield Step("documents", [sys.executable, "tools/operator_table.py", "--check"], {}, 2, False)
    for platform, environment in DEVICES.items():
        # What is for GPUs only is slow to build, above all for PoCL, and the same code everywhere.
        chosen = " '--gtest_filter=-*/mma:*/wgmma:*/gemv'" if platform == "PoCL" else ""
        yield Step(f"dlprim on {platform}", sharded(f"{BUILD}/dlprim/dlprim_tests{chosen}"), environment, 15)
        # With a thread that submits, as on GPUs; PoCL's go without.
        thread = {"DLPRIM_SUBMIT_THREAD": "1" if platform == "Intel" else "0"}
        # What runs above the operators is the same on every device.
        above = [] if platform == "Intel" else ["adapters", "as_cuda", "distributed"]
        yield Step(f"backend on {platform}", pytest_command("-n", "2", "pytorch_ocl/tests", *(
            f"--ignore=pytorch_ocl/tests/test_{name}.py" for name in ("opinfo", *above))), {**environment, **thread}, 25)
        yield Step(f"networks on {platform}", sharded(f"{BUILD}/dlprim/dlprim_net_tests"), environment, 10)
        yield Step(f"libtorch example on {platform}", ["examples/libtorch/run.sh"], environment, 5, False)
    yield Step("several devices", pytest_command(
        "pytorch_ocl/tests/test_parallel.py", "pytorch_ocl/tests/test_distributed.py", "-k",
        "test_parallel or different_devices"), {**DEVICES["PoCL"], "OCL_VISIBLE_DEVICES": "Intel,Portable"}, 8)
    intel = {**DEVICES["Intel"], "DLPRIM_BUILD": BUILD}
    conformance = "dlprim/python/tests/test_onnx_backend.py"
    yield Step("Python module, command line, tutorials on Intel", pytest_command(
        "-n", "2", "--dist", "loadfile", "dlprim/python/tests", f"--ignore={conformance}"), intel, 10)
    for platform, environment in DEVICES.items():
        yield Step(f"ONNX conformance on {platform}", pytest_command("-n", "2", conformance), environment, 12)
    yield Step("mutated networks", [sys.executable, "tools/fuzz.py", f"{BUILD}/dlprim/dlprim_fuzz", "--cases", "1000"], intel, 5)
    yield Step("compiling for Windows", ["tools/compile_mingw.sh"], {}, 15, False)
    # What the compilers of GPUs make of kernels in the forms that GPUs get; a spill of registers fails.
    dump = f"{BUILD}/kernels"
    yield Step("kernels for other GPUs", ["bash", "-ec", f"rm -rf {dump}; mkdir {dump}; {BUILD}/dlprim/dlprim_tests "
               f"--gtest_brief=1 '--gtest_filter={DUMPED_TESTS}'; {sys.executable} tools/check_kernels.py {dump}"],
               {**DEVICES["Intel"], "DLPRIM_CACHE_DISABLE": "1", "DLPRIM_SIMULATE": "gpu=1,warp=64",
                "DLPRIM_KERNEL_DUMP": dump}, 10, False)
    yield Step("dlprim on a small device", sharded(
        f"{BUILD}/dlprim/dlprim_tests '--gtest_filter={SMALL_DEVICE_TESTS}'"), {**DEVICES["Intel"], **SMALL_DEVICE}, 10)
    yield Step("dlprim under Oclgrind", [f"{BUILD}/dlprim/dlprim_tests", f"--gtest_filter={OCLGRIND_TESTS}"],
               {"DLPRIM_OPENCL_LIBRARY": OCLGRIND, "OCLGRIND_DATA_RACES": "1", "OCLGRIND_CHECK_API": "1",
                "OCLGRIND_LOCAL_MEM_SIZE": "16384"}, 10)
    # Workers, so that a crash is one failed test and not the end of the run.
    yield Step("op_db on Intel", pytest_command("-n", "2", "pytorch_ocl/tests/test_opinfo.py"),
               DEVICES["Intel"], 25)
    yield Step("op_db on PoCL", pytest_command("-n", "2", "pytorch_ocl/tests/test_opinfo.py", "-m", "representative"),
               DEVICES["PoCL"], 15)


def counts(output):
    """Counter of passed, failed and skipped from the closing lines of pytest or GoogleTest."""
    total = collections.Counter()
    last_line = output.rstrip().rsplit("\n", 1)[-1]
    for number, outcome in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)\b", last_line):
        total[{"error": "failed", "errors": "failed", "xfailed": "passed"}.get(outcome, outcome)] += int(number)
    for outcome, number in re.findall(r"^\[  (PASSED|FAILED|SKIPPED) +\] (\d+) tests?[.,]", output, re.M):
        total[outcome.lower()] += int(number)
    return total


def run(step):
    """Runs a step, showing its output; returns its counts. Ending badly without a failed test is a failure."""
    print(f"\n== {step.name}", flush=True)
    start, output = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "oclgrind.log"
        environment = {**os.environ, **step.environment, "OCLGRIND_LOG": str(log), "PYTHON": sys.executable}
        environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"  # its cmake and ninja
        command = ["timeout", "--kill-after=10", str(60 * step.minutes), *step.command]
        try:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, errors="replace",
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            print(error)
            return collections.Counter(failed=1)
        for line in process.stdout:
            output.append(line)
            if not re.match(r"\[( RUN      |       OK |---+)\]", line):
                print(line, end="", flush=True)
        code = process.wait()
        findings = log.read_text().strip() if log.exists() else ""
    total = counts("".join(output)) if step.counted else collections.Counter(passed=int(code == 0))
    if findings:
        print(f"Oclgrind found:\n{findings[:4000]}")
        total["failed"] += 1
    if code and not total["failed"]:
        print(f"{step.name} ended with exit code {code}{' (out of time)' if code in (124, 137) else ''}")
        total["failed"] += 1
    if not sum(total.values()):
        print(f"{step.name} ran no test")
        total["failed"] += 1
    print(f"== {step.name}: {summary(total)} in {time.monotonic() - start:.0f} s", flush=True)
    return total


def summary(total):
    return ", ".join(f"{total[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only print the steps")
    parser.add_argument("words", nargs="*", metavar="STEP")
    options = parser.parse_args()
    chosen = [s for s in steps() if not options.words or any(w.lower() in s.name.lower() for w in options.words)]
    if options.list:
        print("\n".join(f"{step.name}: {' '.join(step.command)}" for step in chosen))
        return 0
    _runtime.prepare()  # lists drivers installed by pip, for programs without Python too
    totals = {step.name: run(step) for step in chosen}
    print()
    for name, total in totals.items():
        print(f"{name:32} {summary(total)}")
    total = sum(totals.values(), collections.Counter())
    print(f"\n{summary(total)}", flush=True)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
