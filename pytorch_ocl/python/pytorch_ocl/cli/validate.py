# SPDX-License-Identifier: MIT
"""Runs a network on an OpenCL device and on the CPU with the same weights and input, and compares.

Compared are the output, the loss and, with --train, the gradient of every parameter and of the input, each by the
largest difference relative to the largest value of the reference. Operators that ran on the CPU for want of a kernel
are listed. The exit code is 0 when everything agrees within --tolerance and nothing fell back.

An activation whose input is within rounding of a kink (ReLU at 0) may take the other branch on the other device; then
gradients differ by far more than rounding although both are right. When outputs agree and gradients do not, another
input is tried, up to --inputs in all, and every such case is printed.

Names are looked up in torchvision.models first, then in timm.
"""
import copy
import sys
import time

import torch

import pytorch_ocl  # noqa: F401
from pytorch_ocl import models


def add_arguments(parser):
    parser.add_argument("--model", required=True, metavar="NAME", help="network of torchvision or timm")
    parser.add_argument("--device", default="ocl:0", help="device to test (default: ocl:0)")
    parser.add_argument("--train", action="store_true", help="training mode and gradients, too")
    parser.add_argument("--size", type=int, metavar="N", help="image height and width (default: 224, 299 for inception)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images in the batch (default: 1)")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest relative difference (default: 1e-3)")
    parser.add_argument("--inputs", type=int, default=10, metavar="N", help="inputs to try at most (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and input (default: 0)")


def relative_error(value, reference):
    """Largest difference over the largest magnitude of the reference; infinite for NaN."""
    value, reference = value.detach().cpu().double(), reference.detach().cpu().double()
    if not bool(torch.isfinite(value).all()):
        return float("inf")
    scale = reference.abs().max().clamp_min(1e-12) if reference.numel() else torch.tensor(1.0)
    return ((value - reference).abs().max() / scale).item() if reference.numel() else 0.0


def first_tensor(output):
    """The tensor in a network's output (a tensor, named tuple, list or dictionary)."""
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output


def step(model, image, target, train):
    """(output, {name: gradient}) of one forward and, when training, backward pass."""
    image = image.clone().requires_grad_(train)
    output = first_tensor(model(image))
    if not train:
        return output, {}
    scores = output.flatten(2).mean(2) if output.dim() > 2 else output
    torch.nn.functional.cross_entropy(scores, target % scores.shape[1]).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return output, {**gradients, "input": image.grad}


def compare_step(reference, options, image, target):
    """Runs one pass on both devices with copies of `reference`; returns ({name: error}, seconds on the device)."""
    tested, expected_model = copy.deepcopy(reference).to(options.device), copy.deepcopy(reference)
    with torch.set_grad_enabled(options.train):
        start = time.time()
        output, gradients = step(tested, image.to(options.device), target.to(options.device), options.train)
        torch.ocl.synchronize(options.device)
        seconds = time.time() - start
        expected, expected_gradients = step(expected_model, image, target, options.train)
    errors = {"output": relative_error(output, expected)}
    errors |= {name: relative_error(gradients[name], g) for name, g in expected_gradients.items()}
    return errors, seconds


def report(options, size, errors, seconds):
    print(f"{options.model}, batch {options.batch}, {size}x{size}, {options.device} "
          f"({torch.ocl.get_device_name(options.device)})")
    print(f"  forward: relative error {errors['output']:.2e}")
    if options.train:
        name = max((n for n in errors if n != "output"), key=errors.get)
        print(f"  backward: {len(errors) - 1} gradients, largest relative error {errors[name]:.2e} ({name})")
    print(f"  first pass on the device: {seconds:.2f} s, kernels built included")
    for name, error in errors.items():
        if not error <= options.tolerance:
            print(f"  over {options.tolerance:g}: {name}: {error:.2e}", file=sys.stderr)


def run(options):
    torch.manual_seed(options.seed)
    reference = models.create(options.model)
    models.remove_randomness(reference)
    size = options.size or models.input_size(options.model)
    reference.train(options.train)
    torch.ocl.reset_fallbacks()
    first = None
    for attempt in range(options.inputs):
        image, target = torch.randn(options.batch, 3, size, size), torch.randint(0, 1000, (options.batch,))
        errors, seconds = compare_step(reference, options, image, target)
        first = first or seconds
        agrees = all(error <= options.tolerance for error in errors.values())
        if agrees or not errors["output"] <= options.tolerance:
            break
        print(f"input {attempt + 1}: outputs agree, gradients differ by up to {max(errors.values()):.2e}")
    report(options, size, errors, first)
    fallbacks = torch.ocl.fallbacks()
    for name, count in sorted(fallbacks.items()):
        print(f"  ran on the CPU: {name}, {count} times", file=sys.stderr)
    passed = agrees and not fallbacks
    print("  PASS" if passed else "  FAIL")
    return 0 if passed else 1
