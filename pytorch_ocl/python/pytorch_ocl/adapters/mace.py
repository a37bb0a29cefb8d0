# SPDX-License-Identifier: MIT
"""MACE's devices (read in 0.3.16): of a name that it does not know, it makes the CPU, and says nothing."""

import functools

import torch


def torch_tools(module) -> None:
    original = module.init_device

    @functools.wraps(original)
    def init_device(device_str):
        if str(device_str).split(":")[0] != "ocl":
            return original(device_str)
        # An error where there is no such device, as MACE raises for the kinds that it knows.
        device = torch.empty(0, device=device_str).device
        module.logging.info("Using %s on %s", torch.ocl.get_device_name(device), device)
        return device

    module.init_device = init_device


def arg_parser(module) -> None:
    original = module.build_default_arg_parser

    @functools.wraps(original)
    def build_default_arg_parser():
        parser = original()
        (action,) = [action for action in parser._actions if "--device" in action.option_strings]
        if "ocl" not in action.choices:
            action.choices = [*action.choices, "ocl"]
        return parser

    module.build_default_arg_parser = build_default_arg_parser
