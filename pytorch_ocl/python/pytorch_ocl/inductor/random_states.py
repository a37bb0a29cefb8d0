# SPDX-License-Identifier: MIT
"""Operators of higher order that keep the generator's state of a forward pass for what checkpoints compute again.

AOTAutograd wraps random operators in them where Inductor leaves these as they are (`config.fallback_random`). PyTorch
lists the devices they know within functions; "ocl" goes before those lists.
"""

import inspect

import torch
from torch._C import DispatchKey
from torch._subclasses import FakeTensor


def _device(arguments, options):
    """The device an operator draws its numbers on: that of `device=`, else of the first tensor; None without either."""
    if options.get("device") is not None:
        return torch.device(options["device"])
    return next((value.device for value in arguments if isinstance(value, torch.Tensor)), None)


def _run_and_save(operator, *arguments, **options):
    """(the state before, the operator's result). The state has the size of the CPU's, zeros behind the device's:
    AOTAutograd plans with that for the devices it does not know."""
    kept = torch.zeros(torch.default_generator.get_state().numel(), dtype=torch.uint8, device="cpu")
    if not isinstance(kept, FakeTensor):
        state = torch.ocl.get_rng_state(_device(arguments, options))
        kept[: state.numel()] = state
    return kept, operator(*arguments, **options)


def _run_with(kept, operator, *arguments, **options):
    """The operator's result with a state that _run_and_save gave; the generator's own stays as it is."""
    device = _device(arguments, options)
    state = torch.ocl.get_rng_state(device)
    torch.ocl.set_rng_state(kept[: state.numel()], device)
    try:
        return operator(*arguments, **options)
    finally:
        torch.ocl.set_rng_state(state, device)


def _add(operator, implementation, first):
    """Has an operator of higher order take `implementation` where its arguments, from number `first` on, are of ocl."""
    kernels = operator.py_kernels
    original = kernels.get(DispatchKey.BackendSelect)
    if original is None or DispatchKey.PrivateUse1 in kernels:
        return  # another version of PyTorch

    def select(*arguments, **options):
        device = _device(arguments[first:], options)
        ours = device is not None and device.type == "ocl"
        return (implementation if ours else original)(*arguments, **options)

    operator.py_impl(DispatchKey.PrivateUse1)(implementation)
    kernels[DispatchKey.BackendSelect] = select
    operator._dispatch_cache.clear()
    # Those for fake tensors and for tracing call the function by its name, through one cell of their closures.
    for function in filter(inspect.isfunction, operator.python_key_table.values()):
        cell = dict(zip(function.__code__.co_freevars, function.__closure__ or ())).get(original.__name__)
        if cell is not None and cell.cell_contents is original:
            cell.cell_contents = select


def register() -> None:
    """Adds the device to both operators; others stay as they are."""
    try:
        from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

        _add(run_and_save_rng_state, _run_and_save, 1)
        _add(run_with_rng_state, _run_with, 2)
    except (ImportError, AttributeError):
        pass  # such checkpoints then raise PyTorch's error
