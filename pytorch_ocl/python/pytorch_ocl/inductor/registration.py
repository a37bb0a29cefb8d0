# SPDX-License-Identifier: MIT
"""Makes "ocl" known to Dynamo and Inductor. Importing this imports both; pytorch_ocl.inductor does so for a graph."""

import functools
import hashlib
import logging
import pathlib

import torch
import torch._inductor.utils as inductor_utils
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    init_backend_registration,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.scheduler import Scheduler

from pytorch_ocl.inductor import combined, lowerings, random_states, runtime
from pytorch_ocl.inductor.cpp_wrapper import OclCppWrapper
from pytorch_ocl.inductor.interface import register_interface
from pytorch_ocl.inductor.scheduling import OclScheduling
from pytorch_ocl.inductor.wrapper import OclWrapper


class OclOpOverrides(DeviceOpOverrides):
    """Lines that generated programs contain."""

    def import_get_raw_stream_as(self, name):
        return f"{name} = lambda index: 0"

    def set_device(self, device_idx):
        return f"torch._C._accelerator_setDeviceIndex({device_idx})"

    def synchronize(self):
        return "torch.ocl.synchronize()"

    def device_guard(self, device_idx):
        return f"torch.ocl.device({device_idx})"


def _devices():
    """What programs depend on, of each device: its number may be another device's in the next process."""
    found = []
    for index in range(torch.ocl.device_count()):
        seen = torch.ocl.get_device_properties(index)
        limits = seen.max_compute_units, seen.warp_size, seen.max_work_group_size, seen.has_int64_atomics
        found.append((seen.name, seen.type, *limits))
    return found, runtime.gpu_forms


class OclPass(CustomGraphModulePass):
    """Changes no graph: its uuid keeps programs that another version of this package generated, or this one for other
    devices, out of use."""

    def __call__(self, module):
        return None

    def uuid(self):
        folder = pathlib.Path(__file__).parent
        sources = sorted([*folder.glob("*.py"), *folder.glob("*.h")])
        written = b"".join(source.read_bytes() for source in sources)
        return hashlib.sha256(written + repr(_devices()).encode()).hexdigest()


def _answer_quietly():
    """Has Inductor ask now whether devices suit Triton's matrix products, of which it warns at the first product."""
    level = inductor_utils.log.level
    inductor_utils.log.setLevel(logging.ERROR)
    try:
        for index in range(torch.ocl.device_count()):
            inductor_utils.is_big_gpu(torch.device("ocl", index))
    finally:
        inductor_utils.log.setLevel(level)


def _create_backend(original):
    def create_backend(self, device):
        """As PyTorch's (2.11 to 2.14), which asks for Triton on every GPU but Metal's."""
        return OclScheduling(self) if device.type == "ocl" else original(self, device)

    return create_backend


@functools.cache
def register() -> None:
    """Adds the device to the registries; others stay as they are."""
    register_interface()
    register_device_op_overrides("ocl", OclOpOverrides())
    init_backend_registration()
    register_backend_for_device("ocl", OclScheduling, OclWrapper, OclCppWrapper, device_custom_pass=OclPass())
    inductor_utils.get_gpu_type()  # what it finds without ocl is kept
    inductor_utils.GPU_TYPES.append("ocl")
    Scheduler.create_backend = _create_backend(Scheduler.create_backend)
    combined.install()
    lowerings.register()
    random_states.register()
    _answer_quietly()
