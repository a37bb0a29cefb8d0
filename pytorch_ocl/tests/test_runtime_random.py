# SPDX-License-Identifier: MIT
"""Random state: seeds, generators, states."""

import pytest
import torch


def test_seeds_repeat(device):
    first = torch.rand(100, device=device, generator=torch.Generator(device).manual_seed(5)).cpu()
    for seed in (torch.manual_seed, torch.ocl.manual_seed_all):
        seed(5)
        assert torch.equal(torch.rand(100, device=device).cpu(), first)
    with torch.ocl.device(device):
        torch.ocl.manual_seed(5)
        assert torch.ocl.initial_seed() == 5 and torch.equal(torch.rand(100, device=device).cpu(), first)
        torch.ocl.seed()
        assert torch.ocl.initial_seed() != 5
        torch.ocl.seed_all()
    assert not torch.equal(torch.rand(100, device=device).cpu(), first)


def test_states(device):
    torch.manual_seed(5)
    torch.rand(100, device=device)
    state, states = torch.ocl.get_rng_state(device), torch.ocl.get_rng_state_all()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.numel() == 16
    expected = torch.randn(100, device=device).cpu()
    torch.ocl.set_rng_state(state, device)
    assert torch.equal(torch.randn(100, device=device).cpu(), expected)
    torch.ocl.set_rng_state_all(states)
    with torch.random.fork_rng(devices=[torch.device(device).index], device_type="ocl"):
        torch.randn(10, device=device)
    assert torch.equal(torch.randn(100, device=device).cpu(), expected)
    with pytest.raises(RuntimeError, match="wrong size"):
        torch.ocl.set_rng_state(torch.zeros(3, dtype=torch.uint8), device)


def test_generators(device):
    generator = torch.Generator(device).manual_seed(5)
    assert generator.device == torch.device(device) and generator.initial_seed() == 5
    first = torch.randn(100, device=device, generator=generator).cpu()
    copy = torch.Generator(device)
    copy.set_state(generator.get_state())
    clone = generator.clone_state() if hasattr(generator, "clone_state") else copy
    expected = torch.randn(50, device=device, generator=generator).cpu()
    assert torch.equal(torch.randn(50, device=device, generator=copy).cpu(), expected)
    if clone is not copy:
        assert torch.equal(torch.randn(50, device=device, generator=clone).cpu(), expected)
    generator.set_offset(0) if hasattr(generator, "set_offset") else generator.manual_seed(5)
    assert torch.equal(torch.randn(100, device=device, generator=generator).cpu(), first)
    with pytest.raises(RuntimeError, match="[Gg]enerator"):
        torch.randn(3, device=device, generator=torch.Generator())
    assert len(torch.ocl.default_generators) == torch.ocl.device_count()
    assert torch.ocl.default_generators[0].device == torch.device("ocl:0")


def test_numbers_do_not_repeat_between_calls(device):
    torch.manual_seed(0)
    values = torch.cat([torch.rand(1000, device=device) for _ in range(20)])
    assert len(torch.unique(values.cpu())) > 19900  # of 2^24 values, some meet by chance


def test_rrelu_where_tangents_are_batched(device):
    def rrelu(x):
        torch.manual_seed(0)
        return torch.nn.functional.rrelu(x, training=True)

    x = torch.randn(5, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(rrelu, x, check_forward_ad=True, check_batched_forward_grad=True)


def test_modes_of_functions_do_not_see_generators(device):
    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names = []
    with Seen():
        torch.ocl.manual_seed_all(1)
        torch.ocl.is_available(), torch.ocl.current_device()
        torch.ocl.get_rng_state()
    assert not [name for name in names if "pytorch_ocl" in name]
