# SPDX-License-Identifier: MIT
"""torch.distributed between processes with ocl devices; distributed_jobs.py has what they run."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

JOBS = pathlib.Path(__file__).with_name("distributed_jobs.py")
EXAMPLE = JOBS.parents[2] / "examples/ddp.py"
pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="PyTorch without Gloo")


def finish(process, timeout=280):
    try:
        out, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, errors


def run(job, folder, **environment):
    """Runs two ranks of a job; returns their exit codes and what they printed. None may print an error but those that
    failed: what it printed then is in the assertion's message."""
    common = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TEST_FOLDER": str(folder), "WORLD_SIZE": "2",
              "OMP_NUM_THREADS": "1", **environment}
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", str(JOBS), job], env={**common, "RANK": str(rank)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    try:
        return [finish(process) for process in ranks]
    finally:
        for process in ranks:
            process.kill()


@pytest.mark.parametrize("job", ["reductions", "moves", "forms", "backends", "data_parallel", "sharded"])
def test_job(job, tmp_path):
    for code, _, errors in run(job, tmp_path):
        assert code == 0, errors


def test_debug_level_detail(tmp_path):
    for code, _, errors in run("moves", tmp_path, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        assert code == 0, errors


@pytest.mark.skipif(torch.ocl.device_count() < 2, reason="needs two ocl devices")
@pytest.mark.parametrize("job", ["reductions", "data_parallel"])
def test_ranks_on_different_devices(job, tmp_path):
    for code, _, errors in run(job, tmp_path, TEST_SPREAD="1"):
        assert code == 0, errors


def test_time_out_and_killed_rank(tmp_path):
    (code, out, errors), (killed, _, _) = run("failures", tmp_path)
    assert code == 0 and out.strip() == "reported", errors
    assert killed == -signal.SIGKILL


def test_exit_without_destroying_the_group(tmp_path):
    for code, out, errors in run("left_behind", tmp_path):
        assert code == 0 and out.strip() == "end", errors


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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    without, with_package = (int(subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, text=True,
                                                capture_output=True, env={**environment, "TEST_LOAD": load},
                                                timeout=100).stdout) for load in "01")
    assert without == with_package > 0


def test_example_by_torchrun():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(EXAMPLE),
               "--epochs", "1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200,
                            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout
