# SPDX-License-Identifier: MIT
"""torch.compile: graphs with ocl tensors run eagerly and say so; other graphs go to Inductor."""
import warnings

import pytest
import torch
from processes import run_python

from pytorch_ocl import inductor


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    inductor._warned = False


def compiled(function, **options):
    """The compiled function, and a list that gets what it warns of."""
    seen, program = [], torch.compile(function, **options)

    def call(*arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = program(*arguments)
        seen.extend(w for w in caught if "Inductor cannot generate code for ocl" in str(w.message))
        return result

    return call, seen


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}, {"dynamic": True}, {"mode": "reduce-overhead"},
                                     {"mode": "max-autotune"}, {"options": {"max_autotune": True}}])
def test_graphs_run_eagerly_with_one_warning(device, options):
    call, seen = compiled(lambda x: (x.sin() + 1).sum(), **options)
    for size in (3, 5, 8):
        x = torch.arange(float(size), device=device, requires_grad=True)
        y = call(x)
        y.backward()
        torch.testing.assert_close(x.grad.cpu(), torch.arange(float(size)).cos())
        assert y.device.type == "ocl"
    assert len(seen) == 1


def test_a_model_trains(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    plain = [p.detach().clone() for p in model.parameters()]
    model.to(device)
    call, _ = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        loss = call(torch.linspace(-1, 1, 24, device=device).view(6, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and not torch.equal(plain[0], model[0].weight.cpu())


@pytest.mark.parametrize("function", [
    lambda x: torch.ones(3, device="ocl") * len(x),  # only what the graph makes is on the device
    lambda x: x.to("ocl").add(1),
    lambda x: torch.cond(x.to("ocl").sum() > 0, lambda x: x + 1, lambda x: x - 1, (x.to("ocl"),)),
])
def test_tensors_of_the_device_within_a_graph(function):
    call, seen = compiled(function)
    x = torch.arange(3.0)
    torch.testing.assert_close(call(x).cpu(), function(x).cpu())
    assert len(seen) == 1


def test_graphs_on_the_cpu_are_left_to_inductor(monkeypatch):
    import torch._inductor.compile_fx as compile_fx

    graphs = []
    monkeypatch.setattr(compile_fx, "compile_fx", lambda graph, inputs, **_: graphs.append(graph) or graph)
    call, seen = compiled(lambda x: x.sin() + 1)
    x = torch.arange(3.0)
    torch.testing.assert_close(call(x), x.sin() + 1)
    assert len(graphs) == 1 and not seen


def test_the_package_does_not_import_inductor():
    assert run_python("import sys; print('torch._inductor.compile_fx' in sys.modules)") == "False"
