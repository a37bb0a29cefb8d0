# SPDX-License-Identifier: MIT
"""Dynamo's and Inductor's view of the device. Importing this imports Dynamo, but nothing of Inductor's compiler."""

import functools
import types

import torch
import torch._dynamo
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

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


@functools.cache
def register_interface() -> None:
    """Adds the device to Dynamo's registry. What devices there are is a constant to it, as with CUDA."""
    for function in (torch.ocl.is_available, torch.ocl.device_count, torch.ocl.is_bf16_supported):
        torch._dynamo.assume_constant_result(function)
    register_interface_for_device("ocl", OclInterface)
    for index in range(torch.ocl.device_count()):
        register_interface_for_device(f"ocl:{index}", OclInterface)
