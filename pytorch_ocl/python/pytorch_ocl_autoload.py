# SPDX-License-Identifier: MIT
"""What `import torch` calls (entry point of torch.backends): loads the backend unless PyTorch has another accelerator.

A process of PyTorch has one accelerator, and a private device that is registered is always it. So the backend waits
for `import pytorch_ocl` where another device is there, or another package brings one. PYTORCH_OCL_AUTOLOAD=1 loads it
all the same, 0 never. The decision reads file names only: no driver is loaded, no device opened, and the process can
fork. docs/beside.md describes it.
"""

import contextlib
import glob
import os
from importlib.metadata import entry_points

NVIDIA = (
    "/dev/nvidia[0-9]*",
    "/proc/driver/nvidia/gpus/*",
    "/dev/nvhost-gpu",
    "/dev/nvgpu",  # desktops, Tegra
    "/usr/lib/wsl/lib/libcuda.so.1",
    r"C:\Windows\System32\nvcuda.dll",
)
AMD = ("/dev/kfd", "/usr/lib/wsl/lib/librocdxg.so*", r"C:\Windows\System32\amdhip64*.dll")
INTEL = ("/sys/class/drm/renderD*/device/vendor", r"C:\Windows\System32\ze_loader.dll")


def _hidden(*variables):
    """Whether one of these variables hides every device: empty or a negative first number."""
    values = [os.environ[name].strip() for name in variables if name in os.environ]
    return any(not value or value.startswith("-") for value in values)


def _found(patterns):
    return [path for pattern in patterns for path in glob.glob(pattern)]


def _intel_gpu(path):
    """Whether a file that was found belongs to a GPU of Intel's."""
    if not path.startswith("/sys"):
        return True
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() == "0x8086"
    except OSError:
        return False


def _cuda():
    import torch

    if torch.version.hip:
        return bool(_found(AMD)) and not _hidden("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    return bool(_found(NVIDIA)) and not _hidden("CUDA_VISIBLE_DEVICES")


def _mps():
    import torch

    return torch.backends.mps.is_available()


# Accelerators that a build of PyTorch names whether or not their device is there.
PRESENT = {"cuda": _cuda, "mps": _mps, "xpu": lambda: any(map(_intel_gpu, _found(INTEL)))}


def other_accelerator() -> str:
    """Type of another accelerator than "ocl" that PyTorch has here, such as "cuda"; an empty string when there is
    none. To be asked before the backend is loaded: afterwards PyTorch names "ocl"."""
    import torch

    device = torch.accelerator.current_accelerator()
    if device is None or device.type == "ocl":
        return ""
    present = PRESENT.get(device.type, lambda: True)  # others are registered by who has them
    return device.type if present() else ""


def _other_package() -> bool:
    """Whether another package adds a device when PyTorch is imported: there is one place for a private device."""
    return any(not point.value.startswith("pytorch_ocl") for point in entry_points(group="torch.backends"))


def autoload() -> None:
    """Imports pytorch_ocl where the rule above says so."""
    switch = os.environ.get("PYTORCH_OCL_AUTOLOAD")
    if switch == "1" or (switch != "0" and not other_accelerator() and not _other_package()):
        with contextlib.suppress(
            Warning
        ):  # where warnings are errors, a failure to load still breaks no `import torch`
            import pytorch_ocl  # noqa: F401
