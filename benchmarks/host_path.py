#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the host's time goes between a Python call and the OpenCL queue: makes docs/host_path.md and its figure.

    python benchmarks/host_path.py                    # needs Linux's perf
    python benchmarks/host_path.py --device ocl:1 --no-report

Each case runs in a loop on operands so small that only the host's work counts. Linux's perf samples the calling thread
alone; a share of the samples times the wall clock of a call gives the microseconds of each library.
"""

import argparse
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = (
    ("Python", r"python3|libpython"),
    ("bindings of PyTorch", r"libtorch_python"),
    ("core of PyTorch", r"libtorch|libc10"),
    ("this backend", r"pytorch_ocl"),
    ("OpenCL driver", r"ocl|opencl|OpenCL|tbb|nvidia|pocl|libintlc|libcuda"),
    ("C library", r"libc\.|libm\.|ld-linux|libstdc"),
    ("system", r"kernel|vdso"),
    ("other", r""),
)
TENSORS = 161  # as resnet50 has parameters


def tiny_add(device):
    x = torch.zeros(1, device=device)
    return lambda: x.add_(1)


def add(device):
    x, y = (torch.zeros(16, device=device) for _ in range(2))
    return lambda: x + y


def linear(device):
    x, w, b = (torch.zeros(*size, device=device) for size in ((2, 8), (8, 8), (8,)))
    return lambda: torch.nn.functional.linear(x, w, b)


def convolution(device):
    x, w, b = (torch.zeros(*size, device=device) for size in ((1, 4, 6, 6), (4, 4, 3, 3), (4,)))
    return lambda: torch.nn.functional.conv2d(x, w, b, padding=1)


def softmax(device):
    x = torch.zeros(4, 8, device=device)
    return lambda: torch.softmax(x, 1)


def scatter_add(device):
    x, index, source = torch.zeros(8, device=device), torch.arange(8, device=device), torch.ones(8, device=device)
    return lambda: x.scatter_add_(0, index, source)


def adam(device):
    parameters = [torch.nn.Parameter(torch.zeros(8, device=device)) for _ in range(TENSORS)]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return torch.optim.Adam(parameters).step


def square_roots(device):
    tensors = [torch.zeros(8, device=device) for _ in range(TENSORS)]
    return lambda: torch._foreach_sqrt(tensors)


CASES = {
    "x.add_(1)": tiny_add,
    "x + y": add,
    "linear": linear,
    "conv2d": convolution,
    "softmax": softmax,
    "scatter_add_": scatter_add,
    f"_foreach_sqrt, {TENSORS} tensors": square_roots,
    f"Adam step, {TENSORS} tensors": adam,
}


def work(name, device, seconds):
    """In a process of its own: warms up, waits for the profiler, loops for `seconds`; prints microseconds a call."""
    if device.startswith("ocl"):
        import pytorch_ocl  # noqa: F401
    call = CASES[name](device)
    synchronize = getattr(torch, torch.device(device).type).synchronize
    start, calls = time.perf_counter(), 0
    while calls < 20 or time.perf_counter() - start < 1:
        call()
        calls += 1
    synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < seconds:
        group = time.perf_counter()
        count = max(1, calls // 200)
        with torch.no_grad():
            for _ in range(count):
                call()
        best = min(best, (time.perf_counter() - group) / count)
        synchronize()
    print(1e6 * best, flush=True)


def profile(name, options, folder):
    """({layer: microseconds}, microseconds of a call)."""
    command = [
        sys.executable,
        __file__,
        "--worker",
        name,
        "--device",
        options.device,
        "--seconds",
        str(options.seconds),
    ]
    samples = os.path.join(folder, "perf.data")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        if worker.stdout.readline() != "ready\n":
            sys.exit(f"{name} failed on {options.device}")
        record = ["perf", "record", "-q", "-F", "5000", "-e", "cpu-clock", "-t", str(worker.pid), "-o", samples]
        with subprocess.Popen(record, stderr=subprocess.DEVNULL) as recorder:
            time.sleep(1)
            worker.stdin.write("go\n")
            worker.stdin.flush()
            total = float(worker.stdout.readline())
            recorder.send_signal(signal.SIGINT)
    command = ["perf", "report", "-i", samples, "--sort", "dso", "-t", "|"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    shares = collections.Counter()
    for share, library in re.findall(r"^ *([0-9.]+)% *\|(.+)$", text, re.MULTILINE):
        shares[next(layer for layer, pattern in LAYERS if re.search(pattern, library))] += float(share)
    whole = sum(shares.values())
    return {layer: total * shares[layer] / whole for layer, _ in LAYERS}, total


def draw(results, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 0.45 * len(results) + 1.2))
    left = [0.0] * len(results)
    for layer, _ in LAYERS:
        widths = [100 * parts[layer] / total for parts, total in results.values()]
        axis.barh(list(results), widths, left=left, label=layer)
        left = [a + b for a, b in zip(left, widths)]
    axis.set_xlabel("share of the calling thread's time, %")
    axis.invert_yaxis()
    axis.legend(fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def table(results):
    layers = [layer for layer, _ in LAYERS]
    lines = ["| case | us a call | " + " | ".join(layers) + " |", "|---" * (len(layers) + 2) + "|"]
    for name, (parts, total) in results.items():
        lines.append(f"| {name} | {total:.1f} | " + " | ".join(f"{parts[layer]:.1f}" for layer in layers) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--seconds", type=float, default=3, help="profiled time a case (default: 3)")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--no-report", action="store_true", help="print the table, write nothing")
    parser.add_argument("--worker", metavar="CASE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.device, options.seconds)
    with tempfile.TemporaryDirectory() as folder:
        results = {name: profile(name, options, folder) for name in CASES if re.search(options.only, name)}
    print(table(results))
    if options.no_report:
        return None
    draw(results, ROOT / "docs/images/host_path.png")
    page = ROOT / "docs/host_path.md"
    start, end = "<!-- table -->\n", "\n<!-- end -->"
    text = page.read_text()
    page.write_text(text[: text.index(start) + len(start)] + table(results) + text[text.index(end) :])
    return None


if __name__ == "__main__":
    main()
