# SPDX-License-Identifier: MIT
"""Measures ways to compute the matrix products and convolutions of a network, and remembers the fastest.

The network runs once, which finds the choices there are: kernels that can compute a product or convolution, and sizes
of blocks for each. Then they are timed, the best ten of each by estimate. What was found is kept in the program cache
at once and used from then on by every process, for the same sizes on the same device and driver: a command that was
stopped goes on where it was, and one that has nothing left to measure ends at once. Programs do the same while
torch.backends.ocl.benchmark is True, each product at its first use.

--export writes the choices of this network as data that the library can ship (docs/tuning.md).
"""

import pathlib
import time

import torch

import pytorch_ocl  # noqa: F401
from pytorch_ocl import models
from pytorch_ocl.cli.progress import Progress
from pytorch_ocl.cli.validate import first_tensor

REPETITIONS = 10


def extents(text):
    """[3, 224, 224] of "3x224x224"."""
    return [int(extent) for extent in text.split("x")]


def add_arguments(parser):
    parser.add_argument(
        "--model",
        required=True,
        metavar="NAME",
        help="network of torchvision or timm, or module:function that returns a torch.nn.Module",
    )
    parser.add_argument("--device", default="ocl:0", help="device to tune (default: ocl:0)")
    parser.add_argument("--train", action="store_true", help="backward passes, too")
    parser.add_argument("--size", type=int, metavar="N", help="image height and width (default: 224, inception 299)")
    parser.add_argument(
        "--shape", type=extents, metavar="CxHxW", help="shape of one input, for networks that take no image"
    )
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="inputs in the batch (default: 64)")
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=["float32", "bfloat16", "float16"],
        help="of autocast where it is not float32 (default: float32)",
    )
    parser.add_argument("--channels-last", action="store_true", help="network and images in channels_last")
    parser.add_argument("--export", metavar="FILE", help="add the choices to this file, for dlprim/tuning/data")


def milliseconds(step, device):
    """Median time of a step, after one that is not counted."""
    times = []
    for _ in range(REPETITIONS + 1):
        torch.ocl.synchronize(device)
        start = time.perf_counter()
        step()
        torch.ocl.synchronize(device)
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times[1:])[REPETITIONS // 2]


def step_of(options):
    """A function that runs the network once, forward or forward and backward."""
    model = models.create(options.model).to(options.device).train(options.train)
    size = options.size or models.input_size(options.model)
    x = torch.randn(options.batch, *(options.shape or [3, size, size]), device=options.device)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last) if x.dim() == 4 else x

    def step():
        mixed = options.dtype != "float32"
        with torch.set_grad_enabled(options.train):
            with torch.autocast("ocl", dtype=getattr(torch, options.dtype) if mixed else None, enabled=mixed):
                output = first_tensor(model(x))
            if options.train:
                output.float().square().mean().backward()
        torch.ocl.synchronize(options.device)

    return step


def measure(step):
    """Runs the network and measures its choices; returns how many it has and how many were measured just now."""
    ops = torch.ops.pytorch_ocl
    ops.record_choices(True)
    try:
        step()
        before = ops.tuning_progress()[1]
        with torch.backends.ocl.flags(benchmark=True), Progress("measuring", lambda: ops.tuning_progress()[::-1]):
            step()
    finally:
        ops.record_choices(False)
    choices, measured = ops.tuning_progress()
    return choices, measured - before


def export(path):
    """Adds the choices of this process to a file of dlprim/tuning/data; of the same problem, the new one stays."""
    file = pathlib.Path(path)
    lines = file.read_text().splitlines() if file.exists() else []
    lines += torch.ops.pytorch_ocl.tuned_choices().splitlines()
    head = ["# Made by `python -m pytorch_ocl tune --export`: scope, problem, choice."]
    choices = {line.rpartition("\t")[0]: line for line in lines if line and not line.startswith("#")}
    file.write_text("\n".join(head + [choices[key] for key in sorted(choices)]) + "\n")
    print(f"{file}: {len(choices)} choices")


def run(options):
    step = step_of(options)
    before = milliseconds(step, options.device)
    layout = ", channels_last" if options.channels_last else ""
    print(
        f"{options.model}, batch {options.batch}, {options.dtype}{layout}, "
        f"{'training' if options.train else 'evaluation'}: {before:.2f} ms",
        flush=True,
    )
    start = time.perf_counter()
    choices, measured = measure(step)
    print(f"{choices} choices, {measured} of them measured now, in {time.perf_counter() - start:.1f} s")
    after = milliseconds(step, options.device)
    print(f"now {after:.2f} ms, {before / after:.2f} times as fast")
    if options.export:
        export(options.export)
    return 0
