# SPDX-License-Identifier: MIT
"""torch.distributed where "ocl" is the accelerator: Gloo serves tensors of ocl devices, through the host's memory
(csrc/distributed). Read in PyTorch 2.11 to 2.14."""

import os
import re
import sys

import torch

from pytorch_ocl.distributed import coalesced

# What init_process_group() without a backend means.
DEFAULT_BACKEND = "cpu:gloo,ocl:gloo"
# Another name of "gloo", for programs that choose a backend by their device's name.
NAME = "ocl_gloo"


def _backend_config(original):
    def __init__(self, backend):
        """As PyTorch's, with a default for processes whose accelerator is "ocl", where PyTorch takes the accelerator's
        backend alone: tensors of the CPU would have none."""
        backend = str(backend)
        if backend == "undefined" and torch._C._get_accelerator().type == "ocl":
            backend = DEFAULT_BACKEND
        original(self, re.sub(rf"\b{NAME}\b", "gloo", backend.lower()) if NAME in backend.lower() else backend)

    return __init__


def _shared_memory():
    """What the environment says about shared memory between the ranks of a host: how it is used; bytes of a piece and
    of the smallest collective, 0 and -1 for the defaults; whether wait() holds back streams rather than the host, None
    for the default."""
    way = os.environ.get("PYTORCH_OCL_SHARED_MEMORY", "").lower()
    ways = {"": "measured", "1": "measured", "0": "off"}
    ways |= {name: name for name in ("off", "windows", "host", "direct", "staged")}
    if way not in ways:
        raise ValueError(f"PYTORCH_OCL_SHARED_MEMORY: expected 0, 1, windows, host, direct or staged, but got {way!r}")
    sizes = ("PYTORCH_OCL_SHARED_PIECE", "0"), ("PYTORCH_OCL_SHARED_LEAST", "-1")
    hold = os.environ.get("PYTORCH_OCL_HOLD_STREAMS", "")
    if hold not in ("", "0", "1"):
        raise ValueError(f"PYTORCH_OCL_HOLD_STREAMS: expected 0 or 1, but got {hold!r}")
    holds = bool(int(hold)) if hold else None
    return (ways[way], *(int(os.environ.get(name) or default) for name, default in sizes), holds)


def _use_gloo(group, c10d):
    """Has a new process group that takes Gloo for "ocl" use it through the host's memory."""
    ocl = torch.device("ocl")
    if not isinstance(group, c10d.ProcessGroup) or ocl not in group._device_types:
        return
    gloo = group._get_backend(ocl)
    gloo = getattr(gloo, "wrapped_pg", gloo)  # what TORCH_DISTRIBUTED_DEBUG=DETAIL puts around it
    if isinstance(gloo, getattr(c10d, "ProcessGroupGloo", ())):
        holder = c10d.ProcessGroup(group.get_group_store(), group.rank(), group.size())
        holder._register_backend(ocl, c10d.ProcessGroup.BackendType.GLOO, gloo)
        torch.ops.pytorch_ocl.use_gloo(group.boxed(), holder.boxed(), *_shared_memory())


def _new_process_group(original, c10d):
    def _new_process_group_helper(*arguments, **options):
        result = original(*arguments, **options)
        _use_gloo(result[0], c10d)
        return result

    return _new_process_group_helper


def install() -> None:
    """Makes Gloo the backend of ocl devices. Does nothing for a PyTorch without torch.distributed."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if not c10d:
        return
    backend = c10d.Backend
    backend.backend_capability[backend.GLOO].append("ocl")
    backend.default_device_backend_map["ocl"] = backend.GLOO
    setattr(backend, NAME.upper(), NAME)
    backend.backend_list.append(NAME)
    backend.backend_capability[NAME] = ["cpu", "ocl"]
    backend.backend_type_map[NAME] = c10d.ProcessGroup.BackendType.GLOO
    c10d.BackendConfig.__init__ = _backend_config(c10d.BackendConfig.__init__)
    torch.distributed._broadcast_coalesced = coalesced.wrap(torch.distributed._broadcast_coalesced)
    c10d._new_process_group_helper = _new_process_group(c10d._new_process_group_helper, c10d)
