# SPDX-License-Identifier: MIT
"""Recurrent modules and their cells against the CPU, with no operator left to the CPU."""

import copy

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def outputs_and_gradients(module, *inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = module(*inputs)
    parts = out if isinstance(out, tuple) else (out,)
    flat = [y for part in parts for y in (part if isinstance(part, tuple) else (part,))]
    torch.autograd.backward(flat, [torch.linspace(-1, 1, y.numel()).view(y.shape).to(y) for y in flat])
    return [y.detach() for y in flat] + [x.grad for x in inputs] + [p.grad for p in module.parameters()]


def assert_follows_cpu(module, device, *inputs, rtol=1e-4, atol=1e-5):
    on_device = copy.deepcopy(module).to(device)
    torch.ocl.reset_fallbacks()
    actual = outputs_and_gradients(on_device, *(x.to(device) for x in inputs))
    fallbacks = torch.ocl.fallbacks()
    for x, y in zip(actual, outputs_and_gradients(module, *inputs), strict=True):
        torch.testing.assert_close(x.cpu(), y, rtol=rtol, atol=atol)
    assert not fallbacks


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"batch_first": True, "bias": False},
    ],
    ids=["plain", "deep_bidirectional", "batch_first_no_bias"],
)
def test_module(device, kind, options):
    torch.manual_seed(0)
    assert_follows_cpu(getattr(torch.nn, kind)(5, 7, **options), device, torch.randn(4, 3, 5))


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.bfloat16, 6e-2), (torch.float16, 1e-2)])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dtypes(device, kind, dtype, tolerance):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(5, 6).to(dtype)
    assert_follows_cpu(module, device, torch.randn(3, 2, 5).to(dtype), rtol=tolerance, atol=tolerance)


def test_projection(device):
    torch.manual_seed(0)
    assert_follows_cpu(torch.nn.LSTM(5, 7, proj_size=3), device, torch.randn(4, 3, 5))


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cell(device, kind):
    torch.manual_seed(0)
    assert_follows_cpu(getattr(torch.nn, kind)(5, 7), device, torch.randn(3, 5))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences(device, kind):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(5, 7)
    on_device, x, lengths = copy.deepcopy(module).to(device), torch.randn(6, 3, 5), torch.tensor([6, 4, 1])
    run = lambda m, x: pad_packed_sequence(m(pack_padded_sequence(x, lengths))[0])[0]
    torch.testing.assert_close(run(on_device, x.to(device)).cpu(), run(module, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_second_derivative(device, kind):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(3, 2).double().to(device)
    torch.autograd.gradgradcheck(lambda x: module(x)[0], torch.randn(2, 2, 3, device=device).double().requires_grad_())


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_batched_gradients(device, kind):
    """torch.func.vmap over gradients, as torch.autograd.grad(is_grads_batched=True) and gradcheck do it."""
    torch.manual_seed(0)
    layer, x = getattr(torch.nn, kind)(3, 4).to(device), torch.randn(5, 2, 3, device=device, requires_grad=True)
    out, directions = layer(x)[0], torch.randn(3, 5, 2, 4, device=device)
    (together,) = torch.autograd.grad(out, x, directions, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(out, x, direction, retain_graph=True)[0] for direction in directions]
    torch.testing.assert_close(together, torch.stack(one_by_one))


def test_wrong_gates_are_refused(device):
    with pytest.raises(RuntimeError, match="expected input and hidden gates of"):
        torch.ops.aten._thnn_fused_lstm_cell(*(torch.ones(2, n, device=device) for n in (7, 8, 2)))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_parts_of_the_gradient(device, kind):
    """Without gradients, in inference mode, for some weights only, twice, and through torch.func."""
    torch.manual_seed(0)
    module, x = getattr(torch.nn, kind)(5, 7, 2, bidirectional=True), torch.randn(4, 3, 5)
    on_device, xd = copy.deepcopy(module).to(device), x.to(device)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(on_device(xd)[0].cpu(), module(x)[0])
    wanted = "weight_hh_l0_reverse"
    for m, argument in ((module, x), (on_device, xd)):
        for name, parameter in m.named_parameters():
            parameter.requires_grad_(name == wanted)
        loss = m(argument)[0].square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    gradient = getattr(module, wanted).grad
    torch.testing.assert_close(getattr(on_device, wanted).grad.cpu(), gradient, rtol=1e-4, atol=1e-5)
    weights = {name: parameter.detach() for name, parameter in on_device.named_parameters()}
    found = torch.func.grad(lambda w: torch.func.functional_call(on_device, w, (xd,))[0].square().sum())(weights)
    torch.testing.assert_close(2 * found[wanted].cpu(), gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    "getattr(torch.profiler.ProfilerActivity, 'OCL', None) not in torch.profiler.supported_activities()",
    reason="needs PyTorch 2.12 or later",
)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_step_takes_few_launches(device, kind):
    module, launches = getattr(torch.nn, kind)(16, 16).to(device), []
    for steps in (4, 12):
        x = torch.randn(steps, 3, 16, device=device)
        module(x)[0].sum().backward()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profile:
            module(x)[0].sum().backward()
        launches.append(sum(e.device_type != torch.autograd.DeviceType.CPU for e in profile.events()))
    assert 0 < launches[1] - launches[0] <= 8 * 10, launches
