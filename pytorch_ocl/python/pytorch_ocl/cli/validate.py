# SPDX-License-Identifier: MIT
"""Runs a network on an OpenCL device and on the CPU with the same weights and input, and compares.

Compared are the output and, with --train, the gradient of every parameter and of the input, each by the largest
difference relative to the largest value of the reference. Operators that ran on the CPU for want of a kernel are
listed. The exit code is 0 when everything agrees within --tolerance and nothing fell back.

In training mode rounding decides which way an activation goes whose input is next to a kink (ReLU at 0), and batch
statistics of few values amplify what is left: float32 gradients of deep networks differ by tens of percent between any
two devices, although both are right. When that happens, the networks are compared once more with the CPU following the
device: every module on the CPU passes on the device's output in place of its own, which must agree within the
tolerance. Both sides then take the same branches, and gradients must agree, too.

Names are looked up in torchvision.models first, then in timm.
"""

import copy
import sys
import time

import torch
from torch.utils._pytree import tree_leaves, tree_map

import pytorch_ocl  # noqa: F401
from pytorch_ocl import models

# Gradients under this share of the largest one are compared on its scale: with a tolerance of 1e-3, differences under
# 1e-6 of the largest gradient do not count, which is what rounding leaves of a sum whose exact value is 0.
RESOLUTION = 1e-3


def add_arguments(parser):
    parser.add_argument("--model", required=True, metavar="NAME", help="network of torchvision or timm")
    parser.add_argument("--device", default="ocl:0", help="device to test (default: ocl:0)")
    parser.add_argument("--train", action="store_true", help="training mode and gradients, too")
    parser.add_argument("--size", type=int, metavar="N", help="image height and width (default: 224, inception 299)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images in the batch (default: 1)")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest relative difference (default: 1e-3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and input (default: 0)")


def relative_error(value, reference, floor=1e-12):
    """Largest difference over the reference's largest magnitude, which counts as `floor` at least; NaN: infinite."""
    value, reference = value.detach().cpu().double(), reference.detach().cpu().double()
    if not bool(torch.isfinite(value).all()):
        return float("inf")
    scale = reference.abs().max().clamp_min(floor) if reference.numel() else torch.tensor(1.0)
    return ((value - reference).abs().max() / scale).item() if reference.numel() else 0.0


def first_tensor(output):
    """The tensor in a network's output (a tensor, named tuple, list or dictionary)."""
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output


class Follow(torch.autograd.Function):
    """The values of `recorded` with the gradient of `output`."""

    @staticmethod
    def forward(ctx, output, recorded):
        del ctx, output
        return recorded.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def record_outputs(model):
    """A list that receives the floating-point outputs of all modules of `model`, on the CPU, in the order of calls."""
    records = []

    def record(module, inputs, output):
        records.extend(leaf.detach().cpu() for leaf in tree_leaves(output) if is_float(leaf))

    for module in model.modules():
        module.register_forward_hook(record)
    return records


def follow_outputs(model, records):
    """Makes the modules of `model` pass on `records`, not their outputs; returns the list of their errors."""
    errors, remaining = [], iter(records)

    def follow(leaf):
        if not is_float(leaf):
            return leaf
        recorded = next(remaining)
        errors.append(relative_error(recorded, leaf))
        return Follow.apply(leaf, recorded)

    for module in model.modules():
        module.register_forward_hook(lambda module, inputs, output: tree_map(follow, output))
    return errors


def is_float(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


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


def gradient_errors(gradients, expected):
    """{name: error}, each on the scale of the gradient itself, of RESOLUTION times the largest one at least."""
    floor = RESOLUTION * max(g.abs().max().item() for g in expected.values() if g.numel())
    return {name: relative_error(gradients[name], g, floor) for name, g in expected.items()}


def compare(reference, options, image, target):
    """Runs copies of `reference`: ({name: error}, the same with the CPU following if need be or None, seconds)."""
    tested, cpu = copy.deepcopy(reference).to(options.device), copy.deepcopy(reference)
    with torch.set_grad_enabled(options.train):
        start = time.time()
        output, gradients = step(tested, image.to(options.device), target.to(options.device), options.train)
        torch.ocl.synchronize(options.device)
        seconds = time.time() - start
        expected, expected_gradients = step(cpu, image, target, options.train)
        errors = {"output": relative_error(output, expected)}
        if not options.train:
            return errors, None, seconds
        errors |= gradient_errors(gradients, expected_gradients)
        if max(errors.values()) <= options.tolerance:
            return errors, None, seconds
        tested, cpu = copy.deepcopy(reference).to(options.device), copy.deepcopy(reference)
        module_errors = follow_outputs(cpu, records := record_outputs(tested))
        _, gradients = step(tested, image.to(options.device), target.to(options.device), True)
        _, expected_gradients = step(cpu, image, target, True)
        followed = {"modules": max(module_errors), **gradient_errors(gradients, expected_gradients)}
        assert len(module_errors) == len(records), "the devices called different modules"
    return errors, followed, seconds


def largest(errors, leave_out):
    name = max((n for n in errors if n != leave_out), key=errors.get)
    return f"{errors[name]:.2e} ({name})"


def report(options, size, errors, followed, seconds):
    print(
        f"{options.model}, batch {options.batch}, {size}x{size}, {options.device} "
        f"({torch.ocl.get_device_name(options.device)})"
    )
    print(f"  forward: relative error {errors['output']:.2e}")
    if options.train:
        print(f"  backward: {len(errors) - 1} gradients, largest relative error {largest(errors, 'output')}")
    if followed:
        print("  rounding chose other branches or was amplified; with the CPU following the device's activations:")
        print(f"    forward: largest relative error of a module {followed['modules']:.2e}")
        print(f"    backward: largest relative error {largest(followed, 'modules')}")
    print(f"  first pass on the device: {seconds:.2f} s, kernels built included")
    for name, error in (followed or errors).items():
        if not error <= options.tolerance:
            print(f"  over {options.tolerance:g}: {name}: {error:.2e}", file=sys.stderr)


def run(options):
    torch.manual_seed(options.seed)
    reference = models.create(options.model)
    models.remove_randomness(reference)
    size = options.size or models.input_size(options.model)
    reference.train(options.train)
    torch.ocl.reset_fallbacks()
    image, target = torch.randn(options.batch, 3, size, size), torch.randint(0, 1000, (options.batch,))
    with models.WithoutDropout():
        errors, followed, seconds = compare(reference, options, image, target)
    report(options, size, errors, followed, seconds)
    fallbacks = torch.ocl.fallbacks()
    for name, count in sorted(fallbacks.items()):
        print(f"  ran on the CPU: {name}, {count} times", file=sys.stderr)
    passed = all(error <= options.tolerance for error in (followed or errors).values()) and not fallbacks
    print("  PASS" if passed else "  FAIL")
    return 0 if passed else 1
