# SPDX-License-Identifier: MIT
"""What tests of torch.compile share."""

import contextlib
import copy
import warnings

import pytest
import torch
from torch.utils._pytree import tree_map

from pytorch_ocl import inductor


@pytest.fixture(autouse=True)
def fresh(request):
    if not inductor.is_tested() and "that_are_not_tested" not in request.node.name:
        pytest.skip("graphs run eagerly with this version of PyTorch")
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    inductor._warned = False
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        yield


@contextlib.contextmanager
def no_eager_graphs():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs? eagerly")
        yield


def moved(values, device):
    return tree_map(lambda v: v.detach().to(device) if isinstance(v, torch.Tensor) else v, values)


def check(function, *inputs, device, rtol=None, atol=None, **options):
    """The compiled function on the device gives what it gives on the CPU; changed inputs are compared, too."""
    arguments = moved(inputs, device)
    inputs = tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, inputs)
    with no_eager_graphs():
        found = torch.compile(function, fullgraph=True, **options)(*arguments)
    torch.testing.assert_close(
        moved((found, arguments), "cpu"), (function(*inputs), inputs), rtol=rtol, atol=atol, equal_nan=True
    )


def check_training(model, *inputs, device, tolerance=1e-4, **options):
    """Result and gradients of a compiled model are those of the model run eagerly on the CPU."""
    compiled = copy.deepcopy(model).to(device)
    expected = model(*inputs)
    expected.square().mean().backward()
    with no_eager_graphs():
        found = torch.compile(compiled, **options)(*moved(inputs, device))
        found.square().mean().backward()
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)
    for (name, wanted), parameter in zip(model.named_parameters(), compiled.parameters()):
        scale = max(1, wanted.grad.abs().max().item())
        torch.testing.assert_close(
            parameter.grad.cpu(),
            wanted.grad,
            rtol=tolerance * 10,
            atol=tolerance * scale,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def floats(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(*shape).to(dtype)


def integers(low, high, *shape, dtype=torch.int64):
    torch.manual_seed(0)
    return torch.randint(low, high, shape).to(dtype)
