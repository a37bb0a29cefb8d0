# SPDX-License-Identifier: MIT
"""What needs a process of its own: loading, forks, the program cache, fallback modes, several processes."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest
from processes import run_python, start_python

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
IN_A_FORK = """
import os
def in_a_fork(function):
    if os.fork() == 0:
        try: print(function(), flush=True)
        except RuntimeError as error: print('RuntimeError', error, flush=True)
        os._exit(0)
    os.wait()
"""


@forks
@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(1, device='ocl')",
        "x + 1",
        "x.cpu()",
        "torch.ocl.synchronize()",
        "torch.ocl.current_device()",
        "torch.ones(3).pin_memory()",
        "torch.ocl.Stream()",
        "torch.ocl.memory_allocated()",
    ],
)
def test_use_in_a_fork_is_reported(use):
    out = run_python(
        IN_A_FORK + "x = torch.ones(1, device='ocl'); x.item()\n"
        f"in_a_fork(lambda: {use})\nprint(x.item(), torch.ocl._is_in_bad_fork())"
    )
    first, last = out.splitlines()
    assert first.startswith("RuntimeError Cannot re-initialize OpenCL in forked subprocess")
    assert "'spawn'" in first and last == "1.0 False"


@forks
def test_what_a_fork_may_do():
    out = run_python(
        IN_A_FORK + "x = torch.ones(1, device='ocl'); x.item()\n"
        "in_a_fork(lambda: (torch.ocl._is_in_bad_fork(), torch.ocl.is_initialized()))\n"
        "in_a_fork(lambda: torch.ones(2).sum().item())"
    )
    assert out == "(True, False)\n2.0"
    before = "torch.ocl.is_available(); torch.ocl.device_count(); torch.manual_seed(1)\n"
    assert run_python(IN_A_FORK + before + "in_a_fork(lambda: torch.ones(1, device='ocl').item())") == "1.0"


@forks
def test_a_child_forked_while_the_device_works_ends_at_once():
    out = run_python(
        "import os, sys, time\nx = torch.ones(1 << 20, device='ocl', requires_grad=True)\n(x * 2).sum().backward()\n"
        "for _ in range(50): x.grad.mul_(1.5)\n"
        "child = os.fork()\nif child == 0: sys.exit(3)\nstart = time.monotonic()\n"
        "status = os.waitpid(child, 0)[1]\nprint(os.waitstatus_to_exitcode(status), time.monotonic() - start < 8)",
        fresh=True,
    )
    assert out == "3 True"


def test_multiprocessing_queue(tmp_path):
    script = tmp_path / "queue_test.py"
    script.write_text(
        "import torch, pytorch_ocl\nimport torch.multiprocessing as mp\n"
        "def work(inward, outward):\n    x = inward.get()\n    outward.put((x * 2, str(x.device)))\n"
        "    inward.get()  # lives until the result was received\n"
        "if __name__ == '__main__':\n"
        "    context = mp.get_context('spawn')\n    there, back = context.Queue(), context.Queue()\n"
        "    process = context.Process(target=work, args=(there, back))\n    process.start()\n"
        "    there.put(torch.arange(3, device='ocl'))\n    result, device = back.get(timeout=240)\n"
        "    there.put(None)\n"
        "    process.join()\n    print(result.tolist(), result.device, device, process.exitcode)\n"
    )
    out = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", fresh=True)
    assert out == "[0, 2, 4] ocl:0 ocl:0 0"


def test_a_process_that_ends_waits_for_kernels_being_built():
    # What is registered first runs last. As on a GPU: kernels are built while the program goes on.
    out = run_python(
        "x = torch.randn(8, 8, device='ocl')\ny = torch.sort(x)[0].half() @ x.half()\nz = x.cumsum(0).softmax(1)\n"
        "print(torch.ops.pytorch_ocl.builds_under_way())",
        imports="import atexit, sys\n"
        "atexit.register(lambda: print(sys.modules['torch'].ops.pytorch_ocl.builds_under_way()))\n"
        "import torch, pytorch_ocl",
        DLPRIM_SUBMIT_THREAD="1",
        DLPRIM_CACHE_DISABLE="1",
    )
    assert out.split() == ["True", "False"]


def test_a_process_that_ends_waits_for_drivers_that_compile_what_they_run(tmp_path):
    out = run_python(
        "x = torch.randn(8, 8, device='ocl')\ny = torch.sort(x)[0].half() @ x.half()\nz = x.cumsum(0).softmax(1)\n"
        "print('ends')",
        fresh=True,
        DLPRIM_CACHE_DISABLE="1",
        POCL_CACHE_DIR=str(tmp_path),
        MESA_SHADER_CACHE_DIR=str(tmp_path),
    )
    assert out == "ends"


def test_backward_threads_give_back_objects_before_the_interpreter_ends():
    # The thread of the device holds the callback when backward() has returned, and needs the interpreter to drop it.
    out = run_python(
        "import os, time\n"
        "class Late:\n"
        "    def __call__(self): pass\n"
        "    def __del__(self): time.sleep(0.2); os.write(1, b'given back')\n"
        "x = torch.ones(3, device='ocl', requires_grad=True)\ny = x * 2\n"
        "y.register_hook(lambda _: torch.autograd.Variable._execution_engine.queue_callback(Late()))\n"
        "y.sum().backward()\n",
        fresh=True,
    )
    assert out == "given back"


@pytest.mark.skipif(os.name == "nt", reason="the system has no such signals")
@pytest.mark.parametrize("thread", ["0", "1"])
def test_a_loop_of_long_work_can_be_interrupted(thread):
    # All of it takes minutes; what is in flight must end soon after the signal, and the device goes on working.
    process = start_python(
        "x = torch.rand(400, 400, device='ocl') / 400; (x @ x).cpu()\n"
        "print('ready', flush=True)\n"
        "try:\n    for _ in iter(int, 1): y = x @ x  # endless\n"
        "except KeyboardInterrupt: torch.ocl.synchronize(); print((x + 1).isfinite().all().item())",
        DLPRIM_SUBMIT_THREAD=thread,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    out, errors = process.communicate(timeout=100)
    assert out.strip() == "True", errors
    assert time.monotonic() - start < 20


def loader_reads_vendors():
    """Whether the OpenCL loader takes drivers from OCL_ICD_VENDORS, as ocl-icd and Khronos' do."""
    return run_python("print(torch.ocl.device_count())", OCL_ICD_VENDORS="/nonexistent") == "0"


@pytest.mark.parametrize(
    "environment",
    [
        {"DLPRIM_OPENCL_LIBRARY": "/nonexistent/libOpenCL.so"},
        {"DLPRIM_OPENCL_LIBRARY": "/lib/x86_64-linux-gnu/libc.so.6"},  # a library that is not OpenCL's
        {"OCL_ICD_VENDORS": "/nonexistent"},
        {"OCL_VISIBLE_DEVICES": "nosuch"},
    ],
)
def test_no_device_is_a_clear_error_and_no_crash(environment):
    if "OCL_ICD_VENDORS" in environment and not loader_reads_vendors():
        pytest.skip("the OpenCL loader does not read OCL_ICD_VENDORS")
    out = run_python(
        "print(torch.ocl.is_available(), torch.ocl.device_count(), torch.backends.ocl.is_available())\n"
        "print(pytorch_ocl.unavailable_reason())\n"
        "torch.manual_seed(1); torch.ocl.manual_seed_all(1); torch.ones(3).sum().backward\n"
        "for use in (lambda: torch.ones(3, device='ocl'), torch.ocl.current_device, torch.ocl.synchronize,\n"
        "            torch.ocl.init, torch.ocl.get_device_name, lambda: torch.ocl.set_device(0),\n"
        "            torch.ocl.memory_allocated, lambda: torch.ones(3).to('ocl'), torch.ocl.Stream):\n"
        "    try: use()\n"
        "    except RuntimeError as error: print('penCL' in str(error))\n",
        **environment,
    )
    lines = out.splitlines()
    assert lines[0] == "False 0 False" and "OpenCL" in lines[1] and lines[2:] == ["True"] * 9


def test_a_driver_that_does_not_load_leaves_the_others(tmp_path):
    if not loader_reads_vendors():
        pytest.skip("the OpenCL loader does not read OCL_ICD_VENDORS")
    (tmp_path / "broken.icd").write_text("/nonexistent/libbroken.so\n")
    (tmp_path / "wrong.icd").write_text("/lib/x86_64-linux-gnu/libm.so.6\n")
    assert run_python("print(torch.ocl.device_count())", OCL_ICD_VENDORS=str(tmp_path)) == "0"
    vendors = os.environ.get("OCL_ICD_VENDORS")
    if vendors and os.path.isdir(vendors):
        for name in os.listdir(vendors):
            with open(os.path.join(vendors, name), encoding="utf-8") as file:
                (tmp_path / name).write_text(file.read())
        out = run_python("print(torch.ones(2, device='ocl').sum().item())", OCL_ICD_VENDORS=str(tmp_path))
        assert out == "2.0"


def test_a_backend_that_fails_to_load_does_not_break_torch(tmp_path):
    out = run_python("""
import sys, warnings
for name in [n for n in sys.modules if n.startswith('pytorch_ocl')]: del sys.modules[name]
del torch.ocl
import pathlib
exists = pathlib.Path.exists
pathlib.Path.exists = lambda self: False if 'pytorch_ocl_torch' in self.name else exists(self)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    import pytorch_ocl
import pytorch_ocl_autoload; pytorch_ocl_autoload.autoload()
print(pytorch_ocl.unavailable_reason())
print([str(w.message) for w in caught if w.category is RuntimeWarning])""")
    reason, warned = out.splitlines()
    assert reason.startswith("ImportError: pytorch_ocl was not built for torch")
    assert warned == str([f"pytorch_ocl could not be loaded: {reason}"])


def test_fallback_is_counted_and_can_be_forbidden():
    code = (
        "x = torch.eye(3, device='ocl')\n"
        "try:\n  torch.linalg.eigvals(x); print(sum('eig' in name for name in torch.ocl.fallbacks()))\n"
        "except NotImplementedError as e: print('eig' in str(e) and 'PYTORCH_OCL_FALLBACK' in str(e))\n"
        "torch.ocl.reset_fallbacks(); print(torch.ocl.fallbacks())"
    )
    assert run_python(code, PYTORCH_OCL_FALLBACK="") == "1\n{}"
    assert run_python(code, PYTORCH_OCL_FALLBACK="error") == "True\n{}"


def test_fallback_warns_once_with_the_name():
    code = (
        "import warnings\nx = torch.eye(3, device='ocl')\n"
        "with warnings.catch_warnings(record=True) as seen:\n  warnings.simplefilter('always')\n"
        "  for _ in range(3): torch.linalg.eigvals(x)\n"
        "print(sum('aten::' in str(w.message) and 'eig' in str(w.message) for w in seen))"
    )
    assert run_python(code, PYTORCH_OCL_FALLBACK="") == "1"


SOFTMAX = "x = torch.randn(50, device='ocl'); print(torch.softmax(x.sin(), 0).sum().item())"


def test_processes_build_the_same_kernels_at_once(tmp_path):
    processes = [start_python(SOFTMAX, DLPRIM_CACHE_DIR=str(tmp_path)) for _ in range(3)]
    for process in processes:
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert abs(float(out) - 1) < 1e-5
    with sqlite3.connect(tmp_path / "programs.db") as database:
        assert database.execute("SELECT COUNT(*) FROM programs").fetchone()[0] >= 2


# Steps that all processes begin at the same moment: bytes of a file count who has come. CPUs build kernels at once.
IN_STEP = """
import mmap, os, sys, time
together = mmap.mmap(os.open(os.environ['TEST_MEETING'], os.O_RDWR), 4096)
def meet(step):
    together[3 * step + int(os.environ['RANK'])] = 1
    deadline = time.monotonic() + 100
    while together[3 * step : 3 * step + 3] != bytes([1, 1, 1]):
        if time.monotonic() > deadline: sys.exit('alone')
        time.sleep(0)
x = torch.zeros(3, device='ocl')
"""
SAME_SOURCES = """
for step in range(40):
    meet(step)
    source = '__kernel void add%d(__global float* x) { x[get_global_id(0)] += %d; }' % (step, step)
    torch.ocl.compile_kernel(source, f'add{step}')(x)
print(x.tolist())
"""
SAME_OPERATORS = """
names = 'abs acos asin atan ceil cos cosh erf exp expm1 floor log log1p neg round sin sinh sqrt tan tanh'.split()
for step, name in enumerate(names):
    meet(step)
    getattr(torch, name)(x)
print(x.tolist())
"""


def in_step(code, folder, **environment):
    """What three processes print, and write on stderr in all."""
    meeting = folder / "meeting"
    meeting.write_bytes(bytes(4096))
    environment |= {"DLPRIM_CACHE_DIR": str(folder), "POCL_CACHE_DIR": str(folder), "TEST_MEETING": str(meeting)}
    processes = [start_python(IN_STEP + code, RANK=str(rank), **environment) for rank in range(3)]
    try:
        texts = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    errors = "".join(text[1] for text in texts)
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    return {text[0].strip() for text in texts}, errors


def test_processes_build_the_same_source_at_one_moment(tmp_path):
    """PoCL's folders: some 3 in 100 of these kernels would not build without a second attempt."""
    assert in_step(SAME_SOURCES, tmp_path)[0] == {"[780.0, 780.0, 780.0]"}


def test_a_kernel_that_processes_want_at_one_moment_is_built_by_one(tmp_path):
    printed, errors = in_step(SAME_OPERATORS, tmp_path, DLPRIM_DEBUG_BUILD="1", DLPRIM_SUBMIT_THREAD="0")
    assert printed == {"[0.0, 0.0, 0.0]"}
    lines = [line.split() for line in errors.splitlines() if "to build pointwise" in line]
    kernels = [line[5] for line in lines if line[-3:] != ["by", "another", "process"]]
    assert len(kernels) == len(set(kernels)) and len(lines) - len(kernels) >= 2 * 20, errors


def garbage(file):
    file.write_bytes(b"x" * 5000)


def truncated(file):
    file.write_bytes(file.read_bytes()[:5000])


def empty(file):
    file.write_bytes(b"")


def other_table(file):
    file.unlink()
    sqlite3.connect(file).execute("CREATE TABLE programs(a INTEGER)")


def damaged_binaries(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE programs SET binary = zeroblob(1000)")


def directory(file):
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [garbage, truncated, empty, other_table, damaged_binaries, directory])
def test_a_damaged_program_cache_is_replaced(tmp_path, damage):
    expected = run_python("print(torch.ones(3, device='ocl').exp().tolist())", DLPRIM_CACHE_DIR=str(tmp_path))
    with sqlite3.connect(tmp_path / "programs.db") as database:  # all in one file
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(tmp_path / "programs.db")
    for _ in range(2):
        out = run_python("print(torch.ones(3, device='ocl').exp().tolist())", DLPRIM_CACHE_DIR=str(tmp_path))
        assert out == expected


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null"])
def test_a_cache_that_cannot_be_written(folder):
    assert run_python("print(torch.ones(3, device='ocl').sum().item())", DLPRIM_CACHE_DIR=folder) == "3.0"
    assert run_python("print(torch.ones(3, device='ocl').sum().item())", DLPRIM_CACHE_DISABLE="1") == "3.0"


def test_what_is_built_is_told_on_request():
    errors = {}
    for wanted in ("", "off", "1"):
        process = start_python(
            "torch.ones(3, device='ocl').sin().cpu()",
            DLPRIM_CACHE_DISABLE="yes",
            **({"DLPRIM_DEBUG_BUILD": wanted} if wanted else {}),
        )
        errors[wanted] = process.communicate(timeout=300)[1]
        assert process.returncode == 0, errors
    assert "s to build pointwise_sin" in errors["1"] and "to build" not in errors[""] + errors["off"]


FIRST_STEP = """
import torch.nn as nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
x, labels = torch.randn(4, 3, 8, 8), torch.arange(4)
losses = []
for device in ("cpu", "ocl"):
    torch.manual_seed(1)
    for layer in net:
        if hasattr(layer, "reset_parameters"): layer.to("cpu").reset_parameters()
    net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
print(abs(losses[0] - losses[1]) < 1e-4)
"""


@pytest.mark.skipif(os.name == "nt", reason="programs are compiled by this process alone there")
@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_first_step_waits_for_kernels_that_others_build(processes, tmp_path):
    process = start_python(
        FIRST_STEP,
        DLPRIM_SUBMIT_THREAD="1",
        DLPRIM_COMPILERS=processes,
        DLPRIM_CACHE_DIR=str(tmp_path),
        DLPRIM_DEBUG_BUILD="1",
    )
    out, errors = process.communicate(timeout=300)
    assert out.strip() == "True", errors
    assert ("by another process" in errors) == (processes != "0")


def test_a_process_ends_while_kernels_are_built(tmp_path):
    out = run_python(
        "x = torch.rand(64, 64, device='ocl')\ny = [x @ x, x.softmax(0), x.sin(), x.cumsum(0)]\nprint('ends')",
        fresh=True,
        DLPRIM_SUBMIT_THREAD="1",
        DLPRIM_CACHE_DIR=str(tmp_path),
    )
    assert out == "ends"


HANGING = r"""
#include <stdlib.h>
#include <unistd.h>
int clIcdGetPlatformIDsKHR(unsigned entries, void** platforms, unsigned* count) {
  if (getpid() != atoi(getenv("STARTED"))) for (;;) pause();
  if (count) *count = 0;
  return -1001;  // CL_PLATFORM_NOT_FOUND_KHR
}
void* clGetExtensionFunctionAddress(const char* name) { return (void*)&clIcdGetPlatformIDsKHR; }
"""


@pytest.mark.whole
def test_a_driver_that_hangs_in_forked_children(tmp_path):
    """Devices are listed in a child where they are only counted. One that does not answer is given up."""
    compiler = shutil.which("cc") or shutil.which("g++")
    if not compiler or not loader_reads_vendors():
        pytest.skip("needs a C compiler, and a loader that reads OCL_ICD_VENDORS")
    (tmp_path / "hanging.c").write_text(HANGING)
    library = tmp_path / "libhanging.so"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", library, tmp_path / "hanging.c"], check=True)
    (tmp_path / "hanging.icd").write_text(f"{library}\n")
    program = "import os; os.environ['STARTED'] = str(os.getpid()); print(torch.ocl.device_count())"
    start = time.monotonic()
    assert run_python(program, OCL_ICD_VENDORS=str(tmp_path)) == "0"
    assert 55 < time.monotonic() - start < 120  # the limit is a minute
