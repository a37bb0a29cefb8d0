# SPDX-License-Identifier: MIT
"""Measures how fast tiles of the matrix products and convolutions of a network are, and remembers the fastest.

What was found is kept in the program cache and used from then on by every process, for products of the same sizes on
the same device and driver. CPUs have a single tile, so that nothing is measured there. Programs do the same while
torch.backends.ocl.benchmark is True, each product at its first use. Networks are those of `validate`.
"""
import time

import torch

import pytorch_ocl  # noqa: F401
from pytorch_ocl import models
from pytorch_ocl.cli.validate import first_tensor

REPETITIONS = 10


def add_arguments(parser):
    parser.add_argument("--model", required=True, metavar="NAME", help="network of torchvision or timm")
    parser.add_argument("--device", default="ocl:0", help="device to tune (default: ocl:0)")
    parser.add_argument("--train", action="store_true", help="backward passes, too")
    parser.add_argument("--size", type=int, metavar="N", help="image height and width (default: 224, inception 299)")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="images in the batch (default: 64)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"],
                        help="of autocast, in channels_last, where it is not float32")


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
    image = torch.randn(options.batch, 3, size, size, device=options.device)
    mixed = options.dtype != "float32"
    if mixed:
        model, image = (x.to(memory_format=torch.channels_last) for x in (model, image))

    def step():
        with torch.set_grad_enabled(options.train):
            with torch.autocast("ocl", dtype=getattr(torch, options.dtype), enabled=mixed):
                output = first_tensor(model(image))
            if options.train:
                output.float().square().mean().backward()

    return step


def run(options):
    step = step_of(options)
    before = milliseconds(step, options.device)
    print(f"{options.model}, batch {options.batch}, {options.dtype}, {'training' if options.train else 'evaluation'}: "
          f"{before:.2f} ms; measuring ...", flush=True)
    start = time.perf_counter()
    with torch.backends.ocl.flags(benchmark=True):
        step()
        torch.ocl.synchronize(options.device)
    seconds = time.perf_counter() - start
    after = milliseconds(step, options.device)
    print(f"measured for {seconds:.1f} s; now {after:.2f} ms, {before / after:.2f} times as fast")
    return 0
