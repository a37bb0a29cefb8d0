# SPDX-License-Identifier: MIT
"""Activations behind matrix products and convolutions become part of them (csrc/ops/epilogue.hpp) where no fused
kernel would do them in passing: where only products, convolutions, attention or the program's caller read them."""

import functools

import torch
import torch.nn.functional as F
from torch._inductor.decomposition import select_decomp_table
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

_aten = torch.ops.aten
_ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "relu6": F.relu6,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "sigmoid": F.sigmoid,
    "hardsigmoid": F.hardsigmoid,
}
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_MOST_NODES = 16  # of an activation
VIEWS = frozenset(
    {
        _aten.view.default,
        _aten.reshape.default,
        _aten._unsafe_view.default,
        _aten.permute.default,
        _aten.transpose.int,
        _aten.t.default,
        _aten.unsqueeze.default,
        _aten.squeeze.dim,
        _aten.expand.default,
    }
)
RESHAPES = frozenset({_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default})
# What is not fused with its operands.
_READERS = frozenset(
    {
        _aten.mm.default,
        _aten.addmm.default,
        _aten.bmm.default,
        _aten.baddbmm.default,
        _aten.convolution.default,
        _aten._scaled_dot_product_fused_attention_overrideable.default,
        _aten.max_pool2d_with_indices.default,
        torch.ops.pytorch_ocl.product_activation.default,
        torch.ops.pytorch_ocl.convolution_activation.default,
    }
)


@torch.library.register_fake("pytorch_ocl::product_activation")
def _product(x, weight, bias, activation):
    return x.new_empty((x.shape[0], weight.shape[1]))


@torch.library.register_fake("pytorch_ocl::convolution_activation")
def _convolution(input, weight, bias, stride, padding, dilation, groups, residual, activation):
    return _aten.convolution(input, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups)


def _expression(value, leaves, nodes):
    """What a value is as a function of leaves (node: name), as nested tuples; the nodes between are added to `nodes`.
    None where anything else goes in."""
    if not isinstance(value, Node):
        return value if isinstance(value, (bool, int, float, str, torch.dtype)) or value is None else None
    if value in leaves:
        return leaves[value]
    if value.op != "call_function" or len(nodes) >= _MOST_NODES:
        return None
    nodes.add(value)
    parts = [_expression(part, leaves, nodes) for part in value.args]
    if any(part is None and given is not None for part, given in zip(parts, value.args)):
        return None
    named = tuple(sorted((key, repr(given)) for key, given in value.kwargs.items()))
    return (str(value.target), *parts, named)


def _traced(function, dtype, inputs):
    """The expression that a function becomes in Inductor's graphs."""
    examples = [torch.empty(2, 3, dtype=dtype) for _ in range(inputs)]
    graph = make_fx(function, select_decomp_table(), tracing_mode="fake")(*examples).graph
    leaves = dict(zip((node for node in graph.nodes if node.op == "placeholder"), "xr"))
    result = next(node for node in graph.nodes if node.op == "output").args[0]
    return _expression(result, leaves, set())


def _forms(function, with_residual):
    """An activation of x, or of the sum of x and a residual r; Inductor's graphs keep the order of a sum."""
    if with_residual:
        return (lambda x, r: function(x + r)), (lambda x, r: function(r + x))
    return ((lambda x: function(x)),)


@functools.cache
def _known(dtype, with_residual) -> dict:
    """expression: name of the activation. Tracing takes some milliseconds each, so only what is asked for is traced."""
    table = {}
    for name, function in _ACTIVATIONS.items():
        for form in _forms(function, with_residual):
            table[_traced(form, dtype, 1 + with_residual)] = name
    table.pop(None, None)
    return table


def only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def reshaped(node):
    """A product's result behind what only changes its shape, and those nodes."""
    chain = []
    while (user := only_user(node)) is not None and user.target in RESHAPES:
        chain.append(user)
        node = user
    return node, chain


def _is_read_as_it_is(node):
    """Whether no user could compute it in passing."""
    return all(
        user.op == "output" or user.target in _READERS or (user.target in VIEWS and _is_read_as_it_is(user))
        for user in node.users
    )


def _residual(start):
    """The other operand where `start` is one of a sum."""
    user = only_user(start)
    while user is not None and user.target is torch.ops.prims.convert_element_type.default:
        user = only_user(user)
    if user is None or user.target is not _aten.add.Tensor or user.kwargs:
        return None
    others = [part for part in user.args if isinstance(part, Node) and part is not start]
    values = [part.meta.get("val") for part in others]
    wanted = start.meta["val"]
    for part, value in zip(others, values):
        if isinstance(value, torch.Tensor) and value.shape == wanted.shape and value.dtype == wanted.dtype:
            return part
    return None


def match(start, with_residual):
    """(end, activation, residual) where what follows is an activation, its last node being `end`; or None."""
    wanted = start.meta["val"]
    residual = _residual(start) if with_residual else None
    leaves = {start: "x"} if residual is None else {start: "x", residual: "r"}
    found, reached, node = None, {start}, start
    while len(reached) <= _MOST_NODES and (node := _following(reached, leaves)) is not None:
        reached.add(node)
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype != wanted.dtype:
            continue
        between = set()
        name = _known(wanted.dtype, residual is not None).get(_expression(node, leaves, between))
        inside = between - {node}
        if name and all(user in between for part in (*inside, start) for user in part.users):
            found = (node, name, residual)
    return found


def _following(reached, leaves):
    """The next node in the program's order that takes what was reached and nothing else but leaves."""
    users = {user for node in reached for user in node.users if user not in reached and user not in leaves}
    ready = [user for user in users if all(n in reached or n in leaves for n in user.all_input_nodes)]
    return min(ready, default=None)


def _call(node, name, residual):
    """The node's product or convolution with an activation: (operator, arguments), or None."""
    target, args = node.target, node.args
    if target is _aten.mm.default:
        return torch.ops.pytorch_ocl.product_activation.default, (*args, None, name)
    if target is _aten.addmm.default and not node.kwargs:
        bias = args[0].meta["val"]
        if bias.dim() != 1 or bias.dtype != node.meta["val"].dtype or bias.shape[0] != node.meta["val"].shape[1]:
            return None
        return torch.ops.pytorch_ocl.product_activation.default, (*args[1:], args[0], name)
    if target is _aten.convolution.default and not args[6]:
        return torch.ops.pytorch_ocl.convolution_activation.default, (*args[:6], args[8], residual, name)
    return None


def _fuse(graph, node):
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != "ocl" or value.dtype not in _DTYPES:
        return False
    start, chain = reshaped(node)
    found = match(start, with_residual=node.target is _aten.convolution.default and not chain)
    if found is None:
        return False
    end, name, residual = found
    call = _call(node, name, residual)
    laid_out_alike = end.meta["val"].stride() == start.meta["val"].stride()
    if call is None or not laid_out_alike or not _is_read_as_it_is(end):
        return False
    with graph.inserting_before(end):
        new = graph.call_function(*call)
        new.meta.update(node.meta)
        for reshape in chain:
            new = graph.node_copy(
                reshape, lambda part, new=new, source=reshape.args[0]: new if part is source else part
            )
    end.replace_all_uses_with(new)
    graph.eliminate_dead_code()  # or what was replaced would count as a reader
    return True


def fuse(module) -> None:
    """Changes a graph of aten operators. Later ones first: a convolution that takes a residual reads it as it is."""
    found = [
        n for n in module.graph.nodes if n.target in (_aten.mm.default, _aten.addmm.default, _aten.convolution.default)
    ]
    if any([_fuse(module.graph, node) for node in reversed(found)]):
        module.graph.lint()
        module.recompile()
