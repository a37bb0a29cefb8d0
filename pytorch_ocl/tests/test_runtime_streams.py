# SPDX-License-Identifier: MIT
"""Streams, events, and where the host waits for the device."""

import warnings

import pytest
import torch
from processes import run_python


def busy(x, times=20):
    for _ in range(times):
        x = torch.tanh(x) + 1
    return x


def test_streams_and_events(device):
    stream = torch.ocl.Stream(device)
    assert isinstance(stream, torch.ocl.Stream) and stream != torch.ocl.default_stream(device)
    assert torch.ocl.current_stream(device) == torch.ocl.default_stream(device)
    x = torch.ones(1000, 1000, device=device)
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    stream.wait_stream(torch.ocl.current_stream(device))
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream(device) == stream
        start.record()
        y = x + 1
        for _ in range(4):
            y = y + 1
        end.record()
    assert torch.ocl.current_stream(device) == torch.ocl.default_stream(device)
    torch.ocl.default_stream(device).wait_event(end)
    y.record_stream(torch.ocl.default_stream(device))
    assert y.sum().item() == 6e6
    assert end.query() and start.elapsed_time(end) > 0
    stream.synchronize()
    assert stream.query()


def test_generic_streams_and_events(device):
    stream = torch.Stream(device)
    with stream:
        assert torch.accelerator.current_stream(device) == stream
        x = busy(torch.ones(100, device=device))
    event = stream.record_event()
    event.synchronize()
    stream.synchronize()
    assert stream.query() and event.query() and x.sum().isfinite().item()
    other = torch.Event(device, enable_timing=True)
    assert isinstance(other, torch.ocl.Event)
    other.record(stream)
    other.wait()
    assert torch.accelerator.current_stream(device) == torch.ocl.default_stream(device)


# As with CUDA: a copy that may block has ended when it returns.
@pytest.mark.parametrize("size", [64, 1 << 16, 1 << 20])
def test_a_copy_from_the_host_comes_before_other_streams(device, size):
    stream, host = torch.Stream(device), torch.ones(size, dtype=torch.int32)
    for _ in range(60):
        x = host.to(device)
        with stream:
            x.mul_(7)
        torch.ocl.synchronize()
        assert x.sum().item() == 7 * size


# In a process of its own, with the first stream after the copy.
def test_a_copy_before_the_first_stream(device):
    program = """
x = torch.ones(64, dtype=torch.int32).to("ocl")
with torch.Stream("ocl"):
    x.mul_(7)
torch.ocl.synchronize()
print(x.sum().item())
"""
    assert [run_python(program) for _ in range(3)] == ["448"] * 3


def test_contexts_nest_and_set_stream_stays(device):
    first, second = torch.ocl.Stream(device), torch.ocl.Stream(device)
    with torch.ocl.stream(first), torch.ocl.stream(second), torch.ocl.stream(None):
        assert torch.ocl.current_stream(device) == second
    torch.ocl.set_stream(first)
    assert torch.ocl.current_stream(device) == first
    torch.ocl.set_stream(torch.ocl.default_stream(device))
    torch.ocl.set_stream(None)
    assert torch.ocl.current_stream(device) == torch.ocl.default_stream(device)


def test_wrong_use_of_events(device):
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    assert start.query()
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        start.elapsed_time(end)
    with pytest.raises(NotImplementedError, match="one process"):
        torch.ocl.Event(interprocess=True)
    with pytest.raises(NotImplementedError, match="another context"):
        torch.ocl.get_stream_from_external(0)


def test_memory_of_another_stream_is_not_reused_too_early(device):
    side = torch.ocl.Stream(device)
    for _ in range(5):
        x = torch.full((1 << 16,), 3.0, device=device)
        side.wait_stream(torch.ocl.current_stream(device))
        with torch.ocl.stream(side):
            y = busy(x, 3) * 0 + x
        x.record_stream(side)
        del x
        z = torch.full((1 << 16,), 7.0, device=device)  # must not lie where x still is read
        side.synchronize()
        assert y.min().item() == 3 == y.max().item() and z.min().item() == 7


@pytest.mark.skipif("torch.ocl.device_count() < 2", reason="needs two devices")
def test_streams_across_devices():
    first, second = torch.ocl.Stream("ocl:0"), torch.ocl.Stream("ocl:1")
    with torch.ocl.stream(first):
        x = busy(torch.ones(1000, device="ocl:0"))
        moved = x.to("ocl:1")
    with torch.ocl.stream(second):
        assert torch.equal((moved + 1).cpu(), x.cpu() + 1)
    assert torch.ocl.current_device() == 0


def test_backward_runs_on_the_stream_of_forward(device):
    x, side = torch.ones(1000, device=device, requires_grad=True), torch.ocl.Stream(device)
    side.wait_stream(torch.ocl.current_stream(device))
    with torch.ocl.stream(side):
        loss = (x * 2).sum()
    loss.backward()
    assert x.grad.sum().item() == 2000


def test_sync_debug_mode(device):
    x = torch.ones(3, device=device)
    assert torch.ocl.get_sync_debug_mode() == 0
    try:
        torch.ocl.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="synchronizing ocl operation: a copy to the host"):
            x.sum().item()
        torch.ocl.set_sync_debug_mode("error")
        assert torch.ocl.get_sync_debug_mode() == 2
        for wait in (x.cpu, x.nonzero, lambda: torch.ones(3).to(device), lambda: bool(x[0])):
            with pytest.raises(RuntimeError, match="synchronizing ocl operation"):
                wait()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (x + 1).sum()
            torch.ones(3).pin_memory().to(device, non_blocking=True)
    finally:
        torch.ocl.set_sync_debug_mode("default")
    assert x.sum().item() == 3
    with pytest.raises(RuntimeError, match="expected one of"):
        torch.ocl.set_sync_debug_mode("loud")
    with pytest.raises(RuntimeError, match="expected 0"):
        torch.ocl.set_sync_debug_mode(3)
