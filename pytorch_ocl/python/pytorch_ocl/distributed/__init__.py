# SPDX-License-Identifier: MIT
"""torch.distributed where "ocl" is the accelerator."""
import sys

import torch

# What init_process_group() without a backend means: what it means without the package.
DEFAULT_BACKEND = "cpu:gloo"


def _backend_config(original):
    def __init__(self, backend):
        """As PyTorch's, with a default for processes whose accelerator is "ocl": PyTorch (2.11 to 2.14) takes the
        accelerator's backend alone and raises ValueError where it knows none."""
        if str(backend) == "undefined" and torch._C._get_accelerator().type == "ocl":
            backend = DEFAULT_BACKEND
        original(self, backend)

    return __init__


def install() -> None:
    """Adds the default backend. Does nothing for a PyTorch without torch.distributed."""
    if c10d := sys.modules.get("torch.distributed.distributed_c10d"):
        c10d.BackendConfig.__init__ = _backend_config(c10d.BackendConfig.__init__)
