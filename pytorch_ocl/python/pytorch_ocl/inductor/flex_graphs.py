# SPDX-License-Identifier: MIT
"""What the graphs of score_mod and mask_mod are asked."""

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

_aten = torch.ops.aten


def placeholders(graph_module):
    return [node for node in graph_module.graph.nodes if node.op == "placeholder"]


def result_of(graph_module):
    value = next(node for node in graph_module.graph.nodes if node.op == "output").args[0]
    return value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value


def number_of(graph_module, value):
    """What an argument is, where that is known: numbers, and tensors of one element that are filled with one."""
    if isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, Node):
        return None
    if value.op == "get_attr":
        held = getattr(graph_module, value.target, None)
        if isinstance(held, torch.Tensor) and held.numel() == 1:
            with unset_fake_temporarily():
                held = held if getattr(held, "constant", None) is None else held.constant
                return held.item() if type(held) is torch.Tensor else None
        return None
    if value.target in (_aten.full.default, _aten.full_like.default, _aten.new_full.default):
        return number_of(graph_module, value.args[-1])
    if value.target in (_aten.scalar_tensor.default, _aten.lift_fresh_copy.default, _aten.clone.default):
        return number_of(graph_module, value.args[0])
    if value.target is _aten.new_ones.default or value.target is _aten.ones.default:
        return 1
    return None
