# SPDX-License-Identifier: MIT
"""Streams (in-order queues) and events."""

import torch
from torch.types import Device

from pytorch_ocl.ocl.device import _index

__all__ = ["Stream", "Event", "StreamContext", "stream", "current_stream", "default_stream", "set_stream"]

_PRIVATEUSE1 = 20  # c10::DeviceType


class Stream(torch.Stream):
    """A queue of work, in order; work of different streams may overlap."""

    def __new__(cls, device=None, priority=0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device("ocl", _index(device)), priority=priority)


class _EventType(type(torch.Event)):
    def __instancecheck__(cls, value):
        return isinstance(value, torch.Event) and value.device is not None and value.device.type == "ocl"


class Event(torch.Event, metaclass=_EventType):
    """A point in a stream; elapsed_time between two events with enable_timing=True is in milliseconds. Events
    are plain torch.Event objects: elapsed_time() takes no others."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("torch.ocl.Event: OpenCL events belong to one process, got interprocess=True")
        return torch.Event(device="ocl", enable_timing=enable_timing, blocking=blocking)


class StreamContext:
    """Context manager that makes a stream the current one of its device, and its device the current one."""

    def __init__(self, stream):
        self.stream = stream
        self._former = []

    def __enter__(self):
        if self.stream is None:
            return
        device = torch.ops.pytorch_ocl.current_device()
        torch.ops.pytorch_ocl.set_device(self.stream.device_index)
        self._former.append((device, current_stream(self.stream.device_index)))
        set_stream(self.stream)

    def __exit__(self, *_):
        if self.stream is None:
            return
        device, former = self._former.pop()
        set_stream(former)
        torch.ops.pytorch_ocl.set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager that makes `stream` the current one; None changes nothing."""
    return StreamContext(stream)


def current_stream(device: Device = None) -> torch.Stream:
    """The current stream of a device."""
    return torch.ops.pytorch_ocl.current_stream(_index(device))


def default_stream(device: Device = None) -> torch.Stream:
    """The default stream of a device: id 0."""
    return torch.Stream(stream_id=0, device_index=current_stream(device).device_index, device_type=_PRIVATEUSE1)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` the current one of its device."""
    if stream is not None:
        torch.ops.pytorch_ocl.set_stream(stream)
