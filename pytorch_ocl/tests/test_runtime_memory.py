# SPDX-License-Identifier: MIT
"""Device memory and pinned memory: counters, limits, exhaustion."""

import gc
import pickle

import pytest
import torch

MIB = 1 << 20


def test_counters(device):
    index = torch.device(device).index
    gc.collect()
    torch.ocl.reset_peak_memory_stats(index)
    torch.ocl.reset_accumulated_memory_stats(index)
    before = torch.ocl.memory_allocated(index)
    held = torch.empty(MIB, device=device)
    assert torch.ocl.memory_allocated(device) == before + 4 * MIB == torch.accelerator.memory_allocated(index)
    assert torch.ocl.memory_reserved(index) >= torch.ocl.memory_allocated(index)
    del held
    assert torch.ocl.memory_allocated(index) == before
    assert torch.ocl.max_memory_allocated(index) >= before + 4 * MIB
    stats = torch.ocl.memory_stats_as_nested_dict(device)
    assert stats["allocated_bytes"]["all"]["freed"] == 4 * MIB == stats["allocated_bytes"]["all"]["allocated"]
    torch.ocl.reset_peak_memory_stats(index)
    assert torch.ocl.max_memory_allocated(index) == before
    torch.ocl.reset_accumulated_memory_stats(index)
    assert torch.ocl.memory_stats(index)["allocated_bytes.all.freed"] == 0
    assert torch.ocl.device_memory_used(index) == torch.ocl.memory_reserved(index)
    assert 0 <= torch.ocl.memory_usage(index) <= 100


def test_cache_is_emptied(device):
    del_me = torch.empty(64 * MIB, dtype=torch.uint8, device=device)
    reserved = torch.ocl.memory_reserved(device)
    del del_me
    assert torch.ocl.memory_reserved(device) == reserved
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved(device) <= reserved - 64 * MIB
    free, total = torch.ocl.mem_get_info(device)
    assert 0 < free <= total - torch.ocl.memory_reserved(device)


def test_summary_and_snapshot(device):
    held = torch.empty(1000, device=device)
    text = torch.ocl.memory_summary(device)
    assert "Allocated memory" in text and "freed" in text
    assert "freed" not in torch.ocl.memory_summary(device, abbreviated=True)
    segments = torch.ocl.memory_snapshot(device)
    assert sum(s["total_size"] for s in segments) == torch.ocl.memory_reserved(device)
    assert sum(s["allocated_size"] for s in segments) == torch.ocl.memory_allocated(device)
    block = next(b for s in segments for b in s["blocks"] if b["address"] == held.data_ptr())
    assert block["requested_size"] == 4000 <= block["size"] and block["state"] == "active_allocated"


def test_history_and_snapshot_for_the_viewer(device, tmp_path):
    memory, index = torch.ocl.memory, torch.device(device).index
    torch.ocl.empty_cache()
    memory._record_memory_history(max_entries=1000, stacks="python", clear_history=True)
    try:

        def make_it():
            return torch.empty(50 * MIB, dtype=torch.uint8, device=device)

        held, freed = make_it(), make_it()
        where = held.data_ptr(), freed.data_ptr()
        del freed
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 48, dtype=torch.uint8, device=device)
        memory._dump_snapshot(tmp_path / "snapshot.pickle")
    finally:
        memory._record_memory_history(None)
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    trace = snapshot["device_traces"][index]
    assert [(e["action"], e.get("addr")) for e in trace] == [
        ("segment_alloc", where[0]),
        ("alloc", where[0]),
        ("segment_alloc", where[1]),
        ("alloc", where[1]),
        ("free_requested", where[1]),
        ("free_completed", where[1]),
        *[("segment_free", where[1])] * (len(trace) - 7),
        ("oom", None),
    ]
    assert trace[-1]["size"] == 1 << 48 and trace[-1]["device_free"] > 0
    assert [e["time_us"] for e in trace] == sorted(e["time_us"] for e in trace)
    assert trace[1]["size"] == 50 * MIB and trace[1]["frames"][0]["name"] == "make_it"
    assert trace[1]["frames"][0]["filename"] == __file__
    blocks = {b["address"]: b for s in snapshot["segments"] for b in s["blocks"]}
    assert blocks[where[0]]["state"] == "active_allocated" and blocks[where[0]]["frames"][0]["name"] == "make_it"
    from torch.cuda._memory_viz import segsum, trace_plot

    assert "50.0MiB" in segsum(snapshot) and "Active Memory Timeline" in trace_plot(snapshot)
    del held
    torch.empty(50 * MIB, dtype=torch.uint8, device=device)
    assert len(memory._snapshot(device)["device_traces"][index]) == len(trace)  # no more is recorded
    with pytest.raises(RuntimeError, match="stacks"):
        memory._record_memory_history(stacks="some")


def test_history_is_bounded(device):
    memory = torch.ocl.memory
    memory._record_memory_history(context=None, max_entries=10, clear_history=True)
    try:
        for _ in range(20):
            torch.empty(1000, device=device)
        trace = memory._snapshot(device)["device_traces"][torch.device(device).index]
        assert len(trace) == 10 and trace[-1]["action"] == "free_completed" and not trace[-1]["frames"]
    finally:
        memory._record_memory_history(None)


def test_more_than_the_device_has_then_normal_work(device):
    total = torch.ocl.mem_get_info(device)[1]
    for size in (total + MIB, 1 << 48):
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate .*iB.* capacity of .*iB.*allocated"):
            torch.empty(size, dtype=torch.uint8, device=device)
        assert torch.ones(3, device=device).sum().item() == 3
    assert torch.ocl.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.ocl.memory_stats(device)["num_ooms"] >= 2
    with pytest.raises(RuntimeError, match="overflow"):
        torch.empty(1 << 62, 4, device=device)


def test_exhaustion_frees_the_cache_and_tries_again(device):
    torch.ocl.empty_cache()
    total = torch.ocl.mem_get_info(device)[1]
    retries = torch.ocl.memory_stats(device)["num_alloc_retries"]
    torch.ocl.set_per_process_memory_fraction((torch.ocl.memory_reserved(device) + 100 * MIB) / total, device)
    try:
        torch.empty(60 * MIB, dtype=torch.uint8, device=device)  # freed at once, but cached
        held = torch.empty(80 * MIB, dtype=torch.uint8, device=device)
        assert torch.ocl.memory_stats(device)["num_alloc_retries"] == retries + 1
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(60 * MIB, dtype=torch.uint8, device=device)
        del held
        assert torch.zeros(60 * MIB, dtype=torch.uint8, device=device).max().item() == 0
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0, device)
    assert torch.ocl.get_per_process_memory_fraction(device) == 1
    with pytest.raises(ValueError, match="fraction"):
        torch.ocl.set_per_process_memory_fraction(1.5, device)


def test_reading_device_memory_on_the_host_faults_instead_of_corrupting(device):
    from processes import start_python

    process = start_python(f"import ctypes\nctypes.string_at(torch.ones(3, device='{device}').data_ptr(), 4)")
    process.communicate(timeout=300)
    assert process.returncode != 0


def test_pinned_memory(device):
    host = torch.randn(1000).pin_memory()
    assert host.is_pinned() and host[5:].is_pinned() and not torch.randn(3).is_pinned()
    assert torch.empty(8, pin_memory=True).is_pinned()
    moved = host.to(device, non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(moved, non_blocking=True)
    other = moved.to("cpu", non_blocking=True)
    torch.ocl.synchronize(device)
    assert torch.equal(back, host) and torch.equal(other, host) and other.is_pinned()


def test_pinned_memory_is_not_reused_while_it_is_copied(device):
    results = []
    for value in range(50):
        host = torch.full((1 << 16,), float(value)).pin_memory()
        results.append(host.to(device, non_blocking=True))
        del host  # its memory may be handed out again only when the copy has run
    assert [r.max().item() for r in results] == list(range(50)) == [r.min().item() for r in results]


def test_counters_of_pinned_memory(device):
    with torch.ocl.device(device):
        gc.collect()
        torch.ocl.synchronize()
        torch.ocl.empty_host_cache()
        before = torch.ocl.host_memory_stats()
        held = torch.empty(MIB, dtype=torch.uint8).pin_memory()
        stats = torch.ocl.host_memory_stats_as_nested_dict()
        assert stats["active_bytes"]["current"] == before["active_bytes.current"] + MIB
        assert stats["num_host_alloc"] == before["num_host_alloc"] + 1
        del held
        assert torch.ocl.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]
        cached = torch.ocl.host_memory_stats()["allocated_bytes.current"]
        assert cached == before["allocated_bytes.current"] + MIB
        torch.ocl.empty_host_cache()
        assert torch.ocl.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]
        torch.ocl.reset_peak_host_memory_stats()
        torch.ocl.reset_accumulated_host_memory_stats()
        after = torch.ocl.host_memory_stats()
        assert after["active_bytes.peak"] == after["active_bytes.current"] and after["num_host_free"] == 0
