# SPDX-License-Identifier: MIT
"""torch.compile: checkpoints that draw random numbers, eager ones (config.fallback_random) and Inductor's."""

import pytest
import torch
import torch.nn.functional as F
from compiling import fresh, no_eager_graphs  # noqa: F401
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint


def block(x, weight):
    noise = torch.rand(x.shape[0], 1, device=x.device)
    return F.dropout(torch.sin(x @ weight), 0.5) * F.dropout(noise + x, 0.25)


def two_blocks(x, weight):
    x = checkpoint(block, x, weight, use_reentrant=False)
    return checkpoint(block, x, weight, use_reentrant=False)


def trained(function, device, dtype=torch.float32):
    """Result, gradients and the random numbers drawn next."""
    torch.manual_seed(3)
    x = torch.linspace(1, 2, 64, device=device, dtype=dtype).reshape(8, 8).requires_grad_()
    weight = torch.eye(8, device=device, dtype=dtype, requires_grad=True)
    result = function(x, weight)
    torch.rand(5, device=device)  # between forward and backward pass
    result.sum().backward()
    return [value.detach().cpu() for value in (result, x.grad, weight.grad, torch.rand(5, device=device))]


@pytest.mark.parametrize("place", ["device", "cpu"])
def test_checkpoints_with_eager_random_numbers(device, place):
    place = device if place == "device" else place
    # Compiled and eager functions of float32 round differently, and so do the CPU's sums.
    has_double = place == "cpu" or torch.ocl.get_device_properties(device).has_fp64
    dtype = torch.float64 if has_double else torch.float32
    torch.compile(torch.sin)(torch.ones(2, device=device))  # the CPU's graphs stay as they are
    with torch._inductor.config.patch(fallback_random=True), no_eager_graphs():
        found = trained(torch.compile(two_blocks, fullgraph=True), place, dtype)
    torch.testing.assert_close(found, trained(two_blocks, place, dtype))


def test_checkpoints_draw_the_same_again(device):
    def dropped(x, weight):
        return checkpoint(lambda x: F.dropout(x.sin().exp(), 0.5), x, use_reentrant=False) + 0 * weight

    with no_eager_graphs():
        result, gradient, *_ = trained(torch.compile(dropped, fullgraph=True), device)
    x = torch.linspace(1, 2, 64).reshape(8, 8)
    assert 0 < (result == 0).sum() < 64
    torch.testing.assert_close(gradient, x.cos() * result)


def test_saved_states_are_traced(device):
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

    torch.compile(torch.sin)(torch.ones(2, device=device))
    options = {"dtype": torch.float32, "device": device}

    def twice():
        state, first = run_and_save_rng_state(torch.ops.aten.rand.default, [4, 4], **options)
        second = torch.ops.aten.rand.default([4, 4], **options)
        return first, second, run_with_rng_state(state, torch.ops.aten.rand.default, [4, 4], **options)

    first, second, again = make_fx(twice)()()
    assert torch.equal(first, again) and not torch.equal(first, second)
    first, second, again = make_fx(twice, tracing_mode="fake")()()
    assert torch.equal(first, again) and not torch.equal(first, second)
