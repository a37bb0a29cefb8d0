# SPDX-License-Identifier: MIT
"""Names of torch.xpu and torch.cuda that OpenCL answers in one way, or cannot."""

import torch
from torch.types import Device

from pytorch_ocl.ocl.device import _index
from pytorch_ocl.ocl.memory import memory_reserved

__all__ = [
    "can_device_access_peer",
    "device_memory_used",
    "get_arch_list",
    "get_gencode_flags",
    "get_stream_from_external",
    "list_gpu_processes",
    "memory_usage",
    "clock_rate",
    "power_draw",
    "temperature",
    "utilization",
]


def can_device_access_peer(device: Device, peer: Device) -> bool:
    """Devices never read each other's memory: copies between them pass through the host."""
    _index(device), _index(peer)
    return False


def device_memory_used(device: Device = None) -> int:
    """Bytes this process holds on a device; OpenCL does not tell what others hold."""
    return memory_reserved(device)


def memory_usage(device: Device = None) -> int:
    """Share of the device's memory that this process holds, in percent."""
    free, total = torch.accelerator.get_memory_info(_index(device))
    return round(100 * (total - free) / total) if total else 0


def get_arch_list() -> list[str]:
    """Kernels are compiled on the machine they run on: no architectures are built in."""
    return []


def get_gencode_flags() -> str:
    """No architectures are built in."""
    return ""


def _not_told(name, quantity):
    def function(device: Device = None):
        raise NotImplementedError(f"torch.ocl.{name}: OpenCL does not tell the {quantity} of a device")

    function.__name__ = name
    function.__doc__ = f"Raises NotImplementedError: OpenCL does not tell the {quantity} of a device."
    return function


clock_rate = _not_told("clock_rate", "present clock rate")
list_gpu_processes = _not_told("list_gpu_processes", "processes")
power_draw = _not_told("power_draw", "power draw")
temperature = _not_told("temperature", "temperature")
utilization = _not_told("utilization", "utilization")


def get_stream_from_external(data_ptr: int, device: Device = None):
    """Raises NotImplementedError: queues made elsewhere belong to other contexts."""
    raise NotImplementedError("torch.ocl.get_stream_from_external: a queue made elsewhere belongs to another context")
