# SPDX-License-Identifier: MIT
"""Scripts in processes of their own, for tests."""

import os
import subprocess
import sys


def start_python(code, imports="import torch, pytorch_ocl", **environment):
    """Starts a script with the backend imported; `environment` is added to this process's."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", f"{imports}\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def run_python(code, **environment):
    """What a script prints; it must succeed."""
    process = start_python(code, **environment)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out.strip()
