# SPDX-License-Identifier: MIT
"""Shows where compiled kernels and what `tune` measured are kept, or clears both (kernels are rebuilt when needed)."""

import torch

import pytorch_ocl  # noqa: F401  (registers torch.ops.pytorch_ocl)


def add_arguments(parser):
    parser.add_argument("--clear", action="store_true", help="delete compiled kernels and measurements")


def summary():
    """(file, number of programs, bytes) of the program cache."""
    return torch.ops.pytorch_ocl.cache_summary()


def run(options):
    if options.clear:
        torch.ops.pytorch_ocl.cache_clear()
    file, programs, size = summary()
    print(f"{file}: {programs} programs, {size / 2**20:.1f} MiB")
    return 0
