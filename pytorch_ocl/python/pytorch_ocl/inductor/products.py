# SPDX-License-Identifier: MIT
"""Products of one matrix of few rows with several weights become one launch: queries, keys and values of a step of
generation, and both products of a gated activation (SwiGLU), which is then part of the launch."""

import operator

import torch
from torch.fx import Node

from pytorch_ocl.inductor import epilogues

_aten = torch.ops.aten
_MOST_ROWS = 8  # those of the GEMM engine's core for few rows
_MOST = 4  # of one launch
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@torch.library.register_fake("pytorch_ocl::products")
def _several(x, weights):
    return [x.new_empty((x.shape[0], weight.shape[1])) for weight in weights]


@torch.library.register_fake("pytorch_ocl::gated_product")
def _gated(x, gate, up, activation):
    return x.new_empty((x.shape[0], up.shape[1]))


def _operands(node):
    """x, the weight and the bias, or None, of a product."""
    return (*node.args, None) if node.target is _aten.mm.default else (*node.args[1:], node.args[0])


def _is_of_few_rows(node):
    x, weight, bias = (None if part is None else part.meta.get("val") for part in _operands(node))
    if node.kwargs or (bias is not None and (bias.dim() != 1 or bias.dtype != x.dtype)):
        return False
    known = all(isinstance(size, int) for size in (*x.shape, *weight.shape))
    if x.device.type != "ocl" or x.dtype not in _DTYPES or not known:
        return False
    return 0 < x.shape[0] <= _MOST_ROWS and weight.stride(0) == 1  # weights that lie as nn.Linear's


def _source(node):
    """What a node is a view of in the same order."""
    while isinstance(node, Node) and node.target in epilogues.RESHAPES:
        node = node.args[0]
    return node


def _is_weight(node):
    """Whether a node can be computed first: an input of the graph, or a transpose of one."""
    while isinstance(node, Node) and node.target in epilogues.VIEWS:
        node = node.args[0]
    return isinstance(node, Node) and node.op in ("placeholder", "get_attr")


def _groups(graph):
    """Lists of products of one matrix."""
    found = {}
    for node in graph.nodes:
        if node.target not in (_aten.mm.default, _aten.addmm.default) or not _is_of_few_rows(node):
            continue
        x, weight, bias = _operands(node)
        if _is_weight(weight) and (bias is None or _is_weight(bias)):
            found.setdefault((_source(x), x.meta["val"].shape), []).append(node)
    return [nodes for nodes in found.values() if len(nodes) > 1]


def _copied_weights(graph, nodes):
    """The products' weights, to be read from here on."""

    def copied(node):
        if node.op in ("placeholder", "get_attr"):
            return node
        return graph.node_copy(node, lambda part: copied(part))

    return [copied(_operands(node)[1]) for node in nodes]


def _gating(node, others):
    """(up, activation, their product) where all that follows the product `node` is activation(node) * up, `up` being
    another of `others`; or None."""
    start, _ = epilogues.reshaped(node)
    match = epilogues.match(start, with_residual=False)
    if match is None:
        return None
    end, activation, _ = match
    value, _ = epilogues.reshaped(end)
    product = epilogues.only_user(value)
    if product is None or product.target is not _aten.mul.Tensor or product.kwargs:
        return None
    rest = [part for part in product.args if part is not value]
    up = _source(rest[0]) if len(rest) == 1 else None
    if up not in others or up is node or epilogues.reshaped(up)[0] is not rest[0]:
        return None
    if epilogues.only_user(rest[0]) is not product or product.meta["val"].dtype != node.meta["val"].dtype:
        return None
    return up, activation, product


def _gate(graph, nodes):
    """Replaces gated activations; returns the products that are left."""
    for node in nodes:
        found = _gating(node, nodes)
        if found is None or any(_operands(part)[2] is not None for part in (node, found[0])):
            continue
        if found[0].meta["val"].shape != node.meta["val"].shape:
            continue
        up, activation, product = found
        with graph.inserting_before(min(node, up)):
            gate_weight, up_weight = _copied_weights(graph, [node, up])
            call = (node.args[0], gate_weight, up_weight, activation)
            new = graph.call_function(torch.ops.pytorch_ocl.gated_product.default, call)
            new.meta["val"] = node.meta["val"]
        with graph.inserting_before(product):
            shaped = graph.call_function(_aten.reshape.default, (new, list(product.meta["val"].shape)))
            shaped.meta.update(product.meta)
        product.replace_all_uses_with(shaped)
        return [part for part in nodes if part not in (node, up)]
    return nodes


def _join(graph, nodes):
    first = min(nodes)
    with graph.inserting_before(first):
        call = (_operands(first)[0], _copied_weights(graph, nodes))
        several = graph.call_function(torch.ops.pytorch_ocl.products.default, call)
        several.meta["val"] = [node.meta["val"] for node in nodes]
        results = [graph.call_function(operator.getitem, (several, i)) for i in range(len(nodes))]
    for node, result in zip(nodes, results):
        result.meta["val"] = node.meta["val"]
        bias = _operands(node)[2]
        if bias is not None:  # which kernels that read the result add in passing
            with graph.inserting_before(node):
                result = graph.call_function(_aten.add.Tensor, (result, bias))
        result.meta.update(node.meta)
        node.replace_all_uses_with(result)


def join(module) -> None:
    """Changes a graph of aten operators in place."""
    graph = module.graph
    groups = _groups(graph)
    for nodes in groups:
        rest = _gate(graph, sorted(nodes))
        for i in range(0, len(rest), _MOST):
            if len(rest[i : i + _MOST]) > 1:
                _join(graph, rest[i : i + _MOST])
    if groups:
        graph.eliminate_dead_code()
        graph.lint()
        module.recompile()
