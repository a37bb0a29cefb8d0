# SPDX-License-Identifier: MIT
"""Compiled products of one matrix of few rows with several weights are one launch."""

import pytest
import torch
import torch.nn.functional as F
from pytorch_ocl.inductor import products

from pytorch_ocl import inductor

_several, _gated = torch.ops.pytorch_ocl.products.default, torch.ops.pytorch_ocl.gated_product.default


@pytest.fixture
def joined(monkeypatch):
    """The numbers of weights of each call of products, and the activations of gated ones, of compiled graphs."""
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    seen, join = [], products.join

    def spy(module):
        join(module)
        for node in module.graph.nodes:
            if node.target is _several:
                seen.append(len(node.args[1]))
            if node.target is _gated:
                seen.append(node.args[3])

    monkeypatch.setattr(products, "join", spy)
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield seen


class Block(torch.nn.Module):
    def __init__(self, activation, bias):
        super().__init__()
        self.activation = activation
        self.q, self.k, self.v = (torch.nn.Linear(40, n, bias=bias) for n in (48, 16, 16))
        self.gate, self.up = (torch.nn.Linear(40, 72, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(72, 40, bias=False)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        mixed = torch.cat([q * 2, k.relu(), v + 1], -1)
        return mixed, self.down(self.activation(self.gate(x)) * self.up(x))


def check(device, module, x, dtype=torch.float32):
    torch.manual_seed(0)
    module = module.to(dtype)
    with torch.no_grad():
        expected = module(x.to(dtype))
        found = torch.compile(module.to(device), fullgraph=True)(x.to(device, dtype))
    for a, b in zip(found, expected):
        bound = 1e-4 if dtype is torch.float32 else 0.05
        torch.testing.assert_close(a.cpu(), b, rtol=bound, atol=bound)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows, dtype", [((1, 1), torch.float32), ((2, 3), torch.bfloat16)])
def test_block(device, joined, rows, dtype, bias):
    check(device, Block(F.silu, bias), torch.randn(*rows, 40), dtype)
    assert joined == [3, "silu"]


def test_other_gates(device, joined):
    check(device, Block(torch.nn.GELU(approximate="tanh"), False), torch.randn(1, 40))
    check(device, Block(torch.sigmoid, False), torch.randn(1, 40))
    check(device, Block(torch.tanh, False), torch.randn(1, 40))  # no product ends with it
    assert joined == [3, "gelu_tanh", 3, "sigmoid", 4]


def test_many_rows_stay(device, joined):
    check(device, Block(F.silu, False), torch.randn(9, 40))
    assert joined == []


def test_gates_that_are_read_elsewhere(device, joined):
    class Module(Block):
        def forward(self, x):
            gate = F.silu(self.gate(x))
            return gate * self.up(x), gate.sum(-1)

    check(device, Module(F.silu, False), torch.randn(1, 40))
    assert joined == [2]


def test_more_than_a_launch_takes(device, joined):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList(torch.nn.Linear(40, 8 + n) for n in range(6))

        def forward(self, x):
            return [head(x).relu() for head in self.heads]

    check(device, Module(), torch.randn(1, 40))
    assert joined == [4, 2]


def test_training(device, joined):
    torch.manual_seed(0)
    module, x = Block(F.silu, True), torch.randn(2, 40)
    sum(part.square().sum() for part in module(x)).backward()
    expected = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module.to(device)
    sum(part.square().sum() for part in torch.compile(module, fullgraph=True)(x.to(device))).backward()
    for p, grad in zip(module.parameters(), expected):
        torch.testing.assert_close(p.grad.cpu(), grad, rtol=1e-3, atol=1e-3)


def test_operators_check_their_operands(device):
    x, weight = torch.ones(2, 8, device=device), torch.ones(8, 4, device=device)
    with pytest.raises(RuntimeError, match="products: expected matrices that can be multiplied"):
        torch.ops.pytorch_ocl.products(x, [weight, weight.t()])
    with pytest.raises(RuntimeError, match="gated_product: expected weights of one shape"):
        torch.ops.pytorch_ocl.gated_product(x, weight, weight[:, :2], "silu")
    with pytest.raises(ValueError, match="gated_product: expected an activation"):
        torch.ops.pytorch_ocl.gated_product(x, weight, weight, "swish")
    assert torch.ops.pytorch_ocl.products(x, []) == []
    assert torch.ops.pytorch_ocl.products(x[:0], [weight])[0].shape == (0, 4)
    assert torch.ops.pytorch_ocl.gated_product(x[:, :0], weight[:0], weight[:0], "silu").cpu().eq(0).all()
