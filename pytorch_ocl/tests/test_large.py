# SPDX-License-Identifier: MIT
"""Tensors of more than 2^31 elements, and of more dims than kernels walk.

What large tensors take (operations in pieces, kernels of 64-bit indices) is tested with small ones, in a process in
which 32-bit indices end early. Truly large ones are for machines with the memory: PYTORCH_OCL_LARGE=<GiB> runs the
families that fit in so much memory of the device.
"""

import json
import os
import subprocess
import sys

import large_families
import pytest
import torch

# PoCL takes up to a second to build a kernel: there, families of few kernels stand for all, in their order.
QUICK = ["fill_copy_cast", "scans", "join_and_split", "indexing", "masks", "permuted_copies"]
BUDGET = float(os.environ.get("PYTORCH_OCL_LARGE", "0")) * 2**30


def test_pieces(device):
    slow = torch.ocl.get_device_properties(device).platform_name.startswith("Portable")
    names = QUICK if slow else list(large_families.FAMILIES)
    environment = {**os.environ, "DLPRIM_INDEX_LIMIT": "20000", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-W", "ignore", large_families.__file__, "--small", "--json", "--device", device, *names],
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert process.stdout, process.stderr
    found = json.loads(process.stdout.splitlines()[-1])
    assert list(found) == names
    assert not any(found.values()), "\n".join(f"{name}: {error}" for name, error in found.items() if error)


@pytest.mark.parametrize("name", large_families.FAMILIES)
def test_large(name, device):
    size = large_families.Size(False, device)
    needed = large_families.FAMILIES[name].bytes_an_element * size.n
    if needed > BUDGET:
        pytest.skip(f"PYTORCH_OCL_LARGE={needed / 2**30:.0f} runs it: it needs so many GiB of the device's memory")
    found = large_families.run(name, size)
    assert found is None, found


@pytest.mark.parametrize("dims", [9, 16])
def test_many_dims(device, dims):
    large_families.check_many_dims(device, dims)
