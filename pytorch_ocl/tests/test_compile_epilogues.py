# SPDX-License-Identifier: MIT
"""torch.compile: activations behind products and convolutions run in their kernels."""

import pytest
import torch
import torch.nn.functional as F
from compiling import floats, fresh, moved, no_eager_graphs  # noqa: F401
from torch import nn
from torch._inductor.utils import run_and_get_code

ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu6": F.relu6,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "sigmoid": F.sigmoid,
    "hardsigmoid": F.hardsigmoid,
}
TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def run(function, *inputs, device):
    """(result, the program) of the compiled function, whose result is the eager one's."""
    arguments = moved(inputs, device)
    with torch.no_grad(), no_eager_graphs():
        found, programs = run_and_get_code(torch.compile(function, fullgraph=True), *arguments)
        expected = function(*arguments)
    tolerance = TOLERANCES[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert found.stride() == expected.stride()
    return found, "\n".join(programs)


def count(program, name):
    return program.count(f"torch.ops.pytorch_ocl.{name}.default(")


@pytest.mark.parametrize(
    "name,dtype,bias",
    [
        *((name, torch.float32, True) for name in ACTIVATIONS),
        *((name, torch.bfloat16, False) for name in ACTIVATIONS),
        ("gelu", torch.float16, True),
    ],
)
def test_layers(device, name, dtype, bias):
    layers = [nn.Linear(24, 40, bias=bias), nn.Linear(40, 16, bias=bias)]
    first, second = (layer.to(device, dtype) for layer in layers)
    _, program = run(lambda x: second(ACTIVATIONS[name](first(x))), floats(2, 5, 24).to(dtype), device=device)
    assert count(program, "product_activation") == 1 and "run_fused" not in program


@pytest.mark.parametrize("last", [False, True])
def test_convolutions(device, last):
    layout = torch.channels_last if last else torch.contiguous_format
    first, second, third = (nn.Conv2d(8, 8, 3, padding=1).to(device, memory_format=layout) for _ in range(3))

    def residual_block(x):
        y = F.relu(first(x))
        return third(F.silu(x + second(y)))

    x = floats(2, 8, 9, 9).to(memory_format=layout)
    _, program = run(residual_block, x, device=device)
    assert count(program, "convolution_activation") == 2


@pytest.mark.parametrize("dims", [1, 3])
def test_convolutions_of_other_dims(device, dims):
    kind = {1: nn.Conv1d, 3: nn.Conv3d}[dims]
    first = kind(4, 8, 3, stride=2, padding=1, groups=2).to(device, torch.bfloat16)
    second = kind(8, 4, 3, dilation=2, padding=2, bias=False).to(device, torch.bfloat16)
    x = floats(2, 4, *[9] * dims).to(torch.bfloat16)
    _, program = run(lambda x: second(F.gelu(first(x))), x, device=device)
    assert count(program, "convolution_activation") == 1


def test_other_activations_and_transposed_convolutions(device):
    first, second = nn.ConvTranspose2d(4, 4, 3).to(device), nn.Conv2d(4, 4, 3).to(device)
    _, program = run(lambda x: second(F.relu(first(x))), floats(1, 4, 9, 9), device=device)
    assert count(program, "convolution_activation") == 0
    _, program = run(lambda x: first(F.leaky_relu(second(x))), floats(1, 4, 9, 9), device=device)
    assert count(program, "convolution_activation") == 0


def test_a_graph_that_the_pass_cannot_take_runs_eagerly(device, monkeypatch):
    from pytorch_ocl.inductor import epilogues

    def fails(module):
        raise RuntimeError("of the pass")

    monkeypatch.setattr(epilogues, "fuse", fails)
    layer, x = nn.Linear(8, 8).to(device), floats(3, 8).to(device)
    with pytest.warns(UserWarning, match="runs eagerly: RuntimeError: of the pass"):
        found = torch.compile(lambda x: F.relu(layer(x)))(x)
    torch.testing.assert_close(found, F.relu(layer(x)))


def test_residual_blocks_after_each_other(device):
    layers = [nn.Conv2d(8, 8, 3, padding=1).to(device) for _ in range(5)]

    def blocks(x):
        for first, second in (layers[:2], layers[2:4]):
            x = F.relu(second(F.relu(first(x))) + x)
        return layers[4](x)

    _, program = run(blocks, floats(1, 8, 9, 9), device=device)
    assert count(program, "convolution_activation") == 4 and "run_fused" not in program


def test_frozen_batch_norms_leave_the_activation(device):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval().to(device)
    with torch._inductor.config.patch(freezing=True):
        _, program = run(model, floats(2, 3, 9, 9), device=device)
    assert count(program, "convolution_activation") == 1 and "run_fused" not in program


def test_where_a_kernel_does_it_in_passing(device):
    gate, up = (nn.Linear(24, 40).to(device) for _ in range(2))
    _, program = run(lambda x: F.silu(gate(x)) * up(x), floats(5, 24), device=device)
    assert count(program, "product_activation") == 0


def test_products_that_others_read(device):
    first, second = (nn.Linear(24, 24).to(device) for _ in range(2))

    def function(x):
        y = first(x)
        return second(F.relu(y)) @ y.T

    _, program = run(function, floats(5, 24), device=device)
    assert count(program, "product_activation") == 0


def test_what_looks_like_an_activation(device):
    first, second = (nn.Linear(24, 24).to(device) for _ in range(2))

    def function(x):
        y = first(x)
        return second(y * 0.5 * (1 + torch.erf(y * 0.7)))

    _, program = run(function, floats(5, 24), device=device)
    assert count(program, "product_activation") == 0


def test_training(device):
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 16), nn.GELU(), nn.Linear(16, 3))
    x, own = floats(7, 24), None
    expected = model(x)
    expected.square().sum().backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    own = model.to(device)
    with no_eager_graphs():
        found = torch.compile(own)(x.to(device))
        found.square().sum().backward()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
    for p, grad in zip(own.parameters(), wanted):
        torch.testing.assert_close(p.grad.cpu(), grad, rtol=1e-4, atol=1e-5)


def test_changing_sizes(device):
    first, second = (nn.Linear(24, 24).to(device) for _ in range(2))
    compiled = torch.compile(lambda x: second(F.gelu(first(x))), dynamic=True)
    with torch.no_grad(), no_eager_graphs():
        for batch in (3, 8, 1, 17):
            x = floats(batch, 5, 24).to(device)
            torch.testing.assert_close(compiled(x), second(F.gelu(first(x))), rtol=1e-5, atol=1e-5)


def test_errors(device):
    x = floats(4, 4).to(device)
    with pytest.raises(ValueError, match="expected an activation among none, relu, .* got elu"):
        torch.ops.pytorch_ocl.product_activation(x, x, None, "elu")
    with pytest.raises(RuntimeError, match="expected matrices that can be multiplied"):
        torch.ops.pytorch_ocl.product_activation(x, x[:3], None, "relu")
    with pytest.raises(RuntimeError, match="expected a residual of"):
        y, w = floats(1, 2, 5, 5).to(device), floats(2, 2, 3, 3).to(device)
        torch.ops.pytorch_ocl.convolution_activation(y, w, None, [1, 1], [1, 1], [1, 1], 1, y[:, :, 1:], "relu")
