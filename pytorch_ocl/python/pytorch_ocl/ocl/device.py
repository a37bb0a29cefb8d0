# SPDX-License-Identifier: MIT
"""Devices: counting, choosing and describing them."""

import atexit
import time
import types

import torch
from torch.types import Device

__all__ = [
    "is_available",
    "is_initialized",
    "init",
    "device_count",
    "current_device",
    "set_device",
    "device",
    "device_of",
    "synchronize",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "get_amp_supported_dtype",
    "is_bf16_supported",
    "is_tf32_supported",
    "set_sync_debug_mode",
    "get_sync_debug_mode",
]

_SYNC_DEBUG_MODES = ("default", "warn", "error")


def _call(name: str, *arguments):
    """What a function of the library that takes no tensor gives; modes of torch functions do not see the call, as they
    see none of torch.cuda."""
    with torch._C.DisableTorchFunction():
        return getattr(torch.ops.pytorch_ocl, name)(*arguments)


def is_available() -> bool:
    """Whether an OpenCL device can be used. Loads the drivers: those of GPUs cannot be used in a child forked
    after that."""
    return device_count() > 0


def device_count() -> int:
    """Number of devices."""
    return _call("device_count") if hasattr(torch.ops.pytorch_ocl, "device_count") else 0


def _index(device: Device) -> int:
    """Index of a device given as None (the current one), an int, "ocl:1" or a torch.device. Raises ValueError
    for devices of another type."""
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if device is not None and device.type != "ocl":
        raise ValueError(f"Expected an ocl device, but got: {device}")
    return current_device() if device is None or device.index is None else device.index


def current_device() -> int:
    """Index of the current device."""
    _lazy_init()
    return _call("current_device")


def set_device(device: Device) -> None:
    """Makes a device the current one; a negative index leaves it as it is."""
    index = _index(device)
    if index >= 0:
        _lazy_init()
        _call("set_device", index)


class device:
    """Context manager that makes a device the current one; a negative index or None changes nothing."""

    def __init__(self, device: Device):
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = torch._C._accelerator_exchangeDevice(self.idx) if self.idx >= 0 else -1
        return self

    def __exit__(self, *_):
        if self.prev_idx >= 0:
            torch._C._accelerator_maybeExchangeDevice(self.prev_idx)
        return False


class device_of(device):
    """Context manager that makes the device of a tensor the current one, if it is an ocl device."""

    def __init__(self, tensor: torch.Tensor):
        super().__init__(tensor.device.index if tensor.device.type == "ocl" else -1)


def synchronize(device: Device = None) -> None:
    """Waits for all work of a device; raises what its kernels reported, such as an index out of range."""
    torch.accelerator.synchronize(_index(device))


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What copies that make the host wait for the device do besides: "default" (0) nothing, "warn" (1) warn,
    "error" (2) raise RuntimeError instead of waiting. Raises RuntimeError for other modes."""
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG_MODES:
            raise RuntimeError(f"invalid value of debug_mode: expected one of {_SYNC_DEBUG_MODES}, got {debug_mode!r}")
        debug_mode = _SYNC_DEBUG_MODES.index(debug_mode)
    _lazy_init()
    torch.ops.pytorch_ocl.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """The mode that set_sync_debug_mode() set, as a number."""
    _lazy_init()
    return torch.ops.pytorch_ocl.sync_debug_mode()


def get_device_properties(device: Device = None) -> types.SimpleNamespace:
    """What a device offers: name, id ("platform:device"), platform_name, vendor, version, driver_version,
    extensions, type, total_memory and max_allocation (bytes), max_compute_units, max_work_group_size,
    local_mem_size (bytes), warp_size, compute_capability (NVIDIA), has_fp64, has_fp16, has_subgroups,
    has_int64_atomics, unified_memory."""
    index = _index(device)
    _lazy_init()
    texts, numbers = torch.ops.pytorch_ocl.device_info(index)
    flags = {name: bool(value) for name, value in numbers.items() if name.startswith(("has_", "unified"))}
    return types.SimpleNamespace(**texts, **{**numbers, **flags})


def get_device_name(device: Device = None) -> str:
    """Name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict:
    """{name: value} of a device's properties."""
    return dict(vars(get_device_properties(device)))


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes torch.autocast may use."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 is stored as such and computed in float32 on every device."""
    return bool(including_emulation)


def is_tf32_supported() -> bool:
    """Whether torch.set_float32_matmul_precision("high") lets the current device round operands to tf32: NVIDIA
    devices of compute capability 8.0 and above."""
    return is_available() and get_device_properties().compute_capability >= 80


def _is_in_bad_fork() -> bool:
    return hasattr(torch.ops.pytorch_ocl, "in_bad_fork") and _call("in_bad_fork")


def _lazy_init() -> None:
    """Raises RuntimeError when OpenCL cannot be used in this process. PyTorch calls it at the first use of a
    device."""
    if _is_in_bad_fork():
        raise RuntimeError(
            "Cannot re-initialize OpenCL in forked subprocess. To use OpenCL with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    if not is_available():
        import pytorch_ocl

        raise RuntimeError(f"No OpenCL device is available: {pytorch_ocl.unavailable_reason()}")


def init() -> None:
    """Checks that OpenCL can be used; devices start by themselves."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether a device has been used in this process."""
    return hasattr(torch.ops.pytorch_ocl, "initialized") and _call("initialized") and not _is_in_bad_fork()


@atexit.register
def _finish_threads() -> None:
    """Threads of backward passes and of process groups may still hold Python objects when their caller has the results
    already. One that drops them while the interpreter is shutting down ends the process (std::terminate): they do so
    before. Collectives that other ranks take no part in are waited for two seconds at most. Kernels that are being
    built, whatever for, are waited for a minute, and where drivers compile what they run, so is all that was given to
    them: their compilers do not survive that the library is shut down."""
    if not is_initialized():
        return
    torch.ops.pytorch_ocl.finish_backward_threads()
    if hasattr(torch.ops.pytorch_ocl, "halt_collectives"):
        torch.ops.pytorch_ocl.halt_collectives(2000)
    end = time.monotonic() + 60
    while torch.ops.pytorch_ocl.builds_under_way() and time.monotonic() < end:
        time.sleep(0.01)
