# SPDX-License-Identifier: MIT
"""Attention reads keys and values that are repeated for neighbouring heads of queries (grouped queries) as they were
before: the kernels let these share them, and nothing is copied for each step of generation."""

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pytorch_ocl.inductor.epilogues import RESHAPES

_aten = torch.ops.aten
_attention = _aten._scaled_dot_product_fused_attention_overrideable.default


def _shape(node):
    value = node.meta.get("val")
    return value.shape if isinstance(value, torch.Tensor) else ()


def _equal(a, b):
    return len(a) == len(b) and all(statically_known_true(x == y) for x, y in zip(a, b))


def _called(node, *targets):
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


def _repeated(node):
    """(the tensor (batch, heads, length, width), number of times in a row that `node` has each head of it), or None."""
    if not _called(node, *RESHAPES):
        return None
    five = node.args[0]
    while _called(five, _aten.clone.default):
        five = five.args[0]
    if not _called(five, _aten.expand.default) or not _called(five.args[0], _aten.unsqueeze.default):
        return None
    source, dim = five.args[0].args
    shape, repeated, before = _shape(node), _shape(five), _shape(source)
    if dim not in (2, -3) or len(repeated) != 5 or len(before) != 4:
        return None
    batch, heads, times, length, width = repeated
    expected = (batch, heads * times, length, width)
    return (source, times) if _equal(shape, expected) and _equal(before, (batch, heads, length, width)) else None


def share(module) -> None:
    """Changes a graph of aten operators in place."""
    changed = False
    for node in module.graph.find_nodes(op="call_function", target=_attention):
        key, value = _repeated(node.args[1]), _repeated(node.args[2])
        if key is None or value is None or not _equal(key[1:], value[1:]):
            continue
        node.update_arg(1, key[0]), node.update_arg(2, value[0])
        changed = True
    if changed:
        module.graph.eliminate_dead_code()
        module.recompile()
