# SPDX-License-Identifier: MIT
"""What `info --json` prints: everything about this environment that a bug report should say."""

import importlib.metadata
import os
import pathlib
import platform
import sys

import torch

import pytorch_ocl
from pytorch_ocl.cli import cache

PREFIXES = ("OCL_", "OPENCL_", "DLPRIM_", "PYTORCH_OCL_", "POCL_", "CL_CONFIG_", "TORCH_LOGS", "CUDA_VISIBLE_DEVICES")
PACKAGES = ("torchvision", "torchaudio", "numpy", "triton", "transformers", "accelerate", "lightning", "timm",
            "intel-opencl-rt", "intel-cmplr-lib-rt")  # fmt: skip


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions():
    """Versions of everything involved; packages that are not installed are left out."""
    installed = {name: version for name in PACKAGES if (version := version_of(name))}
    return {
        "pytorch_ocl": pytorch_ocl.__version__,
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        **installed,
    }


def libraries():
    """The versions of torch that this installation has libraries for."""
    folder = pathlib.Path(pytorch_ocl.__file__).parent / "lib"
    return sorted((p.stem.split("torch")[-1] for p in folder.glob("*.json")), key=lambda text: (len(text), text))


def settings():
    """Settings that change results or speed, and the variables set that are read."""
    return {
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)},
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "benchmark": torch.ops.pytorch_ocl.benchmark() if loaded() else None,
    }


def loaded():
    """Whether the backend's library is in this process."""
    return hasattr(torch.ops.pytorch_ocl, "device_count")


def drivers():
    """{file: contents} of the .icd files that the OpenCL loader reads, where they are readable."""
    folder = pathlib.Path(os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors")
    files = [folder] if folder.is_file() else sorted(folder.glob("*.icd"))
    return {str(path): path.read_text(errors="replace").strip() for path in files if os.access(path, os.R_OK)}


def device(index):
    """Properties of one device, its extensions as a list."""
    properties = dict(vars(torch.ocl.get_device_properties(index)))
    properties["extensions"] = sorted(properties["extensions"].split())
    return {"index": index, **properties}


def collect():
    """The report: a dictionary of plain values."""
    available = torch.ocl.is_available()
    file, programs, size = cache.summary() if loaded() else (None, 0, 0)
    return {
        "versions": versions(),
        "libraries_for_torch": libraries(),
        "available": available,
        "unavailable_reason": pytorch_ocl.unavailable_reason(),
        "torch_built_for": {"cuda": torch.version.cuda, "hip": torch.version.hip},
        "cpus": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "drivers": drivers(),
        "devices": [device(index) for index in range(torch.ocl.device_count())],
        "cache": {"file": file, "programs": programs, "bytes": size},
        "settings": settings(),
        "fallbacks": torch.ocl.fallbacks() if loaded() else {},
    }
