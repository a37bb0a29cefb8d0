# SPDX-License-Identifier: MIT
"""What the jobs of test_distributed.py share: a rank's device and group, samples, small networks, comparisons."""

import datetime
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

REDUCED = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
]
MOVED = [*REDUCED, torch.int16, torch.complex128, torch.float8_e4m3fn]


def rank():
    return int(os.environ["RANK"])


def device():
    """The device of a rank: its own where the test gives it one."""
    return torch.device("ocl", rank() if os.environ.get("TEST_SPREAD") else 0)


def has_windows():
    """Whether a CPU's ranks have memory that each other's kernels reach; None of GPUs, whose memory does not show."""
    if torch.ocl.get_device_properties(device()).type != "cpu":
        return None
    return "memfd:dlprim" in open("/proc/self/maps").read()


def start(backend=None, seconds=180, name="store"):
    torch.ocl.set_device(device())
    dist.init_process_group(
        backend,
        init_method=f"file://{os.environ['TEST_FOLDER']}/{name}",
        rank=rank(),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=datetime.timedelta(seconds=seconds),
    )


def sample(of_rank, dtype, shape=(4, 3)):
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(of_rank)).float().to(dtype)


def equal(ours, expected, what):
    for one, other in zip(ours, expected, strict=True):
        assert one.device.type == "ocl" and torch.equal(one.cpu(), other.cpu()), (what, one, other)


def attempt(function, *arguments):
    """The first words of the error that a call raises, or waiting for the device afterwards; None without one."""
    try:
        function(*arguments)
        torch.ocl.synchronize()
    except Exception as error:  # noqa: BLE001  compared by the caller
        return str(error)[:40]
    return None


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)
    )


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))


def losses(model, parts=2, part=None, optimizer=None, steps=20, on=None):
    """Mean losses over all ranks of some steps in which each rank takes its part of the batch."""
    on = on or device()
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 1e-2)
    result = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 16, generator=generator), torch.randint(8, (8,), generator=generator)
        part = rank() if part is None else part
        loss = F.cross_entropy(model(x.chunk(parts)[part].to(on)).float(), y.chunk(parts)[part].to(on))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if parts > 1:
            dist.all_reduce(mean)
        result.append(mean.item() / parts)
    return result


def close(ours, expected, tolerance=1e-3):
    assert max(abs(a - b) for a, b in zip(ours, expected, strict=True)) < tolerance, (ours, expected)
