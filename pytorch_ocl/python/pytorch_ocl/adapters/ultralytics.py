# SPDX-License-Identifier: MIT
"""Ultralytics: device="ocl:0", the automatic choice and numbers of devices, and mixed precision (read in 8.4)."""

import functools
import unittest.mock

import torch

from pytorch_ocl.adapters import chosen_automatically


def torch_utils(module) -> None:
    parse, select, autocast = module.parse_device, module.select_device, module.autocast

    @functools.wraps(parse)
    def parse_device(device=""):
        text = str(device).lower().strip()
        if text.partition(":")[0] != "ocl":
            return parse(device)
        if "," in text:
            raise ValueError(f"device={device!r}: expected one OpenCL device, for example 'ocl:0'")
        return str(torch.device(text))

    @functools.wraps(select)
    def select_device(device="", newline=False, verbose=True):
        request = parse_device(device)
        if not request.startswith("ocl"):
            automatic = request == "" or request.isdigit()
            other = torch.cuda.is_available() or torch.backends.mps.is_available()
            if not automatic or other or not chosen_automatically():
                return select(device, newline, verbose)
            request = f"ocl:{request or 0}"
        chosen = torch.device(request)
        name = torch.ocl.get_device_name(chosen)
        if verbose:
            module.LOGGER.info(f"Ultralytics {module.__version__} torch-{module.TORCH_VERSION} {request} ({name})")
        return chosen

    @functools.wraps(autocast)
    def autocast_of(enabled, device="cuda"):
        if device != "ocl":
            return autocast(enabled, device)
        dtype = enabled if isinstance(enabled, torch.dtype) else None
        return torch.amp.autocast(device, dtype=dtype, enabled=bool(enabled))

    module.parse_device, module.select_device, module.autocast = parse_device, select_device, autocast_of


def trainer(module) -> None:
    kind = module.BaseTrainer
    original = kind._setup_train

    @functools.wraps(original)
    def setup_train(self):
        if self.device.type != "ocl":
            return original(self)
        scaler = functools.partial(torch.amp.GradScaler, "ocl")
        with unittest.mock.patch.object(torch.amp, "GradScaler", lambda _, **options: scaler(**options)):
            return original(self)

    kind._setup_train = setup_train
