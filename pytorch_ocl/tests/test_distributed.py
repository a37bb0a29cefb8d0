# SPDX-License-Identifier: MIT
"""torch.distributed between processes with ocl devices; distributed_jobs.py has what they run."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import distributed_jobs
import pytest
import torch
import torch.distributed as dist
from processes import Forked, start_python

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/ddp.py"
pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="PyTorch without Gloo")


def finish(process, timeout=280):
    try:
        out, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, errors


# Shared memory for all that it can take, in pieces so small that tests see many.
SHARED = {"PYTORCH_OCL_SHARED_LEAST": "0", "PYTORCH_OCL_SHARED_PIECE": "65536"}
# As on GPUs: wait() holds back streams, not the host.
HELD = {**SHARED, "PYTORCH_OCL_HOLD_STREAMS": "1"}
# By kernels that wait for each other.
WINDOWS = {**HELD, "PYTORCH_OCL_SHARED_MEMORY": "windows"}
IDS = ["sockets", "host", "streams", "windows"]


def run(job, folder, count=2, **environment):
    """Runs the ranks of a job; returns their exit codes and what they printed. None may print an error but those that
    failed: what it printed then is in the assertion's message."""
    common = {"TEST_FOLDER": str(folder), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1", **environment}
    if job in ("leaves", "left_behind", "small_after_large", "two_gpus"):  # how an interpreter ends, or begins
        code = f"distributed_jobs.run({job!r})"
        ranks = [
            start_python(code, "import pytorch_ocl, distributed_jobs", RANK=str(rank), **common)
            for rank in range(count)
        ]
    else:
        ranks = [Forked(distributed_jobs.run, job, RANK=str(rank), **common) for rank in range(count)]
    try:
        return [finish(process) for process in ranks]
    finally:
        for process in ranks:
            process.kill()


@pytest.mark.parametrize("job", ["reductions", "moves", "forms", "backends", "data_parallel", "sharded"])
def test_job(job, tmp_path):
    for code, _, errors in run(job, tmp_path):
        assert code == 0, errors


# In memory of the host, and in windows that devices reach (on CPUs that is the host's, but the path is GPUs').
@pytest.mark.parametrize("way", ["host", "windows"])
@pytest.mark.parametrize("count", [2, 3])
def test_shared_memory(count, way, tmp_path):
    small = {**SHARED, "PYTORCH_OCL_SHARED_PIECE": "4096", "PYTORCH_OCL_SHARED_MEMORY": way}
    for code, _, errors in run("shared", tmp_path, count, **small):
        assert code == 0, errors


# With the host waiting for collectives, as on CPUs, and with streams held back, as on GPUs; of the first way, long jobs
# are left to the whole run.
WAYS = [
    pytest.param(job, way, id=f"{job}-{name}", marks=[pytest.mark.whole] if long and name == "host" else [])
    for job, long in [("forms", 0), ("backends", 0), ("data_parallel", 1), ("sharded", 1), ("fifty_steps", 1)]
    for name, way in [("host", SHARED), ("streams", HELD), ("windows", WINDOWS)]
]


@pytest.mark.parametrize("job, way", WAYS)
def test_job_through_shared_memory(job, way, tmp_path):
    for code, _, errors in run(job, tmp_path, **way):
        assert code == 0, errors


@pytest.mark.parametrize("way", ["direct", "staged"])
def test_copies_as_devices_with_memory_of_their_own(way, tmp_path):
    for code, _, errors in run("forms", tmp_path, PYTORCH_OCL_SHARED_MEMORY=way, **SHARED):
        assert code == 0, errors


def test_fifty_steps_through_sockets(tmp_path):
    for code, _, errors in run("fifty_steps", tmp_path, PYTORCH_OCL_SHARED_MEMORY="0"):
        assert code == 0, errors


# Windows have no pieces; ranks that share a GPU have no windows.
@pytest.mark.parametrize("way, warnings", [("host", 1), ("windows", 0)])
def test_ranks_with_different_pieces(way, warnings, tmp_path):
    environment = {"PYTORCH_OCL_SHARED_LEAST": "0", "PYTORCH_OCL_SHARED_MEMORY": way}
    (_, _, first), (_, _, second) = results = run("sockets_after_all", tmp_path, **environment)
    assert [(code, out.strip()) for code, out, _ in results] == [(0, "summed")] * 2, (first, second)
    on_cpu = torch.ocl.get_device_properties().type == "cpu"
    assert first.count("not through shared memory: ranks with different") == (warnings if on_cpu else 1)
    assert "shared memory" not in second


def test_windows_that_one_rank_does_not_want(tmp_path):
    for code, out, errors in run("without_windows", tmp_path, **WINDOWS):
        assert code == 0 and out.strip() == "summed", errors


@pytest.mark.parametrize("ways", ["windows windows", "windows host", "host windows"])
def test_small_collectives_first(ways, tmp_path):
    for code, out, errors in run("small_first", tmp_path, TEST_WAYS=ways):
        assert code == 0 and out.strip() == "summed", errors


def test_small_collectives_after_large_ones(tmp_path):
    for code, out, errors in run("small_after_large", tmp_path):
        assert code == 0 and out.strip() == "reduced" and "shared memory" not in errors, errors


def test_sums_of_two_gpus(tmp_path):
    for code, out, errors in run("two_gpus", tmp_path):
        assert code == 0 and out.strip() == "added", errors


@pytest.mark.parametrize("way", [{}, SHARED, HELD, WINDOWS], ids=IDS)
def test_tensors_that_are_broadcast_together(way, tmp_path):
    for code, out, errors in run("coalesced", tmp_path, **way):
        assert code == 0 and out.strip() == "broadcast", errors


@pytest.mark.parametrize("way", [HELD, WINDOWS], ids=IDS[2:])
def test_tensors_that_only_collectives_hold(way, tmp_path):
    for code, out, errors in run("dropped", tmp_path, **way):
        assert code == 0 and out.strip() == "dropped", errors


@pytest.mark.parametrize("way", [SHARED, HELD, WINDOWS], ids=IDS[1:])
def test_calls_that_do_not_match(way, tmp_path):
    for code, out, errors in run("unlike_calls", tmp_path, **way):
        assert code == 0 and out.strip() == "reported", errors


@pytest.mark.parametrize("way", [{"PYTORCH_OCL_SHARED_MEMORY": "0"}, SHARED, HELD, WINDOWS], ids=IDS)
def test_killed_rank_is_noticed_soon(way, tmp_path):
    (code, out, errors), (killed, _, _) = run("killed", tmp_path, **way)
    assert code == 0 and out.strip(), errors
    assert killed == -signal.SIGKILL
    assert not list(pathlib.Path("/dev/shm").glob("pytorch_ocl_*"))


@pytest.mark.parametrize("way", [{"PYTORCH_OCL_SHARED_MEMORY": "0"}, SHARED, HELD, WINDOWS], ids=IDS)
def test_leaving_with_collectives_under_way(way, tmp_path):
    for code, _, errors in run("leaves", tmp_path, **way):
        assert code == 0, errors


@pytest.mark.parametrize("way", [SHARED, HELD, WINDOWS], ids=IDS[1:])
def test_abort(way, tmp_path):
    for code, out, errors in run("aborted", tmp_path, **way):
        assert code == 0 and out.strip() == "reported", errors


def test_debug_level_detail(tmp_path):
    for code, _, errors in run("moves", tmp_path, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        assert code == 0, errors


# Not windows: their futures are complete at once, so that callbacks run in the caller.
@pytest.mark.parametrize("way", [{"PYTORCH_OCL_SHARED_MEMORY": "0"}, SHARED, HELD], ids=IDS[:3])
def test_callbacks_that_wait(way, tmp_path):
    for code, _, errors in run("waiting_callbacks", tmp_path, **way):
        assert code == 0, errors


@pytest.mark.parametrize("way", [{"PYTORCH_OCL_SHARED_MEMORY": "0"}, SHARED, HELD, WINDOWS], ids=IDS)
def test_group_dropped_by_a_callback(way, tmp_path):
    for code, _, errors in run("group_dropped_by_a_callback", tmp_path, **way):
        assert code == 0, errors


@pytest.mark.skipif(torch.ocl.device_count() < 2, reason="needs two ocl devices")
@pytest.mark.parametrize("shared", [{}, SHARED])
@pytest.mark.parametrize("job", ["reductions", "data_parallel"])
def test_ranks_on_different_devices(job, shared, tmp_path):
    for code, _, errors in run(job, tmp_path, TEST_SPREAD="1", **shared):
        assert code == 0, errors


@pytest.mark.parametrize("shared", [{}, SHARED, HELD, WINDOWS], ids=IDS)
def test_time_out_and_killed_rank(shared, tmp_path):
    (code, out, errors), (killed, _, _) = run("failures", tmp_path, **shared)
    assert code == 0 and out.strip() == "reported", errors
    assert killed == -signal.SIGKILL


@pytest.mark.parametrize("shared", [{}, SHARED, HELD, WINDOWS], ids=IDS)
def test_exit_without_destroying_the_group(shared, tmp_path):
    for code, out, errors in run("left_behind", tmp_path, **shared):
        assert code == 0 and out.strip() == "end", errors


@pytest.mark.parametrize("shared", [{}, SHARED, HELD, WINDOWS], ids=IDS)
def test_graphs_have_no_collectives(shared, tmp_path):
    for code, _, errors in run("captured", tmp_path, **shared):
        assert code == 0, errors


def test_programs_for_the_cpu_start_no_second_gloo():
    code = """if True:
        import os, tempfile, time, torch, torch.distributed as dist
        dist.init_process_group(init_method=f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
        dist.all_reduce(torch.ones(3))
        if int(os.environ["TEST_LOAD"]):
            import pytorch_ocl
        dist.destroy_process_group()
        dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
        dist.all_reduce(torch.ones(3))
        names = lambda: [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
        time.sleep(1)  # the first group's threads end
        print(sum("gloo" in name for name in names()))"""
    # Where PyTorch has CUDA, its default serves no tensors of the CPU.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    without, with_package = (
        int(
            subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code],
                check=True,
                text=True,
                capture_output=True,
                env={**environment, "TEST_LOAD": load},
                timeout=100,
            ).stdout
        )
        for load in "01"
    )
    assert without == with_package > 0


def torchrun(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # else ranks started again may find the dead ones' addresses
    }
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_example_by_torchrun():
    code, out, errors = finish(torchrun(str(EXAMPLE), "--epochs", "1"), 200)
    assert code == 0 and "accuracy" in out, errors


def children(process):
    return pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()


@pytest.mark.whole
def test_torchrun_restarts_from_a_checkpoint(tmp_path):
    checkpoint = tmp_path / "state.pt"
    options = ["--epochs", "4", "--checkpoint", str(checkpoint)]
    process = torchrun("--max-restarts", "1", "--monitor-interval", "0.1", str(EXAMPLE), *options)
    end = time.monotonic() + 200
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    if process.poll() is None:
        os.kill(int(children(process.pid)[-1]), signal.SIGKILL)
    code, out, errors = finish(process, 250)
    assert code == 0, errors
    assert "goes on after epoch" in out and "epoch 4" in out, out
