# SPDX-License-Identifier: MIT
"""torch.compile: what cannot be compiled runs eagerly, and says so; other graphs go to Inductor as they are."""

import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from compiling import check, floats, fresh  # noqa: F401
from processes import run_python

from pytorch_ocl import inductor


def test_what_cannot_be_compiled_runs_eagerly(device, monkeypatch):
    from pytorch_ocl.inductor.overrides import OclOverrides

    def refuse(x):
        raise NotImplementedError("sines of this test")

    monkeypatch.setattr(OclOverrides, "sin", staticmethod(refuse))
    x = floats(8)
    with pytest.warns(UserWarning, match="runs eagerly.*sines of this test"):
        found = torch.compile(lambda x: torch.sin(x * 2) + 1)(x.to(device))
    torch.testing.assert_close(found.cpu(), torch.sin(x * 2) + 1)


def test_nextafter_of_16_bit_floats(device):
    for dtype in (torch.bfloat16, torch.float16):
        check(lambda x: torch.nextafter(x * 2, x) + 1, floats(8).to(dtype), device=device)
        check(lambda x, y: torch.nextafter(x, y) * 2, floats(8).to(dtype), floats(8) + 1, device=device)


def test_kernels_that_do_not_build(device, monkeypatch):
    from pytorch_ocl.inductor.kernel import OclKernel

    original = OclKernel.codegen_kernel
    monkeypatch.setattr(
        OclKernel, "codegen_kernel", lambda self, name=None: original(self).replace("= xfirst", "= nothing")
    )
    x = floats(8).requires_grad_()
    inputs = x.detach().to(device).requires_grad_()
    with pytest.warns(UserWarning, match="runs eagerly.*does not build"):
        torch.compile(lambda x: x.sin() * 2)(inputs).sum().backward()
    (x.sin() * 2).sum().backward()
    torch.testing.assert_close(inputs.grad.cpu(), x.grad)


def test_results_of_another_dtype_are_refused(device):
    from pytorch_ocl.inductor.runtime import with_strides

    x = torch.ones(2, 3, device=device)
    assert with_strides(x, (2, 3), (3, 1), "aten.x", torch.float32) is x
    assert with_strides(x, (2, 3), (1, 2), "aten.x").stride() == (1, 2)
    with pytest.raises(AssertionError, match="aten.x: expected a result of torch.int64, got torch.float32"):
        with_strides(x, (2, 3), (3, 1), "aten.x", torch.int64)


def test_versions_of_inductor_without_what_it_takes(device, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pytorch_ocl.inductor.compile", None)
    function = torch.compile(lambda x: x + 1)
    with pytest.warns(UserWarning, match="run eagerly with torch"):
        assert function(torch.ones(3, device=device)).sum().item() == 6


def test_graphs_on_the_cpu_are_left_to_inductor(device, monkeypatch):
    import torch._inductor.compile_fx as compile_fx

    check(lambda x: x.cos() + 1, floats(5), device=device)
    torch._dynamo.reset()
    graphs, original = [], compile_fx.compile_fx
    monkeypatch.setattr(compile_fx, "compile_fx", lambda graph, *a, **k: graphs.append(k) or original(graph, *a, **k))
    x = floats(64, 64)
    torch.testing.assert_close(torch.compile(lambda x: (x.sin() + 1).sum(0))(x), (x.sin() + 1).sum(0))
    assert len(graphs) == 1 and "inner_compile" not in graphs[0]


def test_the_package_does_not_import_inductor():
    assert run_python("import sys; print('torch._inductor.compile_fx' in sys.modules)", fresh=True) == "False"


def test_a_second_process_compiles_nothing(tmp_path):
    code = """
torch.compile(lambda x: (x.sin() + 1).softmax(1))(torch.ones(4, 70, device='ocl')).cpu()
from torch._dynamo.utils import counters
print(counters['inductor']['fxgraph_cache_hit'])
"""
    folders = {
        "DLPRIM_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "DLPRIM_DEBUG_BUILD": "1",
    }
    first, second = (run_python(code, fresh=True, **folders) for _ in range(2))
    assert re.sub(r".*\n", "", first) == "0" and re.sub(r".*\n", "", second) == "1"


def test_versions_that_are_not_tested_run_eagerly(device, monkeypatch):
    monkeypatch.setattr(inductor, "TESTED", ("1.0",))
    x = torch.linspace(-1, 1, 10)
    for number in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = torch.compile(lambda v, number=number: F.gelu(v) + number)(x.to(device))
        assert [str(w.message) for w in caught if "not among those tested, 1.0" in str(w.message)] == [
            str(w.message) for w in caught if "run eagerly" in str(w.message)
        ]
        assert sum("run eagerly" in str(w.message) for w in caught) == 1 - number
        torch.testing.assert_close(found.cpu(), F.gelu(x) + number)


FAR = range(1 << 28, 5 << 28, 1 << 28)


def is_cpu(device):
    return torch.ocl.get_device_properties(device).type == "cpu"


def _every(step, count):
    return lambda x: x[torch.arange(count, device=x.device) * step] + 1


@pytest.mark.parametrize("step, count", [(1, 7), (3, 3), (-1, 7)])
def test_indices_that_follow_from_loops(device, step, count):
    x = floats(7, 9)
    check(_every(step, count), x, device=device)


@pytest.mark.parametrize(
    "function, outside",
    [
        (_every(1, 10), range(7, 10)),
        (_every(3, 5), range(9, 15, 3)),
        (_every(1 << 28, 5), FAR),  # far behind the tensor's memory
        (lambda x: x[:, torch.arange(12, device=x.device)].sum(1), range(9, 12)),
        (lambda x: torch.cat([x, x[torch.arange(5, device=x.device) * (1 << 28)]]) + 1, FAR),  # within a condition
        (lambda x: torch.zeros(4, 9, device=x.device).index_put((torch.arange(7, device=x.device),), x), range(4, 7)),
    ],
)
def test_indices_that_follow_from_loops_are_checked(device, function, outside):
    with pytest.raises(IndexError, match=r"index \d+ is out of bounds for dimension with size") as error:
        torch.compile(function)(floats(7, 9).to(device))
        torch.ocl.synchronize()
    index, on_cpu = int(re.search(r"index (\d+)", str(error.value))[1]), is_cpu(device)
    assert index == outside[0] if on_cpu else index in outside  # a GPU's groups run in any order


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_gradients_of_padding_by_a_condition(device, mode):
    grad, x = floats(2, 9, 9), floats(2, 7, 7)
    backward = getattr(torch.ops.aten, {"reflect": "reflection", "replicate": "replication"}[mode] + "_pad2d_backward")
    check(lambda grad, x: backward(grad, x, [1, 1, 1, 1]), grad, x, device=device)


def test_inductor_without_torch_compile(device, tmp_path):
    code = """
import os, warnings
from torch._inductor import CompiledArtifact, compile, standalone_compile
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch.fx.experimental.proxy_tensor import make_fx
warnings.filterwarnings("error", "torch.compile")
x = torch.randn(5, 7)
on_device = x.to("ocl")
graph = make_fx(lambda x: (torch.relu(x) + x.sum(1, keepdim=True),))(on_device)
expected = torch.relu(x) + x.sum(1, keepdim=True)
found = compile_fx(graph, [on_device], inner_compile=lambda *a, **k: compile_fx_inner(*a, **k))(on_device)
torch.testing.assert_close(found[0].cpu(), expected)
torch.testing.assert_close(compile(graph, [on_device])(on_device)[0].cpu(), expected)
artifact = standalone_compile(graph, [on_device])
torch.testing.assert_close(artifact(on_device)[0].cpu(), expected)
path = os.environ["PROGRAM"]
artifact.save(path=path, format="binary")
torch.testing.assert_close(CompiledArtifact.load(path=path, format="binary")(on_device)[0].cpu(), expected)
"""
    run_python(code, PROGRAM=str(tmp_path / "program"))
