# SPDX-License-Identifier: MIT
"""torch.ocl: streams, events, memory, random state, kernels, autocast."""
import ctypes
import pickle
import warnings
from multiprocessing.reduction import ForkingPickler

import pytest
import torch


def test_streams_and_events(device):
    stream = torch.ocl.Stream(device)
    start, end = torch.ocl.Event(enable_timing=True), torch.ocl.Event(enable_timing=True)
    assert isinstance(start, torch.ocl.Event)
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream(device) == stream
        start.record()
        made = torch.ones(1000, device=device) + 1
        end.record()
    assert torch.ocl.current_stream(device) == torch.ocl.default_stream(device)
    end.synchronize()
    assert start.elapsed_time(end) >= 0 and end.query()
    made.record_stream(stream)
    assert made.sum().item() == 2000


def test_generic_streams_and_events(device):
    stream = torch.Stream(device)
    event = stream.record_event()
    event.synchronize()
    stream.synchronize()
    assert stream.query() and event.query()


def test_seeds_repeat(device):
    torch.manual_seed(5)
    first = torch.rand(10, device=device)
    state = torch.ocl.get_rng_state(device)
    second = torch.rand(10, device=device)
    torch.ocl.set_rng_state(state, device)
    assert torch.equal(torch.rand(10, device=device).cpu(), second.cpu())
    torch.ocl.manual_seed_all(5)
    assert torch.equal(torch.rand(10, device=device).cpu(), first.cpu())
    assert state.numel() == 16 and torch.ocl.initial_seed() == 5
    generator = torch.Generator(device).manual_seed(5)
    assert torch.equal(torch.rand(10, device=device, generator=generator).cpu(), first.cpu())


def test_memory_statistics(device):
    before = torch.ocl.memory_allocated(device)
    held = torch.empty(1 << 20, device=device)
    assert torch.ocl.memory_allocated(device) >= before + (4 << 20)
    assert torch.ocl.max_memory_allocated(device) >= torch.ocl.memory_allocated(device)
    assert torch.ocl.memory_reserved(device) >= torch.ocl.memory_allocated(device)
    del held
    assert torch.ocl.memory_allocated(device) == before
    torch.ocl.empty_cache()
    free, total = torch.ocl.mem_get_info(device)
    assert 0 < free <= total
    assert "Allocated memory" in torch.ocl.memory_summary(device)


def test_memory_stays_flat(device):
    def step():
        weight = torch.ones(100, 100, device=device, requires_grad=True)
        (weight * 2).sum().backward()

    step()
    before = torch.ocl.memory_allocated(device), torch.ocl.memory_reserved(device)
    for _ in range(50):
        step()
    assert (torch.ocl.memory_allocated(device), torch.ocl.memory_reserved(device)) == before


def test_out_of_memory_then_normal_work(device):
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 46, dtype=torch.uint8, device=device)
    assert (torch.ones(3, device=device) + 1).sum().item() == 6


def test_pinned_memory(device):
    host = torch.arange(1000.).pin_memory()
    assert host.is_pinned()
    ours = host.to(device, non_blocking=True)
    back = ours.to("cpu", non_blocking=True)
    torch.ocl.synchronize(device)
    assert torch.equal(back, host)


def test_data_loader_pins():
    data = torch.utils.data.TensorDataset(torch.arange(8.))
    batches = [batch for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)]
    assert all(batch.is_pinned() for batch in batches) and torch.cat(batches).tolist() == list(range(8))


def test_properties(device):
    properties = torch.ocl.get_device_properties(device)
    assert properties.name == torch.ocl.get_device_name(device) and properties.total_memory > 0
    with pytest.raises((RuntimeError, ValueError)):
        torch.ones(1, device="ocl:63")
    with pytest.raises(ValueError):
        torch.ocl.get_device_name("cpu")


def test_names_of_torch_xpu():
    # Graphs and pluggable or private memory pools have no counterpart in OpenCL.
    absent = {"XPUPluggableAllocator", "XPUGraph", "change_current_allocator", "graph", "graph_pool_handle", "MemPool",
              "make_graphed_callables", "use_mem_pool", "memory_snapshot", "streams",
              "get_per_process_memory_fraction", "set_per_process_memory_fraction"}
    assert [name for name in torch.xpu.__all__ if name not in absent and not hasattr(torch.ocl, name)] == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(device, dtype):
    a = torch.randn(8, 8, device=device, requires_grad=True)
    with torch.autocast("ocl", dtype=dtype):
        product = a @ a
        assert product.dtype == dtype
        assert torch.nn.functional.softmax(product, dim=1).dtype == torch.float32
    product.float().sum().backward()
    assert a.grad.dtype == torch.float32


def test_gradient_scaler(device):
    weight = torch.nn.Parameter(torch.ones(4, device=device))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("ocl")
    scaler.scale((weight * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0, 0, 0, 0]
    before = scaler.get_scale()
    weight.grad = torch.full((4,), float("inf"), device=device)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0, 0, 0, 0] and scaler.get_scale() < before


@pytest.mark.parametrize("source", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("target", [torch.float32, torch.int64, torch.bool, torch.float16])
def test_copies_convert(device, source, target):
    host = torch.arange(12).reshape(3, 4).to(source)
    ours = torch.zeros(4, 3, dtype=target, device=device)
    ours.t().copy_(host)
    assert torch.equal(ours.cpu(), host.to(target).t())
    ours.copy_(host.to(device)[0, 1])
    assert torch.equal(ours.cpu(), host[0, 1].to(target).expand(4, 3))
    assert torch.equal(host.to(device).t().to("cpu", target), host.t().to(target))


def test_deterministic_fill(device):
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(10, device=device).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_sending_between_processes(device):
    made = torch.nn.Parameter(torch.ones(3, device=device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = pickle.loads(ForkingPickler.dumps(made))
    assert isinstance(back, torch.nn.Parameter) and back.device == made.device and torch.equal(back.cpu(), made.cpu())
