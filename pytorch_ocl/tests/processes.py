# SPDX-License-Identifier: MIT
"""Scripts in processes of their own, for tests."""

import atexit
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import warnings

# Processes are forked from one that has imported these, which takes seconds, and used nothing of them. It is another
# one than this, which has a device.
PRELOADED = ["torch", "torch.distributed.fsdp", "torch.distributed.checkpoint", "pytorch_ocl"]


def start_python(code, imports="import torch, pytorch_ocl", **environment):
    """Starts a script with the backend imported; `environment` is added to this process's."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", f"{imports}\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def run_python(code, fresh=False, imports=None, **environment):
    """What a script prints; it must succeed. It has the backend imported, and is forked where that makes no difference:
    not if it is to be `fresh`, because it tests how a process starts or ends, or has other `imports`."""
    if fresh or imports or not hasattr(os, "fork"):
        process = start_python(code, **({"imports": imports} if imports else {}), **environment)
    else:
        process = Forked(execute, code, **environment)
    try:
        out, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return out.strip()


def execute(code):
    exec(f"import torch, pytorch_ocl\n{code}", {"__name__": "__main__"})


class Forked:
    """Calls a module's function in a forked process, in this one's environment and `environment`. Used like Popen."""

    def __init__(self, function, *arguments, **environment):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self.folder = tempfile.TemporaryDirectory()
        self.files = [pathlib.Path(self.folder.name) / name for name in ("out", "errors")]
        everything = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
        self.process = context.Process(target=call, args=(function, arguments, everything, self.files))
        self.process.start()

    @property
    def returncode(self):
        return self.process.exitcode

    def communicate(self, timeout):
        self.process.join(timeout)
        out, errors = (file.read_text() if file.exists() else "" for file in self.files)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout, out, errors)
        return out, errors

    def kill(self):
        self.process.kill()
        self.process.join()
        self.folder.cleanup()


def call(function, arguments, environment, files):
    """In the new process."""
    import torch

    import pytorch_ocl  # noqa: F401

    for number, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    torch.ops.pytorch_ocl.reread_environment()
    torch.distributed.set_debug_level_from_env()
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", torch.get_num_threads())))
    warnings.simplefilter("ignore")
    function(*arguments)
    atexit._run_exitfuncs()  # what multiprocessing leaves out
