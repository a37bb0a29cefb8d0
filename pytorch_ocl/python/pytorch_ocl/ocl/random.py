# SPDX-License-Identifier: MIT
"""Random numbers: seeds and states of the generators, one a device (Philox 4x32-10)."""

import torch
from torch.types import Device

from pytorch_ocl.ocl.device import _call, _index, device_count

__all__ = [
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
    "get_rng_state",
    "get_rng_state_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator(device: Device = None) -> torch.Generator:
    return _call("default_generator", _index(device))


_get_generator = _generator


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator; does nothing without a device."""
    if device_count():
        _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator."""
    for index in range(device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    if device_count():
        _generator().seed()


def seed_all() -> None:
    """Seeds every device's generator with the same random number."""
    if device_count():
        manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """Seed of the current device's generator."""
    return _generator().initial_seed()


def get_rng_state(device: Device = "ocl") -> torch.Tensor:
    """State of a device's generator, 16 bytes as a uint8 tensor."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = "ocl") -> None:
    """Restores a state that get_rng_state gave."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Restores the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
