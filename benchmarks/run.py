#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the same cases on two devices, one after the other case by case, and prints the ratios.

    python benchmarks/run.py cuda ocl                       # PyTorch's own device against this one
    python benchmarks/run.py cpu ocl --only resnet18 --batch 8
    python benchmarks/run.py cuda ocl --output results.json # for report.py

A figure is the median of several timed groups after a warm-up, synchronized. A ratio over 1 says that the second
device is faster. Needs torchvision for the networks. A case that fails prints its error, and the exit code is 1.
"""
import argparse
import gc
import json
import re
import statistics
import sys
import time

import cases
import torch

import pytorch_ocl  # noqa: F401


def synchronize(device):
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)


def measure(call, device, seconds, groups=5):
    """Median milliseconds of one call over `groups` groups that take about `seconds` together."""
    for _ in range(3):
        call()
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    calls = max(1, min(200, int(seconds / groups / max(time.perf_counter() - start, 1e-6))))
    times = []
    for _ in range(groups):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize(device)
        times.append((time.perf_counter() - start) / calls * 1e3)
    return statistics.median(times)


def time_case(case, device, seconds):
    """(milliseconds, None) or (None, error)."""
    try:
        return measure(case.make(device), device, seconds), None
    except Exception as error:  # noqa: BLE001  the other cases still count
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]
    finally:
        gc.collect()
        if device.type != "cpu":
            getattr(torch, device.type).empty_cache()


def device_name(device):
    return "CPU, PyTorch" if device.type == "cpu" else getattr(torch, device.type).get_device_name(device)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs=2, type=torch.device, metavar="DEVICE", help="the peer, then the one to judge")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="images in a batch (default: 64)")
    parser.add_argument("--size", type=int, default=224, metavar="N", help="height and width (default: 224)")
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time a case and device (default: 1)")
    parser.add_argument("--output", metavar="FILE", help="JSON file for the results")
    return parser.parse_args()


def main():
    options = parse_arguments()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    names = [f"{device} ({device_name(device)})" for device in options.devices]
    print(f"{names[0]} against {names[1]}, batch {options.batch}, {options.size}x{options.size}\n"
          f"{'case':34} {str(options.devices[0]):>10} {str(options.devices[1]):>10}  ratio", flush=True)
    results, failed = [], False
    for case in cases.cases(options.batch, options.size):
        if not re.search(options.only, case.name):
            continue
        timed = [time_case(case, device, options.seconds) for device in options.devices]
        (peer, peer_error), (own, own_error) = timed
        if peer and own:
            print(f"{case.name:34} {peer:10.3f} {own:10.3f} {peer / own:6.2f}", flush=True)
        else:
            failed = True
            print(f"{case.name:34} {peer_error or own_error}", flush=True)
        results.append({"case": case.name, "group": case.group, "ms": [peer, own], "flop": case.flop,
                        "bytes": case.size})
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"devices": names, "torch": torch.__version__, "batch": options.batch, "size": options.size,
                       "cases": results}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
