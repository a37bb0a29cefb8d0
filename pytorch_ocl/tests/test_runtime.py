# SPDX-License-Identifier: MIT
"""Devices, streams, events, memory, random state, serialization: what PyTorch expects of a device."""
import copy
import gc
import io
import os
import subprocess
import sys

import pytest
import torch


def run_python(code, **environment):
    """Runs a script in a process of its own; returns the completed process."""
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def test_tensors_compute(device):
    assert (torch.ones(3, device=device) + 1).tolist() == [2, 2, 2]
    assert torch.arange(5, device=device).sum().item() == 10


def test_printing(device):
    assert repr(torch.tensor([1.0, 2.5], device=device)) == f"tensor([1.0000, 2.5000], device='{device}')"


def test_accelerator_is_ocl(device):
    assert torch.accelerator.current_accelerator().type == "ocl"
    assert torch.accelerator.device_count() == torch.ocl.device_count()


def test_device_context_and_index():
    for index in range(torch.ocl.device_count()):
        with torch.ocl.device(index):
            assert torch.ocl.current_device() == index
            assert torch.empty(1, device="ocl").device.index == index
        assert torch.arange(3, device=f"ocl:{index}").device.index == index
        assert torch.arange(3, device=f"ocl:{index}").tolist() == [0, 1, 2]


def test_copies_between_devices_dtypes_and_layouts(device):
    source = torch.randn(4, 6)
    for other in ["cpu"] + [f"ocl:{i}" for i in range(torch.ocl.device_count())]:
        moved = source.to(other).to(device)
        assert torch.equal(moved.cpu(), source)
        assert torch.equal(moved.t().to(other).cpu(), source.t())
        assert torch.equal(moved[::2, 1::2].to(other, torch.float64).cpu(), source[::2, 1::2].double())
    target = torch.zeros(3, 4, 6, device=device)
    target.copy_(source)
    assert torch.equal(target.cpu(), source.expand(3, 4, 6))


def test_conjugate_and_negative_views_are_copied(device):
    value = torch.randn(3, dtype=torch.complex64)
    moved = value.to(device)
    assert torch.equal(moved.conj().cpu(), value.conj())
    assert torch.equal(moved.conj().imag.cpu(), value.conj().imag)
    assert torch.equal(value.conj().to(device).cpu(), value.conj())
    target = torch.empty(3, dtype=torch.complex64, device=device)
    assert torch.equal(target.copy_(value.conj()).cpu(), value.conj())


def test_modules_keep_their_parameters(device):
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    parameter = module[0].weight
    module.to(device)
    assert module[0].weight is parameter and module[1].weight is parameter
    assert parameter.device.type == "ocl"


def test_several_devices_do_not_mix(device):
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(torch.ones(2, 2, device=device), torch.ones(2, 2))


@pytest.mark.parametrize("index", [99, 1000])
def test_a_device_that_does_not_exist(index):
    with pytest.raises(RuntimeError):
        torch.ones(1, device=f"ocl:{min(index, 120)}")


def test_save_and_load(device):
    module = torch.nn.Linear(3, 4).to(device)
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    for location in (None, "cpu", device):
        buffer.seek(0)
        state = torch.load(buffer, map_location=location)
        assert state["weight"].device == torch.device(location or device)
        assert torch.equal(state["weight"].cpu(), module.weight.detach().cpu())
    buffer = io.BytesIO()
    torch.save(torch.arange(4), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location=device).tolist() == [0, 1, 2, 3]


def test_deepcopy(device):
    module = torch.nn.Linear(3, 4).to(device)
    other = copy.deepcopy(module)
    with torch.no_grad():
        module.weight.zero_()
    assert other.weight.device == module.weight.device and other.weight.abs().sum().item() > 0


def test_streams_and_events(device):
    stream = torch.ocl.Stream(device)
    assert isinstance(stream, torch.ocl.Stream) and stream != torch.ocl.default_stream(device)
    x = torch.ones(1000, 1000, device=device)
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    stream.wait_stream(torch.ocl.current_stream(device))
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream(device) == stream
        start.record()
        for _ in range(5):
            x = x + 1
        end.record()
    assert torch.ocl.current_stream(device) == torch.ocl.default_stream(device)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    torch.ocl.default_stream(device).wait_event(end)
    x.record_stream(torch.ocl.default_stream(device))
    assert x.sum().item() == 6e6
    stream.synchronize()
    assert stream.query()


def test_random_state(device):
    index = torch.device(device).index
    torch.manual_seed(5)
    first = torch.randn(100, device=device)
    state = torch.ocl.get_rng_state(index)
    second = torch.randn(100, device=device)
    torch.ocl.set_rng_state(state, index)
    assert torch.equal(torch.randn(100, device=device).cpu(), second.cpu())
    torch.manual_seed(5)
    assert torch.equal(torch.randn(100, device=device).cpu(), first.cpu())
    with torch.random.fork_rng(devices=[index], device_type="ocl"):
        torch.randn(10, device=device)
    generator = torch.Generator(device).manual_seed(5)
    assert torch.equal(torch.randn(100, device=device, generator=generator).cpu(), first.cpu())


def test_checkpoint_restores_the_random_state(device):
    x = torch.ones(1000, device=device, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_memory_statistics(device):
    index = torch.device(device).index
    gc.collect()
    before = torch.ocl.memory_allocated(index)
    x = torch.empty(1 << 20, device=device)
    assert torch.ocl.memory_allocated(index) == before + (4 << 20)
    assert torch.ocl.max_memory_allocated(index) >= before + (4 << 20)
    assert torch.accelerator.memory_allocated(index) == torch.ocl.memory_allocated(index)
    del x
    assert torch.ocl.memory_allocated(index) == before
    torch.ocl.empty_cache()
    free, total = torch.ocl.mem_get_info(index)
    assert 0 < free <= total
    assert "Allocated memory" in torch.ocl.memory_summary(index)
    torch.ocl.reset_peak_memory_stats(index)
    assert torch.ocl.max_memory_allocated(index) == before


def test_out_of_memory_and_then_normal_work(device):
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        torch.empty(1 << 48, device=device)
    assert torch.ones(3, device=device).sum().item() == 3


def test_storage_resizes(device):
    x = torch.arange(4.0, device=device)
    x.untyped_storage().resize_(64)
    assert x.tolist() == [0, 1, 2, 3] and x.untyped_storage().nbytes() == 64
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    y = torch.arange(4.0, device=device).resize_(8)
    assert y[:4].tolist() == [0, 1, 2, 3]


def test_pinned_memory(device):
    x = torch.randn(1000).pin_memory()
    assert x.is_pinned() and not torch.randn(3).is_pinned()
    moved = x.to(device, non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(moved, non_blocking=True)
    torch.ocl.synchronize(device)
    assert torch.equal(back, x)


def test_data_loader_pins(device):
    data = torch.utils.data.TensorDataset(torch.arange(20.0))
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True, num_workers=workers)
        batches = [batch for (batch,) in loader]
        assert all(batch.is_pinned() for batch in batches)
        assert torch.cat([batch.to(device) for batch in batches]).sum().item() == 190


def test_index_errors_are_raised_at_synchronization(device):
    scores, labels = torch.randn(3, 4, device=device), torch.tensor([1, 9, 2], device=device)
    with pytest.raises(IndexError):
        torch.nn.functional.nll_loss(scores, labels).item()
    assert torch.ones(3, device=device).sum().item() == 3


def test_autocast_computes_in_lower_precision(device):
    module, x = torch.nn.Linear(8, 8).to(device), torch.randn(4, 8, device=device)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("ocl", dtype=dtype):
            y = module(x)
            assert y.dtype == dtype
            assert torch.softmax(y, 1).dtype == torch.float32
        torch.testing.assert_close(y.float(), module(x), rtol=5e-2, atol=5e-2)


def test_fallback_is_counted_and_can_be_forbidden():
    code = ("import torch, pytorch_ocl\nx = torch.randn(4, 4, device='ocl')\n"
            "try:\n  torch.linalg.eigvals(x @ x.t()); print(len(torch.ocl.fallbacks()) > 0)\n"
            "except NotImplementedError as e: print('forbidden', 'PYTORCH_OCL_FALLBACK' in str(e))")
    assert run_python(code, PYTORCH_OCL_FALLBACK="").stdout.strip() == "True"
    assert run_python(code, PYTORCH_OCL_FALLBACK="error").stdout.strip() == "forbidden True"


def test_a_fallback_does_not_hide_mixed_devices(device):
    a = torch.randn(3, 3, device=device)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ormqr(a, torch.randn(3), a)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_fork_is_reported():
    code = ("import os, torch, pytorch_ocl\ntorch.ones(1, device='ocl').item()\nif os.fork() == 0:\n"
            "  try: torch.ones(1, device='ocl')\n  except RuntimeError as e: print('Cannot re-initialize' in str(e), flush=True)\n"
            "  os._exit(0)\nelse: os.wait()")
    assert run_python(code).stdout.strip() == "True"


def test_fork_before_use_is_fine():
    code = ("import os, torch, pytorch_ocl\ntorch.ocl.is_available()\nif os.fork() == 0:\n"
            "  print(torch.ones(1, device='ocl').item(), flush=True)\n  os._exit(0)\nelse: os.wait()")
    assert run_python(code).stdout.strip() == "1.0"


def test_compile_kernel(device):
    with torch.ocl.device(device):
        kernel = torch.ocl.compile_kernel(
            "__kernel void axpy(__global const float *x, __global float *y, float a, int n) "
            "{ int i = get_global_id(0); if (i < n) y[i] += a * x[i]; }", "axpy")
        x, y = torch.arange(10.0, device=device), torch.ones(10, device=device)
        kernel(x, y, 2.0, 5)
        assert y.tolist() == [1, 3, 5, 7, 9, 1, 1, 1, 1, 1]
        with pytest.raises(RuntimeError, match="expected 4 arguments, got 2"):
            kernel(x, y)
        with pytest.raises(RuntimeError, match="undeclared"):
            torch.ocl.compile_kernel("__kernel void f() { undeclared = 1; }", "f")


def test_profile(device):
    x = torch.ones(1000, device=device)
    with torch.ocl.profile() as recorded:
        (x + 1).cpu()
    assert len(recorded.commands) >= 2
    assert all(command.end >= command.start for command in recorded.commands)
    assert "copy device to host" in str(recorded)


def test_visible_devices_choose_by_name():
    name = torch.ocl.get_device_name(0)
    code = "import torch, pytorch_ocl; print(torch.ocl.device_count(), torch.ocl.get_device_name(0))"
    assert run_python(code, OCL_VISIBLE_DEVICES=torch.ocl.get_device_properties(0).id).stdout.strip() == f"1 {name}"
    assert run_python("import torch, pytorch_ocl; print(torch.ocl.is_available(), pytorch_ocl.unavailable_reason())",
                      OCL_VISIBLE_DEVICES="nosuch").stdout.startswith("False OCL_VISIBLE_DEVICES=nosuch")


def test_two_processes_build_the_same_kernels_at_once(tmp_path):
    code = "import torch, pytorch_ocl; x = torch.randn(50, device='ocl'); print(torch.softmax(x.sin(), 0).sum().item())"
    environment = {**os.environ, "DLPRIM_CACHE_DIR": str(tmp_path)}
    processes = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True,
                                  env=environment) for _ in range(3)]
    for process in processes:
        assert abs(float(process.communicate(timeout=300)[0]) - 1) < 1e-5
        assert process.returncode == 0


@pytest.mark.parametrize("damage", ["garbage", "truncated"])
def test_a_damaged_program_cache_is_replaced(tmp_path, damage):
    code = "import torch, pytorch_ocl; print(torch.ones(3, device='ocl').exp().sum().item() > 8)"
    assert run_python(code, DLPRIM_CACHE_DIR=str(tmp_path)).stdout.strip() == "True"
    file = tmp_path / "programs.db"
    file.write_bytes(b"x" * 5000 if damage == "garbage" else file.read_bytes()[:5000])
    for _ in range(2):
        assert run_python(code, DLPRIM_CACHE_DIR=str(tmp_path)).stdout.strip() == "True"


def test_memory_stays_flat(device):
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    sizes = []
    for step in range(300):
        optimizer.zero_grad()
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step in (100, 299):
            torch.ocl.synchronize(device)
            sizes.append((torch.ocl.memory_allocated(device), torch.ocl.memory_reserved(device)))
    assert sizes[0] == sizes[1]
