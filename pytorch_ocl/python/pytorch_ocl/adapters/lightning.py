# SPDX-License-Identifier: MIT
"""Lightning: the accelerator "ocl", chosen for "auto" and "gpu" where the device is a GPU, on one device or several
(read in 2.6; the packages lightning, pytorch_lightning and lightning_fabric)."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def _devices(wanted) -> list:
    """Numbers of devices: from a number of them (-1: all), a list, or text of either."""
    if isinstance(wanted, str):
        wanted = [int(each) for each in wanted.split(",") if each.strip()] if "," in wanted else int(wanted)
    if isinstance(wanted, int):
        wanted = list(range(torch.ocl.device_count() if wanted == -1 else wanted))
    missing = [index for index in wanted if not 0 <= index < torch.ocl.device_count()]
    if missing:
        raise ValueError(f"accelerator 'ocl': expected devices of 0 ... {torch.ocl.device_count() - 1}, got {missing}")
    return wanted


def _accelerator(base):
    """The class, for one of Lightning's two base classes."""

    class OCLAccelerator(base):
        """OpenCL devices."""

        def setup_device(self, device):
            if device.type != "ocl":
                raise ValueError(f"Device should be ocl, got {device} instead.")
            torch.ocl.set_device(device)

        def teardown(self):
            torch.ocl.empty_cache()

        def get_device_stats(self, device):
            return torch.ocl.memory_stats(device)

        @staticmethod
        def parse_devices(devices):
            return _devices(devices)

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device("ocl", index) for index in _devices(devices)]

        @staticmethod
        def auto_device_count():
            """Devices like the first one."""
            names = [torch.ocl.get_device_name(index) for index in range(torch.ocl.device_count())]
            return names.count(names[0])

        @staticmethod
        def is_available():
            return torch.ocl.is_available()

        @staticmethod
        def name():
            return "ocl"

    return OCLAccelerator


def accelerators(module) -> None:
    registry = getattr(module, "ACCELERATOR_REGISTRY", None)
    registry = module.AcceleratorRegistry if registry is None else registry
    registry.register("ocl", _accelerator(module.Accelerator), description="OpenCL devices")


def _is_ours(connector) -> bool:
    flag = connector._accelerator_flag
    return flag == "ocl" or (hasattr(flag, "name") and flag.name() == "ocl")


def connector(module) -> None:
    kind = getattr(module, "_AcceleratorConnector", None) or module._Connector
    auto, gpu, flags, strategy, precision = (
        kind._choose_auto_accelerator,
        kind._choose_gpu_accelerator_backend,
        kind._check_config_and_set_final_flags,
        kind._choose_strategy,
        kind._check_and_init_precision,
    )

    def choose_auto():
        chosen = auto()
        return "ocl" if chosen == "cpu" and chosen_automatically() else chosen

    def choose_gpu():
        if not torch.cuda.is_available() and chosen_automatically():
            return "ocl"
        return gpu()

    @functools.wraps(flags)
    def check_config_and_set_final_flags(self, *arguments, **options):
        flags(self, *arguments, **options)
        root = getattr(self._strategy_flag, "_root_device", None)
        if self._accelerator_flag in ("auto", "cpu") and getattr(root, "type", None) == "ocl":
            self._accelerator_flag = "ocl"  # a strategy that names its device decides

    @functools.wraps(strategy)
    def choose_strategy(self):
        chosen = strategy(self)
        if isinstance(chosen, module.SingleDeviceStrategy) and _is_ours(self):
            return module.SingleDeviceStrategy(device=self._parallel_devices[0])
        return chosen

    @functools.wraps(precision)
    def check_and_init_precision(self):
        plugin = precision(self)
        if _is_ours(self) and isinstance(plugin, module.MixedPrecision) and plugin.device == "cuda":
            plugin.device = "ocl"
            if plugin.scaler is not None:
                plugin.scaler = torch.amp.GradScaler("ocl")
        return plugin

    kind._choose_auto_accelerator, kind._choose_gpu_accelerator_backend = map(staticmethod, (choose_auto, choose_gpu))
    kind._check_config_and_set_final_flags = check_config_and_set_final_flags
    kind._choose_strategy, kind._check_and_init_precision = choose_strategy, check_and_init_precision
