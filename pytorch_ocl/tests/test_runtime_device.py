# SPDX-License-Identifier: MIT
"""Devices: counting, choosing, describing; the names torch.ocl and torch.backends.ocl offer."""

import pytest
import torch
from processes import run_python

import pytorch_ocl

several = pytest.mark.skipif("torch.ocl.device_count() < 2", reason="needs two devices")


def test_tensors_compute_and_print(device):
    assert (torch.ones(3, device=device) + 1).tolist() == [2, 2, 2]
    assert torch.arange(5, device=device).sum().item() == 10
    assert repr(torch.tensor([1.0, 2.5], device=device)) == f"tensor([1.0000, 2.5000], device='{device}')"
    assert repr(torch.arange(2000, device=device)).startswith("tensor([   0,    1,    2,  ...")


def test_accelerator_is_ocl(device):
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "ocl"
    assert torch.accelerator.device_count() == torch.ocl.device_count() > 0
    torch.accelerator.set_device_index(torch.device(device).index)
    assert torch.accelerator.current_device_index() == torch.device(device).index
    assert torch.ocl.current_device() == torch.device(device).index
    torch.accelerator.synchronize()
    torch.ocl.set_device(0)


def test_contexts_choose_the_device():
    for index in range(torch.ocl.device_count()):
        for where in (index, f"ocl:{index}", torch.device("ocl", index)):
            with torch.ocl.device(where):
                assert torch.ocl.current_device() == index
                assert torch.empty(1, device="ocl").device.index == index
        with torch.device(f"ocl:{index}"):
            assert torch.ones(2).device.index == index
        with torch.ocl.device_of(torch.empty(1, device=f"ocl:{index}")):
            assert torch.ocl.current_device() == index
        with torch.ocl.device(-1), torch.ocl.device(None), torch.ocl.device_of(torch.empty(1)):
            assert torch.ocl.current_device() == 0
    assert torch.ocl.current_device() == 0


def test_operators_run_on_the_device_of_their_tensors():
    last = torch.ocl.device_count() - 1
    made = torch.arange(5, device=f"ocl:{last}")
    assert torch.ocl.current_device() == 0
    for result in (made + 1, made.float().softmax(0), torch.cat([made, made]), made.clone().resize_(3)):
        assert result.device.index == last == result.untyped_storage().device.index
    assert (made * 2).tolist() == [0, 2, 4, 6, 8]
    module = torch.nn.Linear(5, 2, device=made.device)
    module(made.float()).sum().backward()
    assert module.weight.grad.device == made.device and module.weight.grad.tolist() == [made.tolist()] * 2


@several
def test_two_devices_at_once():
    first, second = torch.randn(3, 4, device="ocl:0"), torch.randn(3, 4, device="ocl:1")
    moved = first.to("ocl:1", non_blocking=True)
    assert moved.device.index == 1 and torch.equal((moved + second).cpu(), first.cpu() + second.cpu())
    second.t().copy_(first.t())
    assert torch.equal(second.cpu(), first.cpu())
    with pytest.raises(RuntimeError, match="same device"):
        first + second
    with torch.ocl.stream(torch.ocl.Stream("ocl:1")):
        assert torch.ocl.current_device() == 1 and torch.ones(2, device="ocl").device.index == 1
        assert torch.ocl.current_stream(0) == torch.ocl.default_stream(0)
    torch.ocl.manual_seed_all(3)
    assert torch.equal(torch.rand(9, device="ocl:0").cpu(), torch.rand(9, device="ocl:1").cpu())


def test_tensors_of_different_devices_do_not_mix(device):
    ours, host = torch.ones(2, 2, device=device), torch.ones(2, 2)
    for function in (torch.mm, torch.add, torch.ormqr, torch.nn.functional.linear):
        with pytest.raises(RuntimeError, match="same device"):
            function(*(ours, host, ours)[: 3 if function is torch.ormqr else 2])
    assert (ours + torch.tensor(2.0)).tolist() == [[3, 3], [3, 3]]  # numbers on the CPU may join in


def test_properties(device):
    properties = torch.ocl.get_device_properties(device)
    assert properties.name == torch.ocl.get_device_name(device) and properties.total_memory > 1 << 20
    assert torch.ocl.get_device_capability(device)["max_work_group_size"] >= 1
    assert properties.type in ("cpu", "gpu", "accelerator") and isinstance(properties.has_fp64, bool)
    assert torch.float32 in torch.accelerator.get_device_capability(device)["supported_dtypes"]
    assert torch.ocl.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert torch.ocl.is_bf16_supported()
    assert properties.type == "gpu" or not torch.ocl.is_tf32_supported()


def test_names_of_torch_xpu():
    # Pluggable allocators have no counterpart in OpenCL 1.2. Graphs are torch.ocl.OCLGraph.
    absent = {"XPUPluggableAllocator", "XPUGraph", "change_current_allocator", "MemPool", "use_mem_pool"}
    assert [name for name in torch.xpu.__all__ if name not in absent and not hasattr(torch.ocl, name)] == []
    assert all(
        getattr(torch.ocl, name).__doc__ for name in torch.xpu.__all__ if callable(getattr(torch.ocl, name, None))
    )
    with pytest.raises(AttributeError, match="torch.ocl.*has no attribute 'XPUGraph'"):
        torch.ocl.XPUGraph  # noqa: B018


@pytest.mark.parametrize("name", ["clock_rate", "list_gpu_processes", "power_draw", "temperature", "utilization"])
def test_what_opencl_does_not_tell(name):
    with pytest.raises(NotImplementedError, match=f"torch.ocl.{name}"):
        getattr(torch.ocl, name)()


def test_generated_names(device):
    x = torch.ones(2)
    assert x.ocl(torch.device(device).index).is_ocl and not x.is_ocl
    assert torch.nn.Linear(2, 2).ocl().weight.is_ocl
    assert x.untyped_storage().ocl().device.type == "ocl"
    assert x.to(device).type() == "torch.ocl.FloatTensor" and x.type("torch.ocl.FloatTensor").is_ocl
    assert torch.tensor([1], device=device).new_zeros(2).is_ocl


def test_backends_module():
    import torch.backends.ocl

    assert torch.backends.ocl.is_built() and torch.backends.ocl.is_available()
    assert torch.backends.ocl.version() == pytorch_ocl.__version__ and torch.backends.ocl.benchmark is False
    with torch.backends.ocl.flags(benchmark=True):
        assert torch.backends.ocl.benchmark is True
    assert torch.backends.ocl.benchmark is False
    with pytest.raises(RuntimeError, match="expects a bool"):
        torch.backends.ocl.benchmark = 1


IDS = "print(*[torch.ocl.get_device_properties(i).id for i in range(torch.ocl.device_count())])"


def test_visible_devices():
    ids = [torch.ocl.get_device_properties(i).id for i in range(torch.ocl.device_count())]
    for index, chosen in enumerate(ids):
        name = torch.ocl.get_device_properties(index).platform_name
        for pattern in (chosen, name, name.upper()[:8]):
            assert chosen in run_python(IDS, OCL_VISIBLE_DEVICES=pattern).split()
    order = ids[::-1]
    assert run_python(IDS, OCL_VISIBLE_DEVICES=", ".join(order)).split() == order
    out = run_python("print(torch.ocl.is_available(), pytorch_ocl.unavailable_reason())", OCL_VISIBLE_DEVICES="nosuch")
    assert out.startswith("False OCL_VISIBLE_DEVICES=nosuch matches none")


WITHOUT_FLOAT64 = """
import copy, pytest, torch
import torch.nn.functional as F
torch.manual_seed(0)
assert not torch.ocl.get_device_properties("ocl").has_fp64
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 3))
ours = copy.deepcopy(model).to("ocl")
x, y = torch.randn(20, 8), torch.randint(0, 3, (20,))
for net, device in ((model, "cpu"), (ours, "ocl")):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x.to(device) * 0.5 + 0.25), y.to(device)) / 1.5
        loss.backward()
        optimizer.step()
for a, b in zip(model.parameters(), ours.parameters()):
    torch.testing.assert_close(a, b.cpu(), rtol=1e-3, atol=1e-4)
x = x.to("ocl")
assert ((x > 0.5) == (x * 2.5 > 1.25)).all() and torch.equal(torch.where(x > 0, x, 0.5), x.clamp(0) + 0.5 * (x <= 0))
for call in (lambda: torch.rand(3, dtype=torch.float64, device="ocl"), lambda: x.double()):
    with pytest.raises(NotImplementedError, match="float64 is not available"):
        call()
"""


def test_a_device_without_float64():
    run_python(WITHOUT_FLOAT64, DLPRIM_SIMULATE="fp64=0")
