# SPDX-License-Identifier: MIT
"""Graphs: make_graphed_callables."""

import pytest
import torch
import torch.nn.functional as F
from test_graphs import network


def test_modules_with_hooks_are_refused(device):
    model = torch.nn.Linear(3, 3).to(device)
    handle = model.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="without hooks"):
        torch.ocl.make_graphed_callables(model, (torch.ones(2, 3, device=device),))
    handle.remove()
    calls = []
    torch.ocl.make_graphed_callables(model, (torch.ones(2, 3, device=device),))
    model.register_forward_hook(lambda *_: calls.append(1))
    model(torch.ones(2, 3, device=device))
    assert calls == [1]


def test_inputs_in_the_same_memory_with_other_strides(device):
    x = torch.arange(9.0, device=device).view(3, 3)
    function = torch.ocl.make_graphed_callables(lambda x: x * 1, (x,))
    assert torch.equal(function(x.t()), torch.arange(9.0).view(3, 3).t().to(device))


@pytest.mark.parametrize("training", [True, False])
def test_graphed_modules(device, training):
    model, eager = network(device).train(training), network(device).train(training)
    sample = torch.randn(4, 3, 8, 8, device=device, requires_grad=True)
    before = [b.clone() for b in model.buffers()]
    graphed = torch.ocl.make_graphed_callables(model, (sample,), num_warmup_iters=2)
    assert graphed is model
    for own, kept in zip(model.buffers(), before):  # the warm-up counts for batch norm's statistics
        own.copy_(kept)
    for number in range(3):
        x = torch.randn(4, 3, 8, 8)
        results = []
        for each in (model, eager):
            torch.manual_seed(number)
            given = x.to(device).requires_grad_()
            each.zero_grad(set_to_none=True)
            out = each(given)
            out.square().sum().backward()
            results.append([out.detach().clone(), given.grad, *(p.grad.clone() for p in each.parameters())])
        for a, b in zip(*results):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    if training:
        model.eval(), eager.eval()  # not captured: runs as it is
        torch.testing.assert_close(model(sample[:2]), eager(sample[:2]), rtol=1e-4, atol=1e-4)


def test_several_graphed_callables(device):
    first, second = torch.nn.Linear(6, 5).to(device), torch.nn.Linear(5, 2).to(device)

    def tail(x, y):
        return {"sum": second(x) + y, "whole": x > 0}

    a = torch.randn(3, 6, device=device, requires_grad=True)
    b, c = torch.randn(3, 5, device=device, requires_grad=True), torch.randn(3, 2, device=device)
    one, two = torch.ocl.make_graphed_callables((first, tail), ((a,), (b, c)))
    x = torch.randn(3, 6, device=device, requires_grad=True)
    found = two(one(x), c)
    found["sum"].square().sum().backward()
    got = x.grad.clone()
    x.grad = None
    wanted = F.linear(x, first.weight, first.bias)
    (second(wanted) + c).square().sum().backward()
    torch.testing.assert_close(got, x.grad)
    assert torch.equal(found["whole"], wanted > 0)
    with pytest.raises(RuntimeError, match="expected a tensor of size"):
        two(torch.randn(4, 5, device=device), c)
    with pytest.raises(TypeError, match="tensors only"):
        torch.ocl.make_graphed_callables(lambda x, n: x * n, (a, 2))


def test_results_that_need_no_gradient(device):
    weight = torch.ones(3, device=device, requires_grad=True)

    def work(x):
        return x * weight, x.detach() + 1

    x = torch.ones(3, device=device, requires_grad=True)
    found = torch.ocl.make_graphed_callables(work, (x,))(x)
    assert [f.requires_grad for f in found] == [True, False]
    with torch.no_grad():
        eval_only = torch.ocl.make_graphed_callables(lambda x: x * 2, (torch.ones(3, device=device),))
    assert not eval_only(torch.ones(3, device=device)).requires_grad


def test_graphed_callables_of_another_device(device):
    if torch.ocl.device_count() < 2:
        pytest.skip("there is one device")
    model = torch.nn.Linear(2, 2).to("ocl:1")
    x = torch.ones(1, 2, device="ocl:1", requires_grad=True)
    wanted = [model(x * 2).detach().clone(), torch.autograd.grad(model(x * 2).sum(), x)[0]]
    graphed = torch.ocl.make_graphed_callables(model, (torch.zeros_like(x, requires_grad=True),))
    out = graphed(x * 2)
    torch.testing.assert_close([out.detach(), torch.autograd.grad(out.sum(), x)[0]], wanted)
    assert torch.ocl.current_device() == 0
