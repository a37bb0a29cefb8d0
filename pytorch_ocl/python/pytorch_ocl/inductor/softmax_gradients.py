# SPDX-License-Identifier: MIT
"""Gradients of softmax on CPUs, which take 20 times as long for numbers below the normal ones, as masks leave. Beside
the rest of a row, which adds up to 1, such a probability changes no gradient: it is taken as 0.

Done after Inductor has looked for attention, whose gradient it knows by the form that this changes."""

import torch
from torch._inductor.inductor_prims import fma

from pytorch_ocl.inductor.lowerings import is_ocl_cpu

_aten = torch.ops.aten
_DTYPES = (torch.float32, torch.float64, torch.bfloat16)  # of float16, such are normal numbers of the kernel's float


def _parts(node):
    """The probabilities p of a node that is g * p - p * sum(g * p), with the nodes that read them, else None."""
    if node.target is not fma:
        return None
    negated, total, product = node.args
    if not all(isinstance(part, torch.fx.Node) for part in node.args):
        return None
    of_rows = total.target is _aten.sum.dim_IntList and total.args[0] is product
    if not (of_rows and negated.target is _aten.neg.default and product.target is _aten.mul.Tensor):
        return None
    p = negated.args[0]
    return (p, (negated, product)) if p in product.args else None


def _call(graph, like, target, *arguments, **options):
    node = graph.call_function(target, arguments, options)
    values = [value.meta["val"] if isinstance(value, torch.fx.Node) else value for value in arguments]
    with like.fake_mode:
        node.meta["val"] = target(*values, **options)
    return node


def skip_tiny(module) -> None:
    """Changes the gradients of softmax in a graph of aten operators."""
    for node in list(module.graph.nodes):
        found = _parts(node)
        if found is None:
            continue
        p, readers = found
        like = p.meta["val"]
        if not is_ocl_cpu(like.device) or like.dtype not in _DTYPES:
            continue
        with module.graph.inserting_before(min(readers)):  # the first of them
            size = _call(module.graph, like, _aten.abs.default, p)
            tiny = _call(module.graph, like, _aten.lt.Scalar, size, torch.finfo(like.dtype).tiny)
            zero = _call(module.graph, like, _aten.full.default, [], 0.0, dtype=like.dtype, device=like.device)
            kept = _call(module.graph, like, _aten.where.self, tiny, zero, p)
        for reader in readers:
            reader.replace_input_with(p, kept)
    module.recompile()
