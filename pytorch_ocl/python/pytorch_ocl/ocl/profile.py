# SPDX-License-Identifier: MIT
"""Times of every kernel and copy."""

import collections
import os

import torch
from torch.types import Device

from pytorch_ocl.ocl.device import _index

__all__ = ["enable_profiling", "profile"]

Command = collections.namedtuple("Command", "name device stream start end bytes")
Command.__doc__ = """A kernel or copy as it ran: start and end in nanoseconds of the device's clock, bytes
moved if known, otherwise 0."""


class profile:
    """Context manager that records every kernel and copy on all ocl devices.

    Afterwards `commands` holds them in order, `table()` the totals by name, longest first; printing the
    object prints the table. `path` names a CSV file to write as well. Recording costs some microseconds a
    kernel. Programs written for pytorch_dlprim give two arguments: a device, which is ignored, and the path.
    """

    def __init__(self, path: str | os.PathLike | None = None, log: str | os.PathLike | None = None):
        self.path = path if log is None else log
        self.commands = []

    def __enter__(self):
        self._first = torch.ops.pytorch_ocl.profile_start()
        return self

    def __exit__(self, *_):
        names, numbers = torch.ops.pytorch_ocl.profile_stop(self._first)
        self.commands = [Command(name, *numbers[5 * i : 5 * i + 5]) for i, name in enumerate(names)]
        if self.path:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write("name,device,stream,start_ns,end_ns,bytes\n")
                file.writelines(",".join(map(str, command)) + "\n" for command in self.commands)
        return False

    def table(self) -> list[tuple]:
        """[(name, calls, total milliseconds, GB/s or None)], longest first."""
        totals = {}
        for command in self.commands:
            calls, time, size = totals.get(command.name, (0, 0, 0))
            totals[command.name] = (calls + 1, time + command.end - command.start, size + command.bytes)
        rows = [
            (name, calls, time / 1e6, size / time if size and time else None)
            for name, (calls, time, size) in totals.items()
        ]
        return sorted(rows, key=lambda row: -row[2])

    def __str__(self):
        lines = [f"{'kernel':40} {'calls':>7} {'ms':>10} {'GB/s':>8}"]
        lines += [
            f"{name[:40]:40} {calls:7} {time:10.3f} {f'{rate:8.1f}' if rate else ''}"
            for name, calls, time, rate in self.table()
        ]
        return "\n".join(lines)


def enable_profiling(device: Device = None) -> None:
    """What pytorch_dlprim asked for before `profile`. Here nothing has to be prepared: it checks the device."""
    _index(device)
