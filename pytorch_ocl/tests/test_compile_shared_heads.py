# SPDX-License-Identifier: MIT
"""Compiled attention of grouped queries reads keys and values as they were before they were repeated."""

import pytest
import torch
import torch.nn.functional as F
from pytorch_ocl.inductor import shared_heads

from pytorch_ocl import inductor

GROUP = 4


def by_reshape(x):
    batch, heads, length, width = x.shape
    return x[:, :, None].expand(batch, heads, GROUP, length, width).reshape(batch, heads * GROUP, length, width)


def by_repetition(x):
    return x.repeat_interleave(GROUP, 1)


def all_heads_in_turn(x):
    return x.repeat(1, GROUP, 1, 1)


@pytest.fixture
def attended(monkeypatch, set_variable):
    """Heads of keys that each compiled attention reads; attention is never computed by products."""
    if not inductor.is_tested():
        pytest.skip("graphs run eagerly with this version of PyTorch")
    seen, share = [], shared_heads.share

    def spy(module):
        share(module)
        nodes = module.graph.find_nodes(op="call_function", target=shared_heads._attention)
        seen.extend(node.args[1].meta["val"].shape[1] for node in nodes)

    monkeypatch.setattr(shared_heads, "share", spy)
    set_variable("DLPRIM_ATTENTION", "tiled")
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield seen


def check(device, repeat, queries, **options):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 8, queries, 16), torch.randn(2, 2, 40, 16), torch.randn(2, 2, 40, 16)

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, repeat(k * 2), repeat(v + 1), **options)

    with torch.no_grad():
        found = torch.compile(function, fullgraph=True)(*(x.to(device) for x in (q, k, v)))
    torch.testing.assert_close(found.cpu(), function(q, k, v), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("repeat", [by_reshape, by_repetition])
def test_reads_what_was_repeated(device, attended, repeat, queries):
    check(device, repeat, queries, is_causal=queries > 1)
    assert attended == [2]


def test_heads_shared_by_pytorch(device, attended):
    check(device, lambda x: x, 40, enable_gqa=True)
    assert attended == [2]


def test_other_orders_of_heads_stay(device, attended):
    check(device, all_heads_in_turn, 40)
    assert attended == [8]


def test_only_both_or_none(device, attended):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 40, 16) for heads in (8, 2, 8))

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, by_reshape(k), v)

    with torch.no_grad():
        found = torch.compile(function, fullgraph=True)(*(x.to(device) for x in (q, k, v)))
    torch.testing.assert_close(found.cpu(), function(q, k, v), rtol=1e-4, atol=1e-4)
    assert attended == [8]


def test_gradients(device, attended):
    torch.manual_seed(0)
    tensors = [torch.randn(2, heads, 40, 16) for heads in (8, 2, 2)]

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, by_reshape(k * 2), by_reshape(v + 1)).square().sum()

    here = [x.to(device).requires_grad_() for x in tensors]
    there = [x.clone().requires_grad_() for x in tensors]
    torch.compile(function, fullgraph=True)(*here).backward()
    function(*there).backward()
    assert attended == [2]
    for x, y in zip(here, there):
        torch.testing.assert_close(x.grad.cpu(), y.grad, rtol=1e-3, atol=1e-3)
