# SPDX-License-Identifier: MIT
"""AOTInductor: packages for ocl devices give what eager programs give, in Python and in a C++ program without it."""

import ctypes
import inspect
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from compiling import floats, fresh, integers, moved, no_eager_graphs  # noqa: F401
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = torch.export.Dim("batch", min=2, max=64)


def package(model, inputs, folder, device, name="model", shapes=None):
    """The path of a package of the model on the device."""
    with torch.no_grad():
        program = torch.export.export(model.eval().to(device), moved(inputs, device), dynamic_shapes=shapes)
    return torch._inductor.aoti_compile_and_package(program, package_path=str(folder / f"{name}.pt2"))


def agree(loaded, model, inputs, device, tolerance=1e-5):
    """The loaded program gives what the model gives on the CPU."""
    with torch.no_grad():
        expected = model.cpu()(*inputs)
    found = moved(loaded(*moved(inputs, device)), "cpu")
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, stride=2)
        )
        self.head = nn.Linear(12 * 3 * 3, 5)

    def forward(self, x):
        return self.head(F.relu(self.features(x)).flatten(1))


class Block(nn.Module):
    """A transformer's, of heads of 8."""

    def __init__(self, width=32):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x, mask):
        q, k, v = (part.unflatten(-1, (-1, 8)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


class Lookup(nn.Module):
    """Of integers and booleans, with a number on the CPU among its buffers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(floats(20, 16))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, index, keep):
        rows = self.table[index] * self.scale
        return torch.where(keep[..., None], rows, -rows).sum(1), keep.sum(), (index % 7).amax(1), index.half() / 3


class Operators(nn.Module):
    """Without fused forms: lists, lists of optional tensors, devices, enumerations, results of unknown size."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(floats(10, 10))

    def forward(self, x, index):
        rows, order = torch.sort(x, dim=1)
        return (
            rows,
            order,
            torch.topk(x, 3, dim=1).values,
            torch.cumsum(x, 0),
            x.index_put((index,), torch.ones(3, 10, device=x.device), accumulate=True),
            torch.scatter_reduce(x, 0, index[:, None].expand(3, 10), x[:3], "amax"),
            x.view(torch.int32).bitwise_and(7),
            torch.arange(10, device=x.device) + x.sum(0),
            torch.full((3,), 2.5, device=x.device),
            (x > 0).nonzero(),
            torch.linalg.inv(self.weight @ self.weight.T + torch.eye(10, device=x.device)),
            x.mm(self.weight),
        )


@pytest.fixture(scope="module")
def lookup(request, tmp_path_factory):
    """A package of Lookup, its model on the CPU, and inputs."""
    device = request.config.getoption("--ocl-device")
    inputs = (integers(0, 20, 4, 6), floats(4, 6) > 0)
    shapes = {"index": {0: BATCH}, "keep": {0: BATCH}}
    path = package(Lookup(), inputs, tmp_path_factory.mktemp("aot"), device, "lookup", shapes)
    return path, Lookup(), inputs


def load(path, device):
    return torch._inductor.aoti_load_package(path, device_index=torch.device(device).index)


def test_convolutions_with_changing_batch(device, tmp_path):
    model, x = Convolutions(), floats(4, 3, 16, 16)
    loaded = load(package(model, (x,), tmp_path, device, shapes={"x": {0: BATCH}}), device)
    agree(loaded, model, (x,), device)
    agree(loaded, model, (floats(7, 3, 16, 16),), device)


@pytest.mark.whole
def test_transformer_block_as_compiled(device, tmp_path):
    model, inputs = Block(), (floats(3, 9, 32), torch.ones(9, 9).tril().bool())
    loaded = load(package(model, inputs, tmp_path, device, shapes={"x": {0: BATCH}, "mask": None}), device)
    agree(loaded, model, inputs, device)
    arguments = moved((floats(5, 9, 32), inputs[1]), device)
    with torch.no_grad(), no_eager_graphs():
        compiled = torch.compile(model.to(device), dynamic=True)(*arguments)
    torch.testing.assert_close(loaded(*arguments), compiled, rtol=1e-6, atol=1e-6)


def test_integers_and_booleans(device, lookup):
    path, model, inputs = lookup
    loaded = load(path, device)
    agree(loaded, model, inputs, device)
    agree(loaded, model, (integers(0, 20, 9, 6), floats(9, 6) > 0), device)


@pytest.mark.whole
def test_operators_without_fused_forms(device, tmp_path):
    model, inputs = Operators(), (floats(10, 10), torch.tensor([1, 4, 1]))
    agree(load(package(model, inputs, tmp_path, device), device), model, inputs, device, 1e-4)


def test_index_out_of_range(device, lookup):
    path, _, inputs = lookup
    index, keep = moved(inputs, device)
    index[1, 2] = 20
    loaded = load(path, device)
    with pytest.raises(IndexError, match="index 20 is out of bounds for dimension"):
        loaded(index, keep)
        torch.ocl.synchronize()
    torch.ocl.synchronize()
    loaded(*moved(inputs, device))
    torch.ocl.synchronize()


def test_weights_are_on_the_device_once(device, lookup):
    torch.ocl.synchronize()
    path, model, inputs = lookup
    before = torch.ocl.memory_allocated(device)
    first, second = load(path, device), load(path, device)
    held = torch.ocl.memory_allocated(device) - before
    assert 2 * 20 * 16 * 4 <= held <= 2 * 20 * 16 * 4 + 4096
    for loaded in (first, second, first):
        agree(loaded, model, inputs, device)
    del first, second, loaded
    torch.ocl.synchronize()
    assert torch.ocl.memory_allocated(device) == before


def test_new_weights(device, lookup):
    path, model, inputs = lookup
    loaded = load(path, device)
    assert "table" in loaded.get_constant_fqns()
    changed = Lookup()
    changed.table = nn.Parameter(floats(20, 16) * 3)
    table = changed.table.detach()
    with pytest.raises(RuntimeError, match="is expected on ocl:.*, but is on cpu"):
        loaded.load_constants({"table": table}, check_full_update=False)
    with pytest.raises(RuntimeError, match=r"is expected to be Float of sizes \[20, 16\]"):
        loaded.load_constants({"table": table[:7].to(device)}, check_full_update=False)
    agree(loaded, model, inputs, device)
    loaded.load_constants({"table": table.to(device)}, check_full_update=False)
    agree(loaded, changed, inputs, device)
    copies = "allow_h2d_copy" in inspect.signature(loaded.load_constants).parameters  # since PyTorch 2.13
    given, how = (model.table.detach(), {"allow_h2d_copy": True}) if copies else (model.table.detach().to(device), {})
    loaded.load_constants({"table": given}, check_full_update=False, **how)
    agree(loaded, model, inputs, device)
    own = table.to(device)
    loaded.load_constants({"table": own}, check_full_update=False, user_managed=True)
    agree(loaded, changed, inputs, device)
    own.copy_(model.table.detach())  # the program reads the caller's memory
    agree(loaded, model, inputs, device)


def test_errors(device, lookup):
    path, _, inputs = lookup
    loaded = load(path, device)
    with pytest.raises(RuntimeError, match="input 0 of the model is expected on ocl:.*, but is on the CPU"):
        loaded(*inputs)
    with pytest.raises(RuntimeError, match="expected inputs? vector size|to be 2, but got 1"):
        loaded(inputs[0].to(device))
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch._inductor.aoti_load_package(path, device_index=100)


def test_a_process_without_devices(lookup):
    program = f"import torch, pytorch_ocl; torch._inductor.aoti_load_package({lookup[0]!r})"
    environment = {**os.environ, "OCL_VISIBLE_DEVICES": "no such device"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: the model runs on ocl devices, but there is none" in done.stderr


@pytest.mark.whole
def test_a_program_in_cpp(device, tmp_path):
    environment = {**os.environ, "PYTHON": sys.executable}
    index = str(torch.device(device).index or 0)
    done = subprocess.run([ROOT / "examples/aot/run.sh", index], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "PASS" in done.stdout, done.stdout + done.stderr


@pytest.mark.whole
def test_other_devices_stay_as_they_are(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.GELU()), floats(2, 4)
    loaded = torch._inductor.aoti_load_package(package(model, (x,), tmp_path, "cpu"))
    agree(loaded, model, (x,), "cpu")


def test_versions_that_are_not_tested(device, tmp_path, monkeypatch):
    monkeypatch.setattr("pytorch_ocl.inductor.TESTED", ("1.0",))
    with pytest.raises(RuntimeError, match="AOTInductor compiles programs for ocl devices with torch 1.0"):
        package(nn.Linear(4, 3), (floats(2, 4),), tmp_path, device)


@pytest.mark.whole
def test_programs_for_other_kernels(device, tmp_path, monkeypatch):
    monkeypatch.setattr("pytorch_ocl.inductor.cpp_wrapper.kernels_version", lambda: 1)
    path = package(nn.GELU(), (floats(2, 4),), tmp_path, device)
    with pytest.raises(RuntimeError, match="compiled by another version of pytorch_ocl: compile it again"):
        load(path, device)


@pytest.mark.whole
def test_kernels_that_do_not_build(device, tmp_path, monkeypatch):
    from pytorch_ocl.inductor import runtime

    build = runtime.FusedKernel.__init__

    def broken(self, name, *, source, **fields):
        build(self, name, source=f"{source}\n#error does not build\n", **fields)

    monkeypatch.setattr(runtime.FusedKernel, "__init__", broken)
    with pytest.raises(RuntimeError, match="does not build"):
        package(nn.GELU(), (floats(2, 4),), tmp_path, device)


def test_what_programs_cannot_do(device, tmp_path):
    class Power(nn.Module):
        def forward(self, x):
            return torch.pow(x.to(torch.complex64), 1 + 2j).abs()

    with pytest.raises(Exception, match="NotImplementedError: complex arguments of operators in a C\\+\\+ program"):
        package(Power(), (floats(2, 4),), tmp_path, device)


def test_streams(device, lookup):
    path, model, inputs = lookup
    loaded, arguments = load(path, device), moved(inputs, device)
    torch.ocl.synchronize(device)
    stream = torch.ocl.Stream(device=device)
    with torch.ocl.stream(stream):
        agree(loaded, model, inputs, device)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    with pytest.raises(RuntimeError, match="models run on their device's current stream"):
        loaded.loader.run(list(arguments), capsule(1, None, None))


@pytest.mark.whole
def test_compiled_with_a_program_in_cpp(device):
    model, inputs = Block(), (floats(3, 9, 32), torch.ones(9, 9).tril().bool())
    expected = model(*inputs)
    with torch._inductor.config.patch(cpp_wrapper=True), no_eager_graphs():
        compiled = torch.compile(model.to(device))
        torch.testing.assert_close(compiled(*moved(inputs, device)).cpu(), expected, rtol=1e-5, atol=1e-5)
