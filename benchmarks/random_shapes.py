#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times products and convolutions of shapes that a seed draws, on two devices, and prints how their ratios spread.

    python benchmarks/random_shapes.py cuda+tf32+benchmark ocl+tf32
    python benchmarks/random_shapes.py cuda ocl --dtype bfloat16 --seed 7 --count 200

Shapes are those of networks: widths of layers are mostly multiples of 8 (some odd), images shrink as channels grow;
kernels of 1 to 7, strides of 1 and 2, dilation, groups, one to three dimensions; products with few rows, long sums,
batches. A convolution is timed with both gradients. A ratio over 1 says that the second device is faster; printed are
their geometric mean, median, worst tenth, and the slowest shapes. Results of `ocl` are compared with float64 on a few
rows before they are timed.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys

import run
import torch
import torch.nn.functional as F
from cases import Bench

# Of the largest element; tf32 has the precision of float16.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def width(draw, least, most):
    """A number of channels: log-uniform, a multiple of 8 four times in five."""
    value = round(2 ** draw.uniform(least.bit_length() - 1, most.bit_length() - 1))
    return value if draw.random() < 0.2 else max(8, value // 8 * 8)


def product(draw):
    """Sizes (batch, m, n, k) of x @ weight.T; at most 2^36 multiplications."""
    while True:
        batch = draw.choice((1, 1, 1, draw.randint(2, 64)))
        m = draw.choice((draw.randint(1, 64), width(draw, 64, 16384), width(draw, 64, 16384)))
        n, k = width(draw, 32, 16384), width(draw, 32, 16384)
        if 2**20 <= batch * m * n * k <= 2**36 and batch * max(m * k, n * k, m * n) <= 2**28:
            return {"batch": batch, "m": m, "n": n, "k": k}


def convolution(draw):
    """Sizes and options of a convolution; at most 2^35 multiplications."""
    while True:
        dims = draw.choice((1, 2, 2, 2, 2, 3))
        inputs, outputs = draw.choice((3, width(draw, 16, 1024), width(draw, 16, 1024))), width(draw, 16, 1024)
        groups = draw.choice((1, 1, 1, 1, 2, inputs)) if outputs % 2 == 0 and inputs % 2 == 0 else 1
        outputs = max(groups, outputs // groups * groups)
        kernel, stride = draw.choice((1, 3, 3, 3, 5, 7)), draw.choice((1, 1, 2))
        dilation = draw.choice((1, 1, 1, 1, 2)) if kernel > 1 else 1
        size = draw.randint(4, {1: 8192, 2: 128, 3: 24}[dims])
        batch = draw.choice((1, 2, 8, 16, 32, 64))
        padding = dilation * (kernel // 2)
        work = batch * size**dims * inputs * outputs * kernel**dims // groups // stride**dims
        if 2**20 <= work <= 2**35 and batch * size**dims * max(inputs, outputs) <= 2**27:
            options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
            sizes = [batch, inputs] + [size] * dims
            return {"x": sizes, "weight": [outputs, inputs // groups] + [kernel] * dims, **options}


def draw_shapes(seed, count):
    draw = random.Random(seed)
    return [product(draw) for _ in range(count)] + [convolution(draw) for _ in range(count)]


def compute(shape, x, weight):
    """A product, or a convolution."""
    if "m" in shape:
        return x @ weight.mT
    options = {key: value for key, value in shape.items() if key not in ("x", "weight")}
    return (F.conv1d, F.conv2d, F.conv3d)[len(shape["x"]) - 3](x, weight, **options)


def tensors(shape, bench, dtype):
    """x and weight. 16-bit convolutions of images are channels_last."""
    generator = torch.Generator().manual_seed(0)
    if "m" in shape:
        sizes = (shape["batch"], shape["m"], shape["k"]), (shape["batch"], shape["n"], shape["k"])
    else:
        sizes = shape["x"], shape["weight"]
    pair = [torch.randn(size, generator=generator).to(bench.device, dtype) for size in sizes]
    if "x" in shape and len(shape["x"]) == 4 and dtype != torch.float32:
        pair = [each.contiguous(memory_format=torch.channels_last) for each in pair]
    return pair


def check(shape, x, weight, tolerance):
    """ValueError where the first image's or matrix' first rows differ from the CPU's in float64."""
    if "m" in shape:
        got, parts = compute(shape, x, weight)[:1, :4], (x[:1, :4], weight[:1])
    else:
        got, parts = compute(shape, x, weight)[:1], (x[:1], weight)
    expected = compute(shape, *[part.cpu().double() for part in parts])
    error = (got.cpu().double() - expected).abs().max() / expected.abs().max()
    if not error < tolerance:
        raise ValueError(f"{shape}: differs from float64 by {error:.2g} of the largest element")


def time_shape(shape, bench, dtype, seconds):
    x, weight = tensors(shape, bench, dtype)
    if bench.device.type == "ocl":
        check(shape, x, weight, TOLERANCE[torch.float16 if bench.tf32 else dtype])
    if "m" in shape:
        return run.measure(lambda: compute(shape, x, weight), bench.device, seconds)
    x, weight = x.requires_grad_(), weight.requires_grad_()
    gradient = torch.ones_like(compute(shape, x, weight))
    call = lambda: torch.autograd.grad(compute(shape, x, weight), (x, weight), gradient)  # noqa: E731
    return run.measure(call, bench.device, seconds)


def work(options):
    """Prints a JSON line for each shape: milliseconds, or an error."""
    if options.devices[0].startswith("ocl"):
        import pytorch_ocl  # noqa: F401
    bench = Bench.parse(options.devices[0])
    bench.apply()
    for shape in draw_shapes(options.seed, options.count):
        try:
            result = {"ms": time_shape(shape, bench, getattr(torch, options.dtype), options.seconds)}
        except Exception as error:  # noqa: BLE001  the other shapes still count
            result = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(result), flush=True)


def run_worker(device, options, total):
    """A list of results from a process of its own; shows how far it is."""
    command = [sys.executable, __file__, "--worker", device]
    for name in ("seed", "count", "seconds", "dtype"):
        command += [f"--{name}", str(getattr(options, name))]
    results = []
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout:
            results.append(json.loads(text))
            print(f"\r{device}: {len(results)} of {total}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if process.returncode:
        sys.exit(f"the process for {device} ended with exit code {process.returncode}")
    return results


def summary(name, rows):
    """Prints how the ratios of (ratio, shape, times) spread."""
    ratios = sorted(row[0] for row in rows)
    if not ratios:
        return
    tenth = ratios[: max(1, len(ratios) // 10)]
    print(
        f"{name}: {len(ratios)} shapes, geometric mean {statistics.geometric_mean(ratios):.2f}, "
        f"median {statistics.median(ratios):.2f}, worst tenth up to {tenth[-1]:.2f}, least {ratios[0]:.2f}"
    )
    for ratio, shape, times in sorted(rows, key=lambda row: row[0])[:10]:
        print(f"  {ratio:5.2f}  {times[0]:9.3f} {times[1]:9.3f} ms  {shape}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="+", metavar="DEVICE", help="the peer, then the one to judge, as in run.py")
    parser.add_argument("--seed", type=int, default=1, help="which shapes (default: 1)")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="of each kind (default: 200)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--seconds", type=float, default=0.1, help="measuring time a shape (default: 0.1)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if len(options.devices) != (1 if options.worker else 2):
        parser.error(f"expected two devices, got {len(options.devices)}")
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
    shapes = draw_shapes(options.seed, options.count)
    peers, owns = [run_worker(device, options, len(shapes)) for device in options.devices]
    rows, failed = [], 0
    for shape, peer, own in zip(shapes, peers, owns):
        if error := peer.get("error") or own.get("error"):
            failed += 1
            print(f"{shape}: {error}")
        else:
            rows.append((peer["ms"] / own["ms"], shape, (peer["ms"], own["ms"])))
    summary("products", [row for row in rows if "m" in row[1]])
    summary("convolutions", [row for row in rows if "x" in row[1]])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
