# SPDX-License-Identifier: MIT
"""Tensors between devices, files, processes and libraries."""

import copy
import ctypes
import io
import pickle
import warnings
from multiprocessing.reduction import ForkingPickler

import pytest
import torch


def everywhere():
    return ["cpu"] + [f"ocl:{i}" for i in range(torch.ocl.device_count())]


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


def test_copies_between_devices_and_layouts(device):
    source = torch.randn(4, 6)
    for other in everywhere():
        moved = source.to(other).to(device)
        assert torch.equal(moved.cpu(), source)
        assert torch.equal(moved.t().to(other).cpu(), source.t())
        assert torch.equal(moved[::2, 1::2].to(other, torch.int32).cpu(), source[::2, 1::2].int())
        target = torch.zeros(3, 4, 6, device=other)
        target.copy_(moved)
        assert torch.equal(target.cpu(), source.expand(3, 4, 6))


def test_conjugate_and_negative_views_are_copied(device):
    host = torch.complex(torch.arange(4.0), torch.arange(4.0) + 1)
    ours = host.to(device)
    for other in everywhere():
        assert torch.equal(ours.conj().to(other).cpu(), host.conj().resolve_conj())
        assert torch.equal(host.conj().to(other).cpu(), host.conj().resolve_conj())
        assert torch.equal(ours.conj().imag.to(other).cpu(), host.conj().imag.resolve_neg())
        target = torch.empty(4, dtype=torch.complex64, device=other)
        assert torch.equal(target.copy_(ours.conj()).cpu(), host.conj().resolve_conj())
        assert torch.equal(target.conj().copy_(ours).cpu().resolve_conj(), host)
    assert torch.equal(torch._neg_view(ours.real).clone().cpu(), -host.real)


def test_modules_keep_their_parameters(device):
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    parameter, optimizer = module[0].weight, torch.optim.SGD(module.parameters(), lr=1.0)
    module.to(device)
    assert module[0].weight is parameter is module[1].weight and parameter.device == torch.device(device)
    module(torch.ones(1, 3, device=device)).sum().backward()
    before = parameter.detach().clone()
    optimizer.step()
    assert not torch.equal(before.cpu(), module[0].weight.detach().cpu())
    module.cpu()
    assert module[0].weight is parameter and parameter.device.type == "cpu"


def test_deepcopy_and_pickle(device):
    module = torch.nn.Linear(3, 4).to(device)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other.weight.device == module.weight.device
        assert other.weight.data_ptr() != module.weight.data_ptr()
        assert torch.equal(other.weight.detach().cpu(), module.weight.detach().cpu())
    view = torch.arange(6, device=device).view(2, 3).t()[1:]
    for other in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert other.device == view.device and other.stride() == view.stride()
        assert other.tolist() == view.tolist()


@pytest.mark.parametrize("legacy", [False, True])
def test_save_and_load(device, legacy, tmp_path):
    module = torch.nn.Linear(3, 4).to(device)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 3, device=device)).sum().backward()
    optimizer.step()
    state = {"module": module.state_dict(), "optimizer": optimizer.state_dict(), "x": torch.arange(3)}
    torch.save(state, tmp_path / "state.pt", _use_new_zipfile_serialization=not legacy)
    for location in (None, "cpu", device, torch.device(device), lambda storage, _: storage.ocl()):
        found = torch.load(tmp_path / "state.pt", map_location=location)
        expected = {None: device, "cpu": "cpu"}.get(location, device)
        assert found["module"]["weight"].device == torch.device(expected)
        assert torch.equal(found["module"]["weight"].cpu(), module.weight.detach().cpu())
        fresh = torch.nn.Linear(3, 4).to(device)
        fresh.load_state_dict(found["module"])
        torch.optim.Adam(fresh.parameters()).load_state_dict(found["optimizer"])
        assert torch.equal(fresh.bias.detach().cpu(), module.bias.detach().cpu())
    moved = torch.load(tmp_path / "state.pt", map_location={device: "cpu"})
    assert moved["module"]["bias"].device.type == "cpu" and moved["x"].tolist() == [0, 1, 2]


def test_load_to_a_device_that_does_not_exist(device):
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="device"):
        torch.load(buffer, map_location="ocl:99")


def test_storage_resizes_and_keeps_its_bytes(device):
    made = torch.arange(4.0, device=device)
    made.untyped_storage().resize_(64)
    assert made.untyped_storage().nbytes() == 64 and made.tolist() == [0, 1, 2, 3]
    made.untyped_storage().resize_(0)
    assert made.untyped_storage().nbytes() == 0 == made.untyped_storage().data_ptr()
    other = torch.arange(4.0, device=device).resize_(8)
    assert other[:4].tolist() == [0, 1, 2, 3]
    alias = torch.empty(0, device=device).set_(other.untyped_storage(), 1, (2,), (2,))
    assert alias.tolist() == [1, 3]


def test_deterministic_fill(device):
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(10, device=device).isnan().all()
        assert torch.empty_strided((2, 3), (1, 2), device=device).isnan().all()
        assert torch.zeros(2, device=device).resize_(4)[2:].isnan().all()
        assert torch.empty(3, dtype=torch.int32, device=device).tolist() == [2**31 - 1] * 3
    finally:
        torch.use_deterministic_algorithms(False)


def test_dlpack(device):
    ours = torch.arange(6.0, device=device)[2:]
    capsule = torch.utils.dlpack.to_dlpack(ours)
    for shared in (torch.from_dlpack(ours), torch.utils.dlpack.from_dlpack(capsule)):
        assert shared.device == ours.device and shared.data_ptr() == ours.data_ptr()
        assert shared.tolist() == [2, 3, 4, 5]
    assert ours.__dlpack_device__() == (12, ours.device.index)
    capsule = ours.__dlpack__()
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    assert is_valid(capsule, b"dltensor") or is_valid(capsule, b"dltensor_versioned")


def test_numpy_asks_for_the_cpu(device):
    with pytest.raises(TypeError, match="cpu"):
        torch.ones(2, device=device).numpy()


def test_sending_between_processes(device):
    made = torch.nn.Parameter(torch.ones(3, device=device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = pickle.loads(ForkingPickler.dumps(made))
    assert isinstance(back, torch.nn.Parameter) and back.device == made.device
    assert torch.equal(back.cpu(), made.cpu())
    with pytest.raises(RuntimeError, match="detach"):
        ForkingPickler.dumps(made * 2)


def test_fake_and_meta_tensors(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        made = torch.nn.functional.linear(torch.empty(2, 3, device=device), torch.empty(4, 3, device=device))
    assert made.device == torch.device(device) and made.shape == (2, 4)
    module = torch.nn.Linear(2, 2, device="meta").to_empty(device=device)
    assert module.weight.device == torch.device(device)


def test_storage_types(device):
    for dtype, name in torch.storage._dtype_to_storage_type_map().items():
        if name.startswith("Q"):
            continue
        x = torch.zeros(3, dtype=dtype, device=device)
        assert x.storage_type() is getattr(torch.ocl, name)
        assert isinstance(x.storage(), getattr(torch.ocl, name)) and not isinstance(x.storage(), torch.FloatStorage)
    made = torch.ocl.FloatStorage(4)
    assert made.device.type == "ocl" and made.dtype == torch.float32 and len(made) == 4


def test_tensor_types(device):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        x = torch.ones(3, dtype=dtype, device=device)
        kind = getattr(torch.ocl, x.type().removeprefix("torch.ocl."))
        assert isinstance(x, kind) and not isinstance(x.cpu(), kind) and not isinstance(x, torch.ocl.DoubleTensor)
        assert isinstance(torch.ones(3).type(kind), kind) and repr(kind) == f"<class '{x.type()}'>"
    assert isinstance(torch.nn.Linear(2, 2).type(torch.ocl.HalfTensor).weight, torch.ocl.HalfTensor)
    made = torch.ocl.LongTensor([1, 2])
    assert made.tolist() == [1, 2] and made.device.type == "ocl" and torch.ocl.FloatTensor(2, 3).shape == (2, 3)


def test_complex_lines(device):
    for dtype in (torch.complex64, torch.complex128):
        for make in (torch.linspace, torch.logspace):
            for start, end in ((1 + 2j, -3 + 0.5j), (0, 2j), (-1, 1)):
                ours = make(start, end, 7, dtype=dtype, device=device)
                torch.testing.assert_close(ours.cpu(), make(start, end, 7, dtype=dtype))


def test_tensors_of_zeros_without_memory(device):
    """Those that autograd makes where a derivative is zero."""
    zeros, ones = torch._efficientzerotensor((3,), device=device), torch.ones(3, device=device)
    assert not torch.ones(2, 3, device=device).copy_(zeros).any() and not torch.ones(3).copy_(zeros).any()
    for product in (torch.dot(zeros, ones), torch.vdot(ones, zeros), torch.linalg.cross(zeros, ones)):
        assert product._is_zerotensor() and not product.cpu().any()
    for write in (lambda: zeros.copy_(ones), lambda: zeros.fill_(1), lambda: torch.add(ones, 1, out=zeros)):
        with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
            write()
    with pytest.raises(RuntimeError, match="size of tensor|must match"):
        torch.ones(2, device=device).copy_(zeros)


def test_tensors_whose_memory_was_freed(device):
    """As FSDP frees parameters: to use one is an error, not a read through a null pointer."""
    x, y = torch.ones(8, device=device), torch.ones(8, device=device)
    kept = x[2:]
    x.untyped_storage().resize_(0)
    for use in (lambda: x + y, lambda: y.copy_(x), lambda: kept.sum(), lambda: torch.dot(x, y), lambda: y.add_(x)):
        with pytest.raises(RuntimeError, match="storage was freed|requiring a storage size"):
            use()
    x.untyped_storage().resize_(32)
    assert torch.equal(x.fill_(3).cpu(), torch.full((8,), 3.0))


def test_searchsorted_warns_of_copies(device):
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="boundary tensor is non-contiguous"):
            torch.searchsorted(torch.arange(8.0, device=device)[::2], torch.tensor([3.0], device=device))
    finally:
        torch.set_warn_always(False)
