# SPDX-License-Identifier: MIT
"""FlexAttention in compiled graphs: by the attention kernels (flex_fused.py), or by matrix products, between which
Inductor fuses score_mod, mask_mod and softmax."""

import torch
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from .flex_function import Mods
from .flex_fused import fused

_FUNCTIONS = {flex_attention: sdpa_dense, flex_attention_backward: sdpa_dense_backward}
_SCORE_MODS = {flex_attention: 3, flex_attention_backward: 7}  # the argument that is score_mod
_BLOCK_MASKS = {flex_attention: 4, flex_attention_backward: 9}  # that with mask_mod as the last part
_JOINT = 8  # the argument with score_mod's graph that has gradients, too
_SCORE_BUFFERS = -2  # the argument with the tensors that score_mod captures, before that with mask_mod's
_INPUTS_OF_SCORE_MOD = 5  # before these: the score and its indices


def _submodule(module, value):
    """The graph that an argument names, if it does."""
    if isinstance(value, Node) and value.op == "get_attr":
        found = getattr(module, value.target, None)
        return found if isinstance(found, GraphModule) else None
    return None


def _example(node):
    return node.meta["val"]


def _as_example(tensor, example):
    """With the dtype that the rest of the graph was traced with."""
    return tensor.to(example.dtype) if isinstance(tensor, torch.Tensor) else tensor


def _decompositions():
    """Inductor's, where a captured number may change its type as tensors do."""
    table = dict(select_decomp_table())
    to_copy = table[torch.ops.aten._to_copy.default]

    def _to_copy(x, *, dtype=None, **options):
        if isinstance(x, (torch.SymInt, torch.SymFloat)):
            return torch.sym_float(x) if dtype is not None and dtype.is_floating_point else x
        return to_copy(x, dtype=dtype, **options)

    return {**table, torch.ops.aten._to_copy.default: _to_copy}


def _convert_by_aten(function, traced=None):
    """Has a function's graph change dtypes by an operator that `vmap` knows: of prims' own it would run one for each
    score. Scores are at least float32 where score_mod was `traced` with the dtype of queries: so is what has theirs."""
    for node in function.graph.nodes:
        if node.target is torch.ops.prims.convert_element_type.default:
            tensor, dtype = node.args
            if dtype == traced:
                dtype = torch.promote_types(dtype, torch.float32)
            node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (tensor,), {"dtype": dtype}
    function.recompile()


def _gradients_of_captured(module, node):
    """Examples of the gradients of what score_mod captures, None where its graph with gradients has none."""
    if node.target is not flex_attention_backward:
        return ()
    joint = _submodule(module, node.args[_JOINT])
    made = next(n for n in joint.graph.nodes if n.op == "output").args[0][_INPUTS_OF_SCORE_MOD:]
    return [None if part is None else example for part, example in zip(made, _example(node)[3])]


def _trace(module, node):
    """The node's operators as a graph, the nodes that it takes, and the mode of their examples."""
    flat, spec = tree_flatten((node.args, node.kwargs))
    graphs = [_submodule(module, value) for value in flat]
    taken = [value for value, graph in zip(flat, graphs) if isinstance(value, Node) and graph is None]
    gradients = _gradients_of_captured(module, node)
    score_mod = _submodule(module, node.args[_SCORE_MODS[node.target]])
    for graph in filter(None, graphs):
        _convert_by_aten(graph, _example(node.args[0]).dtype if graph is score_mod else None)
    examples = [_example(value) for value in taken]
    mode = next(value.fake_mode for value in examples if isinstance(value, torch.Tensor))
    joint = _submodule(module, node.args[_JOINT]) if node.target is flex_attention_backward else None
    mask_mod = _submodule(module, node.args[_BLOCK_MASKS[node.target]][-1])
    captured = [[_example(x) if isinstance(x, Node) else x for x in part] for part in node.args[_SCORE_BUFFERS:]]
    with mode, torch.no_grad():
        mods = Mods(score_mod, joint, mask_mod, *captured, _decompositions())
        function = fused(node, [_example(value) for value in node.args[:3]], mods, gradients)
    function = function or _FUNCTIONS[node.target]

    def dense(*values):
        rest = iter(values)
        filled = [
            graph if graph is not None else next(rest) if isinstance(value, Node) else value
            for value, graph in zip(flat, graphs)
        ]
        args, kwargs = tree_unflatten(filled, spec)
        for buffer, gradient in zip(args[_SCORE_BUFFERS], gradients):
            if isinstance(buffer, torch.Tensor):
                buffer.requires_grad_(gradient is not None)
        return tree_map(_as_example, function(*args, **kwargs), _example(node))

    with mode, torch.no_grad():
        examples = [v.detach() if isinstance(v, torch.Tensor) else v for v in examples]
        traced = make_fx(dense, decomposition_table=_decompositions())(*examples)
    return traced, taken, mode


def _constant(graph, tensor, mode):
    """A number that the trace holds as a tensor, as a node."""
    held = tensor if getattr(tensor, "constant", None) is None else tensor.constant
    with unset_fake_temporarily():
        number = held.item()
    options = {"dtype": tensor.dtype, "device": tensor.device}
    made = graph.call_function(torch.ops.aten.full.default, ([], number), options)
    with mode:
        made.meta["val"] = torch.full([], number, **options)
    return made


def _inline(module, node, traced, taken, mode):
    """Puts a traced graph in the place of a node."""
    values = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), taken))
    with module.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":
                values[inner] = _constant(module.graph, getattr(traced, inner.target), mode)
            elif inner.op == "call_function":
                values[inner] = module.graph.node_copy(inner, values.__getitem__)
                if inner.target is torch.ops.aten.copy_.default:  # traced so that later uses take its result
                    values[inner].target = torch.ops.aten.copy.default
    result = next(n for n in traced.graph.nodes if n.op == "output").args[0]
    result = tree_map(lambda value: values[value] if isinstance(value, Node) else value, result)
    _replace(module.graph, node, result)


def _with(arguments, node, value):
    """Arguments with a value in the place of a node."""
    return tree_map(lambda argument: value if argument is node else argument, arguments)


def _replace(graph, node, result):
    """Has the users of a node's parts take those of `result`."""
    for user in list(node.users):
        part = result[user.args[1]]
        if isinstance(part, Node):
            user.replace_all_uses_with(part)
            graph.erase_node(user)
        elif isinstance(part, (tuple, list)):
            _replace(graph, user, part)
        else:
            for outer in list(user.users):
                outer.args = _with(outer.args, user, part)
            graph.erase_node(user)
    graph.erase_node(node)


def expand(module) -> None:
    """Replaces the graph's FlexAttention by the operators it consists of."""
    found = [n for n in module.graph.nodes if n.op == "call_function" and n.target in _FUNCTIONS]
    for node in found:
        _inline(module, node, *_trace(module, node))
    if found:
        module.graph.lint()
        module.recompile()
