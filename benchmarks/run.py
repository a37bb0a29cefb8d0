#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the same cases on several devices, each in a process of its own, and prints ratios to the last one.

    python benchmarks/run.py cuda ocl                       # PyTorch's own device against this one
    python benchmarks/run.py cuda cuda+tf32+benchmark cuda+tf32+compile ocl+tf32
    python benchmarks/run.py cpu ocl --only resnet18 --batch 8
    python benchmarks/run.py cuda ocl --output results.json # for report.py
    python benchmarks/run.py cuda ocl --against results.json

Settings behind a device: `tf32` (float32 products and convolutions may round to tf32), `benchmark` (cuDNN times its
algorithms), `channels_last` (networks of images), `compile` (networks by torch.compile).

A time is the median of several timed groups after a warm-up, synchronized. A ratio over 1 says that the last device is
faster. `peak` is the share of the last device's own limits that a case reaches: of the bandwidth of its copy, or of its
fastest square product of the type, measured in the same run. `memory` is the most that was allocated, in MiB.
--against shows which cases became slower than in an earlier run by more than --tolerance.

Needs torchvision, transformers and diffusers for their networks; a case whose library is missing says so. A case that
fails prints its error, and the exit code is 1.
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
from cases import Bench


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


def peak_memory(device):
    """MiB allocated at most since the last case, or None on the CPU."""
    if device.type == "cpu":
        return None
    return getattr(torch, device.type).max_memory_allocated(device) / 2**20


def time_case(case, bench, seconds):
    """{"ms", "mib"} of one call, or {"error"}; {"missing"} where a library is not installed."""
    module = getattr(torch, bench.device.type)
    if bench.device.type != "cpu":
        module.reset_peak_memory_stats(bench.device)
    try:
        ms = measure(case.make(bench), bench.device, seconds)
        return {"ms": ms, "mib": peak_memory(bench.device)}
    except ModuleNotFoundError as error:
        return {"missing": error.name}
    except Exception as error:  # noqa: BLE001  the other cases still count
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    finally:
        torch.compiler.reset()
        gc.collect()
        if bench.device.type != "cpu":
            module.empty_cache()


def device_name(device):
    return "CPU, PyTorch" if device.type == "cpu" else getattr(torch, device.type).get_device_name(device)


def work(options):
    """Times every chosen case on one device; prints its name, then a JSON line for each."""
    if options.devices[0].startswith("ocl"):
        import pytorch_ocl  # noqa: F401
    bench = Bench.parse(options.devices[0])
    bench.apply()
    print(json.dumps(f"{options.devices[0]} ({device_name(bench.device)})"), flush=True)
    for case in cases.cases(options.batch, options.size):
        if re.search(options.only, case.name):
            facts = {"case": case.name, "group": case.group, "flop": case.flop, "bytes": case.size}
            facts["dtype"] = cases.short(case.dtype)
            print(json.dumps(facts | time_case(case, bench, options.seconds)), flush=True)


def run_worker(device, options):
    """(name of the device, results) from a process of its own; shows how far it is."""
    command = [sys.executable, __file__, "--worker", device]
    for name in ("only", "batch", "size", "seconds"):
        command += [f"--{name}", str(getattr(options, name))]
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


def limits(results):
    """Of one device's results: bytes a millisecond of its copy, and flop a millisecond of products by type."""
    best = {}
    for result in results:
        if result.get("ms"):
            if result["case"] == "copy":
                best["copy"] = result["bytes"] / result["ms"]
            if result["group"].startswith("matmul "):
                best[result["dtype"]] = max(best.get(result["dtype"], 0), result["flop"] / result["ms"])
    return best


def share(result, best):
    """What a case reaches of the device's limits, the one it comes closer to; None where either is not known."""
    if not result.get("ms"):
        return None
    reached = [
        work / result["ms"] / best[limit]
        for work, limit in ((result["bytes"], "copy"), (result["flop"], result["dtype"]))
        if work and limit in best
    ]
    return max(reached, default=None)


def combine(runs):
    """A list of cases: lists "ms" and "mib" in the order of the devices, "error", "missing" and "peak"."""
    best = limits(runs[-1])
    rows = []
    for parts in zip(*runs):
        row = {key: parts[-1][key] for key in ("case", "group", "flop", "bytes", "dtype")}
        row |= {key: [part.get(key) for part in parts] for key in ("ms", "mib")}
        row |= {key: next((part[key] for part in parts if part.get(key)), None) for key in ("error", "missing")}
        rows.append(row | {"peak": share(parts[-1], best)})
    return rows


def line(row):
    """A row of the table: times, ratios of the others to the last, share of the peak, memory of the last."""
    if not all(row["ms"]):
        return f"{row['case']:50} {row['error'] or 'needs ' + str(row['missing'])}"
    times = "".join(f" {ms:10.3f}" for ms in row["ms"])
    ratios = "".join(f" {ms / row['ms'][-1]:6.2f}" for ms in row["ms"][:-1])
    peak = f"{row['peak']:5.0%}" if row["peak"] else "    -"
    memory = f"{row['mib'][-1]:8.0f}" if row["mib"][-1] else "       -"
    return f"{row['case']:50}{times}{ratios} {peak} {memory}"


def regressions(rows, file, tolerance):
    """Lines about the cases that the last device computes slower than in an earlier run, by more than the tolerance."""
    with open(file, encoding="utf-8") as stream:
        before = {row["case"]: row["ms"][-1] for row in json.load(stream)["cases"]}
    for row in rows:
        old, new = before.get(row["case"]), row["ms"][-1]
        if old and new and new > old * (1 + tolerance):
            yield f"slower than before: {row['case']}: {old:.3f} ms, now {new:.3f}, by {new / old - 1:.0%}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="+", metavar="DEVICE", help="the peers, then the one to judge")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="images in a batch (default: 64)")
    parser.add_argument("--size", type=int, default=224, metavar="N", help="height and width (default: 224)")
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time a case and device (default: 1)")
    parser.add_argument("--output", metavar="FILE", help="JSON file for the results")
    parser.add_argument("--against", metavar="FILE", help="results of an earlier run")
    parser.add_argument("--tolerance", type=float, default=0.1, metavar="X", help="share of its time (default: 0.1)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if len(options.devices) < 2 and not options.worker:
        parser.error(f"expected two devices or more, got {len(options.devices)}")
    try:
        for device in options.devices:
            Bench.settings_of(device)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    options = parse_arguments()
    if options.worker:
        return work(options)
    names, runs = zip(*[run_worker(device, options) for device in options.devices])
    rows = combine(runs)
    print(f"{names[-1]} beside {', '.join(names[:-1])}; batch {options.batch}, {options.size}x{options.size}")
    heads = "".join(f" {device[-10:]:>10}" for device in options.devices) + "  ratio" * (len(names) - 1)
    print(f"{'case':50}{heads}  peak   memory")
    for row in rows:
        print(line(row))
    if options.against:
        print(*regressions(rows, options.against, options.tolerance), sep="\n")
    if options.output:
        facts = {"devices": names, "torch": torch.__version__, "batch": options.batch, "size": options.size}
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({**facts, "cases": rows}, file, indent=1)
    return 1 if any(row["error"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
