# SPDX-License-Identifier: MIT
"""torch.profiler, torch.ocl.profile, torch.ocl.compile_kernel."""

import json

import pytest
import torch
from torch.profiler import profile, record_function


def step(device):
    x = torch.ones(64, 64, device=device, requires_grad=True)
    (torch.tanh(x) @ x).sum().backward()
    return x.grad.cpu()


def test_rows_of_kernels_and_device_time_of_operators(device):
    step(device)
    ours = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with profile(activities=ours if torch.cuda.is_available() else None, record_shapes=True) as recorded:
        for _ in range(2):
            with record_function("my step"):
                step(device)
    rows = {row.key: row for row in recorded.key_averages()}
    kernel, operator = rows["pointwise_tanh"], rows["aten::tanh"]
    assert kernel.count == operator.count == 2 and kernel.device_type.name in ("OCL", "PrivateUse1")
    assert operator.self_device_time_total == kernel.self_device_time_total > 0
    assert rows["my step"].device_time_total > 0 and "copy device to host" in rows
    table = recorded.key_averages().table(sort_by="self_device_time_total")
    assert "Self OCL" in table and "pointwise_tanh" in table and "Self OCL time total" in table


def test_trace(device, tmp_path):
    step(device)
    with profile() as recorded:
        step(device)
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    operators = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    tanh = next(e for e in kernels if e["name"] == "pointwise_tanh")
    operator = operators[tanh["args"]["External id"]]
    assert operator["name"] == "aten::tanh" and tanh["args"]["bytes"] > 0 and tanh["dur"] > 0
    # One clock for both: the kernel starts after its operator, within the same second.
    assert operator["ts"] - 1000 <= tanh["ts"] <= operator["ts"] + 1e6
    assert {e["cat"] for e in events if "cat" in e} >= {"kernel", "gpu_memcpy", "cpu_op"}


def test_schedules_and_profiling_of_the_device_alone(device):
    activities, steps = [torch.profiler.ProfilerActivity.PrivateUse1], []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2)
    with profile(
        activities=activities,
        schedule=schedule,
        on_trace_ready=lambda p: steps.append({row.key for row in p.key_averages()}),
    ) as recorded:
        for _ in range(6):
            step(device)
            recorded.step()
    assert len(steps) == 2 and all("pointwise_tanh" in names and "aten::tanh" not in names for names in steps)


def test_profiler_without_kineto(device):
    step(device)
    with torch.autograd.profiler.profile(use_device="ocl") as recorded:
        step(device)
    rows = {row.key: row for row in recorded.key_averages()}
    assert rows["aten::mm"].device_time_total > 0 and "Self OCL" in recorded.key_averages().table()


def test_memory_is_reported(device):
    with profile(profile_memory=True) as recorded:
        held = torch.empty(1000, 1000, device=device)
    row = next(row for row in recorded.key_averages() if row.key == "aten::empty")
    assert row.self_device_memory_usage >= 4 * held.numel()


def test_profile(device, tmp_path):
    x = torch.ones(1000, device=device)
    with torch.ocl.profile(tmp_path / "kernels.csv") as outer, torch.ocl.profile() as inner:
        (x + 1).cpu()
    assert [c.name for c in outer.commands] == [c.name for c in inner.commands]
    assert "pointwise_add" in str(inner) and "copy device to host" in str(inner)
    assert all(c.end >= c.start > 0 and c.device == x.device.index for c in inner.commands)
    assert next(c for c in inner.commands if c.name == "pointwise_add").bytes == 8000
    name, calls, time, rate = inner.table()[0]
    assert calls == 1 and time > 0 and rate > 0
    lines = (tmp_path / "kernels.csv").read_text().splitlines()
    assert lines[0] == "name,device,stream,start_ns,end_ns,bytes" and len(lines) == 1 + len(outer.commands)
    with pytest.raises(ZeroDivisionError), torch.ocl.profile() as failed:
        1 // 0  # noqa: B018
    with torch.ocl.profile() as empty:
        pass
    assert failed.commands == [] == empty.commands and str(empty).startswith("kernel")


AXPY = """__kernel void axpy(__global const float *x, __global float *y, float a, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] += a * x[i];
}"""


def test_compile_kernel(device):
    kernel = torch.ocl.compile_kernel(AXPY, "axpy")
    x, y = torch.arange(10.0, device=device), torch.ones(10, device=device)
    kernel(x, y, 2.0, 5)
    kernel(x, y, 1, 5, global_size=(16,), local_size=(4,))
    assert y.tolist() == [1, 4, 7, 10, 13, 1, 1, 1, 1, 1]
    kernel(x, y, 1.0, 0, global_size=0)
    for index in range(torch.ocl.device_count()):  # one kernel serves every device
        y = torch.zeros(3, device=f"ocl:{index}")
        kernel(torch.ones(3, device=y.device), y, 3.0, 3)
        assert y.tolist() == [3, 3, 3]


def test_wrong_use_of_kernels(device):
    kernel, x = torch.ocl.compile_kernel(AXPY, "axpy"), torch.ones(4, device=device)
    for arguments, message in (
        ((x, x), "axpy.*expected 4 arguments, got 2"),
        ((x, x, x, 1), "argument 2: expected a float, got a tensor"),
        ((1.0, x, 1.0, 1), "argument 0: expected a float\\*, got a number"),
        ((x, torch.ones(4), 1.0, 4), "axpy: expected tensors of one ocl device"),
    ):
        with pytest.raises(RuntimeError, match=message):
            kernel(*arguments)
    with pytest.raises(TypeError, match="axpy: expected tensors, ints and floats.*str"):
        kernel(x, x, "1", 4)
    with pytest.raises(RuntimeError, match="expected global_size"):
        torch.ocl.compile_kernel("__kernel void f(int a) {}", "f")(1)
    with pytest.raises(RuntimeError, match="1 to 3 dimensions"):
        kernel(x, x, 1.0, 4, global_size=(1, 1, 1, 1))
    with pytest.raises(RuntimeError, match="undeclared"):
        torch.ocl.compile_kernel("__kernel void f() { undeclared = 1; }", "f")
    with pytest.raises(RuntimeError, match="CL_INVALID_KERNEL_NAME"):
        torch.ocl.compile_kernel(AXPY, "other")
    with pytest.raises(RuntimeError, match="CL_INVALID_WORK_GROUP_SIZE|CL_INVALID_WORK_ITEM_SIZE"):
        kernel(x, x, 1.0, 4, global_size=1 << 20, local_size=1 << 20)
    kernel(x, x, 1.0, 4)
    assert x.tolist() == [2, 2, 2, 2]
