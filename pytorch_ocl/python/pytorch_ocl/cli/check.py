# SPDX-License-Identifier: MIT
"""Tells in under a minute whether a device computes right, and how near it comes to its limits.

Each family of kernels is compared with the CPU. Then the speed of copies and of matrix products is set against limits
of the device as measured here: the fastest way to read and write memory, and multiplications and additions in
registers. A table shows both; --output names the folder of check.json, to attach to a report, and of check.png. The
exit code is 1 when a family is wrong or fails.

What a driver is known to compute wrong (dlprim/runtime/driver_defects.tsv, docs/devices.md) is not used: other kernels
serve, with a warning, or the family fails with the reason.
"""

import json
import pathlib
import platform
import sys
import time

import torch

import pytorch_ocl
from pytorch_ocl.cli import check_families
from pytorch_ocl.cli.progress import Progress

TOLERANCE = 2e-3  # of the largest value: rounding of 16-bit floats stays below, and defects do not
FMA = """#define EACH(step) step(a) step(b) step(c) step(d) step(e) step(f) step(g) step(h)
#define START(v) float8 v = (float8)(get_global_id(0) + __COUNTER__);
#define STEP(v) v = mad(v, (float8)(0.5f), (float8)(1.5f));
#define ADD(v) + v
__kernel void fma_rate(__global float *out, int rounds) {
  EACH(START)
  for (int i = 0; i < rounds; i++) { EACH(STEP) }
  const float8 sum = (float8)(0) EACH(ADD);
  out[get_global_id(0)] = sum.s0 + sum.s1 + sum.s2 + sum.s3 + sum.s4 + sum.s5 + sum.s6 + sum.s7;
}"""
FLOPS_A_ROUND = 8 * 8 * 2
STREAM = """__kernel void stream(__global float4 *out, __global const float4 *in) {
  out[get_global_id(0)] = in[get_global_id(0)] + 1.0f;
}"""


def add_arguments(parser):
    parser.add_argument("--device", default="ocl:0", help="device to check (default: ocl:0)")
    parser.add_argument("--output", metavar="FOLDER", help="write check.json and check.png there")


def difference(value, expected):
    """Largest difference over the largest magnitude of `expected`; infinite where shapes, dtypes or NaN differ."""
    value = value.detach().cpu()
    if value.shape != expected.shape or value.dtype != expected.dtype:
        return float("inf")
    value, expected = value.double(), expected.detach().double()
    if not torch.equal(value.isnan(), expected.isnan()):
        return float("inf")
    if expected.numel() == 0:
        return 0.0
    return ((value - expected).abs().max() / expected.abs().max().clamp_min(1e-12)).nan_to_num(nan=0.0).item()


def as_tuple(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def check_family(function, device):
    """{"error", "ok", "message", "on_cpu"} of one family."""
    expected = as_tuple(function(check_families.Numbers("cpu")))
    torch.ocl.reset_fallbacks()
    try:
        results = as_tuple(function(check_families.Numbers(device)))
        error = max(difference(r, e) for r, e in zip(results, expected, strict=True))
        message = "" if error <= TOLERANCE else "differs from the CPU"
    except Exception as failure:  # whatever a driver does: the report says it
        error, message = float("inf"), f"{type(failure).__name__}: {failure}"
    return {
        "error": min(error, sys.float_info.max),
        "ok": not message,
        "message": message,
        "on_cpu": sorted(torch.ocl.fallbacks()),
    }


def seconds(step, device, limit=1.0):
    """The shortest time of `step`, after two that are not counted; takes about `limit` seconds."""
    for _ in range(2):
        step()
    torch.ocl.synchronize(device)
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < limit:
        begin = time.perf_counter()
        step()
        torch.ocl.synchronize(device)
        best = min(best, time.perf_counter() - begin)
    return best


def speed(device):
    """[{"name", "value", "limit", "unit"}] of copies and products."""
    gpu = torch.ocl.get_device_properties(device).type == "gpu"
    count, n, rounds = (1 << 26, 4096, 4096) if gpu else (1 << 23, 768, 2048)
    x = torch.ones(count, device=device)
    y = torch.empty_like(x)
    stream = torch.ocl.compile_kernel(STREAM, "stream")
    fma = torch.ocl.compile_kernel(FMA, "fma_rate")
    items = y[: 1 << 20 if gpu else 1 << 12]
    bandwidth = 8 * count / seconds(lambda: stream(y, x, global_size=count // 4), device) / 1e9
    rate = FLOPS_A_ROUND * rounds * len(items) / seconds(lambda: fma(items, rounds), device) / 1e9
    copied = 8 * count / seconds(lambda: y.copy_(x), device) / 1e9
    added = 12 * count / seconds(lambda: torch.add(x, y, out=y), device) / 1e9
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    product = 2 * n**3 / seconds(lambda: a @ b, device) / 1e9
    bandwidth, rate = max(bandwidth, copied, added), max(rate, product)
    return [
        {"name": "copy", "value": copied, "limit": bandwidth, "unit": "GB/s"},
        {"name": "addition", "value": added, "limit": bandwidth, "unit": "GB/s"},
        {"name": f"float32 product of {n} x {n}", "value": product, "limit": rate, "unit": "GFLOP/s"},
    ]


def show(families, speeds):
    """Prints the two tables, by rich where it is installed."""
    rows = [
        (
            name,
            "ok" if f["ok"] else "WRONG",
            f"{f['error']:.1e}",
            f["message"].split("\n")[0][:100] or (f"on the CPU: {', '.join(f['on_cpu'])}" if f["on_cpu"] else ""),
        )
        for name, f in families.items()
    ]
    rates = [
        (s["name"], f"{s['value']:.1f}", s["unit"], f"{100 * s['value'] / s['limit']:.0f} % of {s['limit']:.1f}")
        for s in speeds
    ]
    tables = [(("family", "", "error", ""), rows), (("speed", "", "", "of the device's limit"), rates)]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        for header, lines in tables:
            for line in (header, *lines):
                print("  ".join(f"{cell:24}" for cell in line).rstrip())
        return
    for header, lines in tables:
        table = Table(*header)
        for line in lines:
            table.add_row(*line, style="red" if "WRONG" in line else None)
        Console().print(table)


def draw(report, file):
    """Errors of the families beside the shares of the limits; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), width_ratios=(2, 1), layout="constrained")
    families, speeds = report["families"], report["speed"]
    errors = [min(max(f["error"], 1e-9), 1) for f in families.values()]
    left.barh(list(families), errors, color=["tab:blue" if f["ok"] else "tab:red" for f in families.values()])
    left.axvline(TOLERANCE, color="gray", linestyle="--", label="tolerance")
    left.set(xscale="log", xlabel="largest difference from the CPU, relative")
    left.invert_yaxis()
    left.legend()
    right.barh([s["name"] for s in speeds], [100 * s["value"] / s["limit"] for s in speeds], color="tab:green")
    right.set(xlabel="% of the device's measured limit")
    figure.suptitle(report["device"]["name"])
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return True


def run(options):
    properties = {
        name: value
        for name, value in vars(torch.ocl.get_device_properties(options.device)).items()
        if isinstance(value, (str, int, float, bool))
    }
    report = {
        "pytorch_ocl": pytorch_ocl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": properties,
        "tolerance": TOLERANCE,
        "families": {},
        "speed": [],
    }
    print(f"{options.device}: {properties['name']}, driver {properties['driver_version']}")
    families = report["families"]
    with Progress("checking", lambda: (len(families), len(check_families.FAMILIES))):
        for name, function in check_families.FAMILIES.items():
            families[name] = check_family(function, options.device)
    try:
        report["speed"] = speed(options.device)
    except Exception as failure:
        report["speed_message"] = f"{type(failure).__name__}: {failure}"
        print(report["speed_message"], file=sys.stderr)
    show(families, report["speed"])
    if options.output:
        folder = pathlib.Path(options.output)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "check.json").write_text(json.dumps(report, indent=2) + "\n")
        drawn = draw(report, folder / "check.png")
        print(f"written to {folder}: check.json{', check.png' if drawn else ' (a plot needs matplotlib)'}")
    wrong = [name for name, result in families.items() if not result["ok"]]
    failed = wrong or "speed_message" in report
    print(f"FAIL: {', '.join(wrong) or 'speed'}" if failed else "PASS")
    return 1 if failed else 0
