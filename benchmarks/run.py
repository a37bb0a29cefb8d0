#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the same cases on two devices, each in a process of its own, and prints the ratios.

    python benchmarks/run.py cuda ocl                       # PyTorch's own device against this one
    python benchmarks/run.py cpu ocl --only resnet18 --batch 8
    python benchmarks/run.py cuda ocl --output results.json # for report.py

A figure is the median of several timed groups after a warm-up, synchronized. A ratio over 1 says that the second
device is faster. Needs torchvision for the networks. A case that fails prints its error, and the exit code is 1.
"""

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import time

import cases
import torch


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


def work(options):
    """Times every chosen case on one device; prints its name, then a JSON line for each."""
    if options.devices[0].startswith("ocl"):
        import pytorch_ocl  # noqa: F401
    device = torch.device(options.devices[0])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(json.dumps(f"{device} ({device_name(device)})"), flush=True)
    for case in cases.cases(options.batch, options.size):
        if re.search(options.only, case.name):
            ms, error = time_case(case, device, options.seconds)
            print(
                json.dumps(
                    {
                        "case": case.name,
                        "group": case.group,
                        "ms": ms,
                        "error": error,
                        "flop": case.flop,
                        "bytes": case.size,
                    }
                ),
                flush=True,
            )


def run_worker(device, options):
    """(name of the device, results) from a process of its own; shows how far it is."""
    command = [
        sys.executable,
        __file__,
        "--worker",
        device,
        "--only",
        options.only,
        "--batch",
        str(options.batch),
        "--size",
        str(options.size),
        "--seconds",
        str(options.seconds),
    ]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    results = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            results.append(json.loads(line))
            shown = results[-1]["case"] if len(results) > 1 else results[0]
            print(f"\r{device}: {shown[:60]:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if process.returncode:
        sys.exit(f"the process for {device} ended with exit code {process.returncode}")
    return results[0], results[1:]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="+", metavar="DEVICE", help="the peer, then the one to judge")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="images in a batch (default: 64)")
    parser.add_argument("--size", type=int, default=224, metavar="N", help="height and width (default: 224)")
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time a case and device (default: 1)")
    parser.add_argument("--output", metavar="FILE", help="JSON file for the results")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if len(options.devices) != (1 if options.worker else 2):
        parser.error(f"expected two devices, got {len(options.devices)}")
    return options


def main():
    options = parse_arguments()
    if options.worker:
        return work(options)
    (peer_name, peers), (own_name, owns) = [run_worker(device, options) for device in options.devices]
    print(
        f"{peer_name} against {own_name}, batch {options.batch}, {options.size}x{options.size}\n"
        f"{'case':34} {options.devices[0]:>10} {options.devices[1]:>10}  ratio"
    )
    results = []
    for peer, own in zip(peers, owns):
        times = [peer["ms"], own["ms"]]
        print(
            f"{own['case']:34} "
            + (
                f"{times[0]:10.3f} {times[1]:10.3f} {times[0] / times[1]:6.2f}"
                if all(times)
                else peer["error"] or own["error"]
            )
        )
        results.append({**own, "ms": times, "error": peer["error"] or own["error"]})
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "devices": [peer_name, own_name],
                    "torch": torch.__version__,
                    "batch": options.batch,
                    "size": options.size,
                    "cases": results,
                },
                file,
                indent=1,
            )
    return 0 if all(all(result["ms"]) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
