# SPDX-License-Identifier: MIT
"""Makes "ocl" known to Dynamo and Inductor. Importing this imports both; pytorch_ocl.inductor does so for a graph."""

import functools
import hashlib
import logging
import pathlib
import types

import torch
import torch._inductor.utils as inductor_utils
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    init_backend_registration,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.scheduler import Scheduler

from pytorch_ocl.inductor.scheduling import OclScheduling
from pytorch_ocl.inductor.wrapper import OclWrapper

# What Inductor splits reductions by: elements at once, and work-items that a unit has in flight.
_CPU_WIDTH, _GPU_WIDTH, _ITEMS = 16, 32, 2048


def _properties(device=None):
    """What Inductor asks of a device, as properties of CUDA devices are named."""
    found = torch.ocl.get_device_properties(device)
    on_cpu = found.type == "cpu"
    return types.SimpleNamespace(
        name=found.name,
        type="ocl",
        total_memory=found.total_memory,
        multi_processor_count=found.max_compute_units,
        warp_size=_CPU_WIDTH if on_cpu else max(found.warp_size, _GPU_WIDTH),
        max_threads_per_multi_processor=_ITEMS,
        max_threads_per_block=found.max_work_group_size,
    )


class OclInterface(DeviceInterface):
    """Dynamo's and Inductor's view of torch.ocl."""

    device = torch.ocl.device
    Event = torch.Event
    Stream = torch.Stream

    class Worker:
        get_device_properties = staticmethod(_properties)
        current_device = staticmethod(lambda: torch.ocl.current_device())
        set_device = staticmethod(lambda device: torch.ocl.set_device(device))

    is_available = staticmethod(lambda: torch.ocl.is_available())
    device_count = staticmethod(lambda: torch.ocl.device_count())
    current_device = staticmethod(lambda: torch.ocl.current_device())
    set_device = staticmethod(lambda device: torch.ocl.set_device(device))
    synchronize = staticmethod(lambda device=None: torch.ocl.synchronize(device))
    stream = staticmethod(lambda stream: torch.ocl.stream(stream))
    current_stream = staticmethod(lambda device=None: torch.ocl.current_stream(device))
    set_stream = staticmethod(lambda stream: torch.ocl.set_stream(stream))
    exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
    maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)
    get_raw_stream = staticmethod(lambda index: 0)
    get_compute_capability = staticmethod(lambda device=None: 0)
    is_bf16_supported = staticmethod(lambda including_emulation=False: True)
    is_dtype_supported = staticmethod(lambda dtype, including_emulation=False: True)

    @staticmethod
    def _set_stream_by_id(stream_id, device_index, device_type):
        torch.ocl.set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


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


class OclPass(CustomGraphModulePass):
    """Changes no graph: its uuid keeps programs that another version of this package generated out of use."""

    def __call__(self, module):
        return None

    def uuid(self):
        sources = sorted(pathlib.Path(__file__).parent.glob("*.py"))
        return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


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
    register_interface_for_device("ocl", OclInterface)
    for index in range(torch.ocl.device_count()):
        register_interface_for_device(f"ocl:{index}", OclInterface)
    register_device_op_overrides("ocl", OclOpOverrides())
    init_backend_registration()
    register_backend_for_device("ocl", OclScheduling, OclWrapper, device_custom_pass=OclPass())
    inductor_utils.get_gpu_type()  # what it finds without ocl is kept
    inductor_utils.GPU_TYPES.append("ocl")
    Scheduler.create_backend = _create_backend(Scheduler.create_backend)
    _answer_quietly()
