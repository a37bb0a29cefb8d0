# SPDX-License-Identifier: MIT
"""What tools/run_tests.py runs: the steps for CPUs, which need no GPU, the same as a whole, and those for a GPU."""

import collections
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OCLGRIND = "/usr/lib/oclgrind/liboclgrind-rt.so"
BUILD = "build/make"
CONFORMANCE = "dlprim/python/tests/test_onnx_backend.py"
# Drivers build kernels in a half to a third of the time when they do not optimize. That is for what tests our code;
# what Intel's optimizer and vectorizer make of it, the other steps see.
QUICK = {"DLPRIM_BUILD_OPTIONS": "-cl-opt-disable"}
DEVICES = {"Intel": {"OCL_VISIBLE_DEVICES": "Intel(R) OpenCL"}, "PoCL": {"OCL_VISIBLE_DEVICES": "Portable", **QUICK}}
# A device with the least of everything, on Intel's: small work-groups and local memory, no float64, no 64-bit atomics.
SMALL_DEVICE = {
    "DLPRIM_SIMULATE": "gpu=1,work_group=64,local_memory=16384,parameters=1024,fp64=0,fp16=0,"
    "int64_atomics=0,subgroups=0,allocation=1073741824,warp=8",
    **QUICK,
}
SMALL_DEVICE_TESTS = ":".join(
    """
    Device.* Queue.* Loss.* Compact.* Copy.* Concat.J* Scan.EveryK* Sort.* Index.Selects* Softmax.Inf*
    Fft.Columns Fft.Real*""".split()
)
# What Oclgrind, a thousand times slower than a device, can afford: small tests of each kind of kernel, none that makes
# an OpenCL call fail on purpose, which Oclgrind reports. Its simulated device has 16 KB of local memory.
SMALL_TESTS = ":".join(
    """
    *.Small */GemmCandidate.Small/* */Attention.Small*/tiled */Attention.Small*/products BatchNorm.E* BatchNorm.G*
    BatchNorm.H* Concat.*
    Conv.Depthwise Copy.* Ctc.* Distance.* Embedding.* Fill.*
    Foreach.Adds* Gemm.Integers GridSample.Identity* Index.Selects* Index.Gathers* Index.Ordered* Loss.L* Loss.M*
    Optimizer.Sgd* Pad.FoldIs* PointwiseOperation.* PointwiseReduce.Broadcasts* PointwiseReduce.Nothing* Pool.Dilated*
    Pool.NanWins Pool.Fractional* Pool.Unpooling* QuantizedBytes.* QuantizedConv.* Queue.CopiesAndFills
    Random.Phil* Random.Dropout* Range.*
    Reduce.EveryRow* Reduce.Strided* Rnn.*Small Scan.EveryDtype Softmax.EveryDtype Softmax.Infinities* Sort.* Status.*
    Upsample.Linear* Upsample.Nearest""".split()
)

# Kernels that GPUs alone take, most of them for NVIDIA's matrix units, which others emulate: slow to build, above all
# for PoCL, and the same code everywhere.
FOR_GPUS = ":".join(
    """
    */mma */wgmma* */tma */gather */gemv */GemmOfTensorMaps.* AttentionHalves.* AttentionSplit.* Conv.Gathers*
    Conv.RoundsToTf32* Conv.WeightsGradientOf* Gemm.TilesBetween* GemmRegisters.* Hopper.*
    Quantized.ProductByM*""".split()
)

# These make kernels of the families whose registers matter, the second ones others for Intel's GPUs than for the rest.
DUMPED_TESTS = "Softmax.Inf*:Conv.Small*:BatchNorm.E*:*/GemmCandidate.Small/tiled:Reduce.Strided*"
VENDORS_TESTS = "*/GemmCandidate.Small/gemv:*/Attention.SmallDtypes/tiled:AttentionTiles.Wide:Fft.Columns"

# counted: the output tells how many tests passed; otherwise the program is one test, and its exit code tells.
# cores: 1 where the step keeps no more than one busy, so that others run beside it; None: it has the machine to itself.
Step = collections.namedtuple("Step", "name command environment minutes counted cores", defaults=[True, None])


# Marks tests that only `make test-whole` runs.
NOT_WHOLE = ["-m", "not whole"]


def pytest_command(*arguments):
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]


def without(*names):
    """Arguments that leave tests of the backend out."""
    return [f"--ignore=pytorch_ocl/tests/test_{name}.py" for name in names]


def sharded(program, processes=2, part=1):
    """The GoogleTest program with its tests, or one test of `part`, dealt out to several processes, in more parts than
    these, so that all end about when the last one does."""
    parts = 4 * processes
    run = f"env GTEST_TOTAL_SHARDS={part * parts} GTEST_SHARD_INDEX=@ {program}"
    return ["bash", "-c", f"seq 0 {part} {part * parts - 1} | xargs -P {processes} -I@ {run}"]


def checks(whole):
    """Of the sources."""
    yield Step("project checks", pytest_command("tools/tests", "pytorch_ocl/codegen/tests"), {}, 10, cores=1)
    yield Step("documents", [sys.executable, "tools/operator_table.py", "--check"], {}, 2, False, cores=1)
    # The rest of the files by hand: they take ten times as long.
    if whole:
        yield Step("clang-tidy", [sys.executable, "tools/tidy.py", "dlprim/runtime"], {}, 6, False)


# What runs above the operators is the same on every device.
ABOVE = """
    adapters as_cuda beside cli compile compile_aot compile_combined compile_epilogues compile_flex_attention
    compile_limits compile_products compile_replay compile_shared_heads distributed driver_defects migration parallel
    pointwise_dtypes runtime_process vision""".split()


def on_platform(platform, environment, whole):
    """dlprim's and the backend's tests on an OpenCL platform."""
    tests = f"{BUILD}/dlprim/dlprim_tests"
    if platform != "Intel" and not whole:
        tests += f" '--gtest_filter={SMALL_TESTS}-{FOR_GPUS}'"
    settings, minutes = (environment, 60) if whole else ({**environment, **QUICK}, 25)
    yield Step(f"dlprim on {platform}", sharded(tests), settings, minutes)
    # With a thread that submits, as on GPUs; PoCL's go without.
    thread = {"DLPRIM_SUBMIT_THREAD": "1" if platform == "Intel" else "0"}
    above = [] if platform == "Intel" or whole else ABOVE
    marked = [] if whole else [*NOT_WHOLE, "--every", "3" if platform == "Intel" else "4"]
    backend = pytest_command("-n", "2", "--durations=20", "pytorch_ocl/tests", *without("opinfo", *above), *marked)
    yield Step(f"backend on {platform}", backend, {**settings, **thread}, 40)
    part = 1 if platform == "Intel" or whole else 3
    yield Step(f"networks on {platform}", sharded(f"{BUILD}/dlprim/dlprim_net_tests", part=part), environment, 10)
    yield Step(f"libtorch example on {platform}", ["examples/libtorch/run.sh"], environment, 5, False, cores=1)


def across_devices():
    files = ("parallel", "distributed", "runtime_streams", "runtime_device", "compile", "graphs_callables")
    tests = [f"pytorch_ocl/tests/test_{name}.py" for name in files]
    yield Step(
        "several devices",
        pytest_command(
            *tests, "-k", "test_parallel or different_devices or across_devices or two_devices or another_device"
        ),
        {**DEVICES["PoCL"], "OCL_VISIBLE_DEVICES": "Intel,Portable"},
        8,
        cores=1,
    )


def networks(whole):
    """dlprim without PyTorch: its Python module and program, and models from others."""
    intel = {**DEVICES["Intel"], "DLPRIM_BUILD": BUILD}
    python = pytest_command("-n", "2", "--dist", "loadfile", "dlprim/python/tests", f"--ignore={CONFORMANCE}")
    yield Step("Python module, command line, tutorials on Intel", python, intel, 10)
    for platform, environment in DEVICES.items():
        if whole or platform == "Intel":
            yield Step(f"ONNX conformance on {platform}", pytest_command("-n", "2", CONFORMANCE), environment, 12)
    fuzz = [sys.executable, "tools/fuzz.py", f"{BUILD}/dlprim/dlprim_fuzz", "--cases", "1000"]
    yield Step("mutated networks", fuzz, intel, 5, cores=1)


def hopper():
    """What its assembler makes of the kernels for Hopper's matrix units, in tiles that their cores choose."""
    dump = f"{BUILD}/kernels_hopper"
    script = (
        f"rm -rf {dump}; mkdir {dump}; {BUILD}/dlprim/dlprim_tests --gtest_brief=1 '--gtest_filter=Hopper.*'; "
        # Long ends of tiles, and gradients of the widest rows, spill some registers.
        # All of them take some minutes a core.
        f"{sys.executable} tools/check_kernels.py {dump} --architecture sm_90 --spills 750 --most 60 --processes 1"
    )
    environment = {"DLPRIM_CACHE_DISABLE": "1", "DLPRIM_SIMULATE": "hopper=1", "DLPRIM_KERNEL_DUMP": dump}
    environment |= {**DEVICES["Intel"], **QUICK}
    return Step("kernels for Hopper", ["bash", "-ec", script], environment, 15, False, cores=1)


def compiled_for(vendors, simulated, tests, most):
    """Commands that compile the tests' kernels, so many or all, for vendors' GPUs, in the form that they have on a
    simulated one."""
    dump = f"{BUILD}/kernels"
    limit = f" --most {most}" if most else ""
    return (
        f"rm -rf {dump}; mkdir {dump}; DLPRIM_SIMULATE=gpu=1,{simulated} DLPRIM_KERNEL_DUMP={dump} "
        f"{BUILD}/dlprim/dlprim_tests --gtest_brief=1 '--gtest_filter={tests}'; "
        f"{sys.executable} tools/check_kernels.py {dump} --vendor {vendors} --processes 1{limit}; "
    )


def other_machines(whole):
    """What can be known here of systems and devices that are not here."""
    system = {} if whole else {"ONLY": "dlprim.dir/runtime/"}  # where code for Windows is
    yield Step("compiling for Windows", ["tools/compile_mingw.sh"], system, 15, False)
    # What the compilers of GPUs make of kernels in the forms that GPUs get; a spill of registers fails.
    most = None if whole else 120
    script = compiled_for("amd nvidia intel", "amd=1,warp=64", DUMPED_TESTS, most)
    script += compiled_for("amd nvidia", "amd=1,warp=64", VENDORS_TESTS, most)
    script += compiled_for("intel", "warp=8", VENDORS_TESTS, most)
    plain = {**DEVICES["Intel"], **QUICK, "DLPRIM_CACHE_DISABLE": "1"}
    yield Step("kernels for other GPUs", ["bash", "-ec", script], plain, 15, False, cores=1)
    if shutil.which("ptxas"):
        yield hopper()
    small = sharded(f"{BUILD}/dlprim/dlprim_tests '--gtest_filter={SMALL_DEVICE_TESTS}'")
    yield Step("dlprim on a small device", small, {**DEVICES["Intel"], **SMALL_DEVICE}, 10)
    oclgrind = {
        "DLPRIM_OPENCL_LIBRARY": OCLGRIND,
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_CHECK_API": "1",
        "OCLGRIND_LOCAL_MEM_SIZE": "16384",
        "OCLGRIND_NUM_THREADS": "1",
    }
    command = [f"{BUILD}/dlprim/dlprim_tests", f"--gtest_filter={SMALL_TESTS}"]
    yield Step("dlprim under Oclgrind", command, oclgrind, 20, cores=1)


def operators(whole):
    # Workers, so that a crash is one failed test and not the end of the run.
    op_db = pytest_command("-n", "2", "pytorch_ocl/tests/test_opinfo.py")
    quick = {**DEVICES["Intel"], **QUICK}
    if whole:
        yield Step("op_db on Intel", op_db, DEVICES["Intel"], 60)
    else:
        yield Step("op_db on Intel", [*op_db, "-m", "sampled"], quick, 25)
        yield Step("op_db on Intel, optimized", [*op_db, "-m", "representative"], DEVICES["Intel"], 10)
    yield Step("op_db on PoCL", [*op_db, "-m", "representative"], DEVICES["PoCL"], 15)
    # The kernels that GPUs get, of every operator.
    gpu = {**quick, "DLPRIM_SIMULATE": "gpu=1"}
    yield Step("op_db in the form for GPUs", [*op_db, "-k", "test_operator and float32"], gpu, 15)
    sample = ["--all"] if whole else ["--most", "12"]
    upstream = [sys.executable, "tools/upstream.py", "--jobs", "2", *sample]
    yield Step("PyTorch's own tests", upstream, DEVICES["Intel"] if whole else quick, 1800 if whole else 15)


def rusticl(whole):
    """Mesa's, on a CPU. It has float64 where that is asked for; the small device tests without."""
    # Its front end is what GPUs share. llvmpipe behind it compiles in a third of the time when it does not optimize and
    # takes four work-items at a time.
    run = ["tools/rusticl.sh", "run"]
    # Mesa keeps what it has compiled itself, and takes longer for our binaries than for their source.
    environment = {
        "RUSTICL_FEATURES": "fp64",
        "GALLIVM_PERF": "nopt",
        "LP_NATIVE_VECTOR_WIDTH": "128",
        "DLPRIM_CACHE_DISABLE": "1",
    }
    tests = " ".join([*run, f"{BUILD}/dlprim/dlprim_tests"])
    yield Step("dlprim on rusticl", sharded(tests, part=1 if whole else 2), environment, 30)
    op_db = pytest_command("-n", "1", "pytorch_ocl/tests/test_opinfo.py", "-m", "representative")
    yield Step("op_db on rusticl", [*run, *op_db], environment, 20, cores=1)


def steps(whole=False):
    """What needs no GPU, in this order: quick and general first. What is not whole has to end within 45 minutes on
    two cores: a quarter of op_db; of the backend's tests with many cases each third, on PoCL each fourth, and no tests
    marked so; on PoCL small tests of each kind of kernel, a third of the networks and what is not above the operators;
    half of dlprim's on rusticl; ONNX's on Intel alone; a sample of kernels for other GPUs; no clang-tidy, nor Windows
    but for the runtime; kernels that Intel's compiler does not optimize but for networks, ONNX, dlprim's Python module
    and op_db's representatives."""
    yield from checks(whole)
    for platform, environment in DEVICES.items():
        yield from on_platform(platform, environment, whole)
    yield from across_devices()
    yield from networks(whole)
    yield from other_machines(whole)
    yield from operators(whole)
    yield from rusticl(whole)


def gpu_steps():
    """For a machine with a GPU: the devices are those that OCL_VISIBLE_DEVICES leaves, and
    tests beside CUDA run where the PyTorch at hand has it. PYTORCH_OCL_LARGE=<GiB> adds tensors of 2^31 elements."""
    yield Step("gpu: dlprim", sharded(f"{BUILD}/dlprim/dlprim_tests", 4), {}, 20)
    yield Step("gpu: networks", sharded(f"{BUILD}/dlprim/dlprim_net_tests", 4), {}, 10)
    yield Step("gpu: beside CUDA", pytest_command("pytorch_ocl/tests/test_beside.py"), {}, 15)
    alone = ["opinfo", "beside", "large"]
    yield Step("gpu: backend", pytest_command("-n", "4", "pytorch_ocl/tests", *without(*alone)), {}, 25)
    # One after the other: each may take all of the device's memory.
    yield Step("gpu: large tensors", pytest_command("pytorch_ocl/tests/test_large.py"), {}, 30)
    yield Step("gpu: op_db", pytest_command("-n", "8", "pytorch_ocl/tests/test_opinfo.py"), {}, 30)
    yield Step("gpu: libtorch example", ["examples/libtorch/run.sh"], {}, 5, False)
