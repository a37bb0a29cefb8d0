# SPDX-License-Identifier: MIT
"""Lists what PyTorch can use through OpenCL here: platforms, devices, capabilities, versions and the program cache."""

import json
import platform
import sys

import torch

import pytorch_ocl
from pytorch_ocl.cli import cache, report

HINT = """\
No OpenCL device can be used: {reason}
  NVIDIA: the driver brings OpenCL; containers need NVIDIA_DRIVER_CAPABILITIES=compute,utility and a file
          /etc/OpenCL/vendors/nvidia.icd that says libnvidia-opencl.so.1
  AMD:    install rocm-opencl-runtime or mesa-opencl-icd
  Intel:  install intel-opencl-icd
  CPU:    pip install intel-opencl-rt intel-cmplr-lib-rt, or apt-get install pocl-opencl-icd"""

FLAGS = ("has_fp64", "has_fp16", "has_subgroups", "has_int64_atomics", "unified_memory")


def add_arguments(parser):
    parser.add_argument(
        "--json", action="store_true", help="print a report for programs and bug reports, also where there is no device"
    )


def describe(index):
    """The lines about one device."""
    p = torch.ocl.get_device_properties(index)
    flags = ", ".join(flag.removeprefix("has_") for flag in FLAGS if getattr(p, flag))
    return [
        f"ocl:{index}  {p.name}",
        f"       platform {p.platform_name} ({p.id}), {p.version}, driver {p.driver_version}",
        f"       {p.type}, {p.max_compute_units} compute units, {p.total_memory / 2**30:.1f} GiB memory, "
        f"{p.local_mem_size // 1024} KiB local memory",
        f"       {flags}",
    ]


def run(options):
    if options.json:
        contents = report.collect()
        print(json.dumps(contents, indent=2))
        return 0 if contents["available"] else 1
    print(
        f"pytorch_ocl {pytorch_ocl.__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.platform()}"
    )
    if not torch.ocl.is_available():
        print(HINT.format(reason=pytorch_ocl.unavailable_reason()), file=sys.stderr)
        return 1
    for index in range(torch.ocl.device_count()):
        print("\n".join(describe(index)))
    file, programs, size = cache.summary()
    print(f"cache: {file}, {programs} programs, {size / 2**20:.1f} MiB")
    return 0
