#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bandwidth of copies between host and devices and between devices, in GB/s.

    python benchmarks/copies.py                       # ocl, and cuda in a process of its own where there is one
    python benchmarks/copies.py --device ocl --size 64

"pinned elsewhere" is memory that another device of the platform pinned. Times are medians over --repeats copies of
warm memory, the host waiting for each; "fresh" memory of the host was never touched.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

MIB = 1 << 20


def seconds(copy, wait, repeats):
    times = []
    for _ in range(repeats + 2):
        wait()
        start = time.perf_counter()
        copy()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def cases(kind, size):
    """{name: function that copies `size` bytes} for the devices of a kind."""
    module = getattr(torch, kind)
    device, count = f"{kind}:0", module.device_count()
    module.set_device(0)
    there = torch.zeros(size, dtype=torch.uint8, device=device)
    pageable = torch.ones(size, dtype=torch.uint8)
    pinned = pageable.pin_memory()  # by the accelerator in use; pin_memory=True takes CUDA's wherever it is there
    found = {
        "host to device, pageable": lambda: there.copy_(pageable),
        "host to device, pinned": lambda: there.copy_(pinned, non_blocking=True),
        "device to host, pageable": lambda: pageable.copy_(there),
        "device to host, fresh": lambda: torch.empty(size, dtype=torch.uint8).copy_(there),
        "device to host, pinned": lambda: pinned.copy_(there, non_blocking=True),
        "within the device": lambda: there.clone(),
    }
    if count > 1:
        other = torch.zeros(size, dtype=torch.uint8, device=f"{kind}:1")
        found["device to device"] = lambda: other.copy_(there)
        found["device to device, back"] = lambda: there.copy_(other)
        found["host to device, pinned elsewhere"] = lambda: other.copy_(pinned, non_blocking=True)
        found["device to host, pinned elsewhere"] = lambda: pinned.copy_(other, non_blocking=True)
    return found


def measure(kind, size, repeats):
    if kind == "ocl":
        import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only
    module = getattr(torch, kind)

    def wait():
        for index in range(module.device_count()):
            module.synchronize(index)

    return {name: size / seconds(copy, wait, repeats) / 1e9 for name, copy in cases(kind, size).items()}


def in_a_process(kind, size, repeats):
    """The measurements of a kind of device, in a process that uses no other; {} where there is none."""
    if kind == "cuda" and not torch.cuda.is_available():
        return {}
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [
        sys.executable,
        __file__,
        "--device",
        kind,
        "--size",
        str(size // MIB),
        "--repeats",
        str(repeats),
        "--json",
    ]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("ocl", "cuda"), help="only this kind")
    parser.add_argument("--size", type=int, default=256, help="MiB a copy (default: 256)")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="prints {case: GB/s}")
    options = parser.parse_args()
    size = options.size * MIB
    if options.json:
        print(json.dumps(measure(options.device, size, options.repeats)))
        return
    kinds = [options.device] if options.device else ["ocl", "cuda"]
    found = {kind: in_a_process(kind, size, options.repeats) for kind in kinds}
    print(f"{options.size} MiB, GB/s{'':20}" + "".join(f"{kind:>10}" for kind in kinds) + "     ratio")
    for name in dict.fromkeys(name for values in found.values() for name in values):
        values = [found[kind].get(name) for kind in kinds]
        ratio = f"{values[0] / values[1]:10.2f}" if len(values) == 2 and all(values) else ""
        print(f"{name:35}" + "".join(f"{value:10.1f}" if value else f"{'-':>10}" for value in values) + ratio)


if __name__ == "__main__":
    main()
