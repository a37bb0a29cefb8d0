# SPDX-License-Identifier: MIT
"""FlexAttention by the attention kernels: they compute score_mod and mask_mod, or read a mask or a bias where score_mod
multiplies scores by a number and adds what does not depend on them, or puts -inf in their place."""

import math
import operator

import torch
from torch._higher_order_ops.flex_attention import _permute_strides, flex_attention
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

from pytorch_ocl.inductor.flex_function import function_of
from pytorch_ocl.inductor.flex_graphs import number_of, placeholders, result_of

_aten = torch.ops.aten
_attention = _aten._scaled_dot_product_fused_attention_overrideable
_attention_backward = _aten._scaled_dot_product_fused_attention_overrideable_backward
_OVERRIDEABLE = 4  # of torch.nn.attention.SDPBackend
_with_mask, _with_mask_backward = torch.ops.pytorch_ocl.attention, torch.ops.pytorch_ocl.attention_backward
_computed, _computed_backward = torch.ops.pytorch_ocl.flex_attention, torch.ops.pytorch_ocl.flex_attention_backward
_MAX_SCORES, _GRAD_LOGSUMEXP = 2, 6  # a result of the forward node, an argument of the backward one


@torch.library.register_fake("pytorch_ocl::attention")
def _(query, key, value, bias, mask, scale):
    return _attention(query, key, value, bias, 0.0, False, False, scale=scale)[:2]


@torch.library.register_fake("pytorch_ocl::attention_backward")
def _(grad_out, query, key, value, bias, mask, out, logsumexp, scale):
    return _gradients(grad_out, query, key, value, bias, out, logsumexp, scale)


@torch.library.register_fake("pytorch_ocl::flex_attention")
def _(query, key, value, captured, text, slope, kind, tiles, tile_queries, tile_keys, scale):
    return _attention(query, key, value, None, 0.0, False, False, scale=scale)[:2]


@torch.library.register_fake("pytorch_ocl::flex_attention_backward")
def _(grad_out, query, key, value, captured, text, slope, kind, tiles, tile_queries, tile_keys, out, logsumexp, scale):
    return _gradients(grad_out, query, key, value, None, out, logsumexp, scale)


def _depends(value, source, known):
    """Whether a value is computed from `source`."""
    if not isinstance(value, Node):
        return False
    if value not in known:
        known[value] = value is source or any(_depends(arg, source, known) for arg in value.all_input_nodes)
    return known[value]


def _slope(graph_module, value, score, known):
    """s where a value is s * score + f and f does not depend on the score, or -inf in some positions; else None."""
    if value is score:
        return 1.0
    if not isinstance(value, Node) or value.op != "call_function":
        return None
    if value.target is _aten._to_copy.default and list(value.kwargs) == ["dtype"]:
        exact = value.kwargs["dtype"] in (torch.float32, torch.float64)
        return _slope(graph_module, value.args[0], score, known) if exact else None
    if value.kwargs:
        return None

    def slope(argument):
        return _slope(graph_module, argument, score, known)

    def depends(argument):
        return _depends(argument, score, known)

    target, args = value.target, value.args
    if target in (_aten.add.Tensor, _aten.sub.Tensor) and depends(args[0]) != depends(args[1]):
        if depends(args[0]):
            return slope(args[0])
        inner = slope(args[1])
        return inner if inner is None or target is _aten.add.Tensor else -inner
    if target in (_aten.mul.Tensor, _aten.div.Tensor) and depends(args[0]) != depends(args[1]):
        inner, factor = (args[0], args[1]) if depends(args[0]) else (args[1], args[0])
        number, inner = number_of(graph_module, factor), slope(inner)
        if number is None or inner is None or (target is _aten.div.Tensor and (depends(args[1]) or number == 0)):
            return None
        return inner * number if target is _aten.mul.Tensor else inner / number
    if target is _aten.neg.default:
        inner = slope(args[0])
        return None if inner is None else -inner
    if target is _aten.where.self and not depends(args[0]) and depends(args[1]) != depends(args[2]):
        inner, other = (args[1], args[2]) if depends(args[1]) else (args[2], args[1])
        return slope(inner) if number_of(graph_module, other) == -math.inf else None
    return None


def _hint(size):
    return size if isinstance(size, int) else size.node.hint


def _takes(query, key, value):
    """Whether the device has a kernel for tensors of these sizes."""
    if not query.dtype == key.dtype == value.dtype or key.shape[0] != value.shape[0]:
        return False
    with unset_fake_temporarily(), torch.no_grad():
        like = [
            torch.empty(1, dtype=x.dtype, device=x.device).expand([_hint(size) for size in x.shape])
            for x in (query, key.expand(query.shape[0], -1, -1, -1), value.expand(query.shape[0], -1, -1, -1))
        ]
        shared = like[0].shape[1] != like[1].shape[1]
        return torch._fused_sdp_choice(*like, None, 0.0, False, enable_gqa=shared) == _OVERRIDEABLE


def _is_zero(value):
    return value is None or (
        isinstance(value, Node) and value.target is _aten.full.default and value.args[1] in (0, 0.0)
    )


def _bias(query, key, score_mod, mask_mod, buffers, mask_buffers):
    """What is added to the scores (float32), -inf where the mask leaves them out, and the mask (bool), or None for what
    there is not. Of size 1 where nothing depends on a dimension."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    score, *score_indices = placeholders(score_mod)[:5]
    mask_indices = placeholders(mask_mod)[:4]
    adds = result_of(score_mod) is not score
    masks = number_of(mask_mod, result_of(mask_mod)) not in (True, 1)
    sizes = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])

    def positions(used):
        return [torch.arange(0, size if node.users else 1, device=query.device) for size, node in zip(sizes, used)]

    mask = bias = None
    with TransformGetItemToIndex():
        if masks:
            function = _vmap_for_bhqkv(mask_mod, prefix=(), suffix=(None,) * len(mask_buffers))
            mask = function(*positions(mask_indices), *mask_buffers)
        if adds:
            indices = positions(score_indices)
            zeros = torch.zeros([x.shape[0] for x in indices], dtype=torch.float32, device=query.device)
            function = _vmap_for_bhqkv(score_mod, prefix=(0,), suffix=(None,) * len(buffers))
            bias = function(zeros, *indices, *buffers).to(torch.float32)
    if mask is not None and bias is not None:
        bias = torch.where(mask, bias, torch.full([], -math.inf, dtype=torch.float32, device=query.device))
    return bias, mask


def _gradients(grad_out, query, key, value, bias, out, logsumexp, scale):
    none = (None, None, query.shape[2], key.shape[2], 0.0, False, None, None)
    wanted = [True, True, True, False]
    return _attention_backward(grad_out, query, key, value, bias, wanted, out, logsumexp, *none, scale=scale)[:3]


def _with_sign(logsumexp, sign):
    """With sign * inf for rows without a key: FlexAttention has -inf there, the attention kernels +inf."""
    return torch.where(logsumexp.isinf(), torch.full_like(logsumexp, sign * math.inf), logsumexp)


def _forward(slope, function):
    def attention(query, key, value, score_mod, block_mask, scale, options, buffers=(), mask_buffers=()):
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
        scale *= slope
        if function is not None:
            added = function.arguments(key, block_mask, buffers, mask_buffers)
            out, logsumexp = _computed(query, key, value, *added, scale)
        else:
            bias, mask = _bias(query, key, score_mod, block_mask[-1], buffers, mask_buffers)
            if bias is None or mask is None:
                bias = mask if bias is None else bias
                out, logsumexp = _attention(query, key, value, bias, 0.0, False, False, scale=scale)[:2]
            else:
                out, logsumexp = _with_mask(query, key, value, bias, mask, scale)
        logsumexp = _with_sign(logsumexp, -1) / math.log(2)
        return _permute_strides(out, query.stride()), logsumexp, logsumexp

    return attention


def _backward(slope, function):
    def attention(
        query,
        key,
        value,
        out,
        logsumexp,
        grad_out,
        _,
        fw_graph,
        joint,
        block_mask,
        scale,
        options,
        buffers,
        mask_buffers,
    ):
        logsumexp = _with_sign(logsumexp, 1) * math.log(2)
        scale *= slope
        inputs = (grad_out, query, key, value)
        if function is not None:
            added = function.arguments(key, block_mask, buffers, mask_buffers)
            gradients = _computed_backward(*inputs, *added, out, logsumexp, scale)
        else:
            bias, mask = _bias(query, key, fw_graph, block_mask[-1], buffers, mask_buffers)
            if bias is None or mask is None:
                gradients = _gradients(*inputs, mask if bias is None else bias, out, logsumexp, scale)
            else:
                gradients = _with_mask_backward(*inputs, bias, mask, out, logsumexp, scale)
        grads = [_permute_strides(grad, x.stride()) for grad, x in zip(gradients, (query, key, value))]
        return *grads, tuple(None if isinstance(buffer, torch.Tensor) else buffer for buffer in buffers)

    return attention


def _computes(query):
    """Whether kernels that compute a bias serve better than those that read one. For few queries, and gradients of
    float32 on GPUs, there are none."""
    on_cpu = torch.ocl.get_device_properties(query.device).type == "cpu"
    return (on_cpu or query.dtype != torch.float32) and _hint(query.shape[2]) > 16


def _bends(query, value):
    """Whether matrix units, or a CPU, find gradients through a score_mod that bends scores."""
    widest = 256 if torch.ocl.get_device_properties(query.device).compute_capability == 90 else 128
    return max(query.shape[3], value.shape[3]) <= widest


def fused(node, examples, mods, gradients):
    """What computes a FlexAttention node by the attention kernels, as a function of its arguments; None where they do
    not. `examples`: of query, key and value; `gradients`: those wanted of what score_mod captures."""
    query, key, value = examples
    score_mod = mods.score_mod
    score = placeholders(score_mod)[0]
    slope = _slope(score_mod, result_of(score_mod), score, {})
    if any(isinstance(gradient, torch.Tensor) for gradient in gradients):
        return None
    bends = slope is None
    if node.target is flex_attention:
        maxima = [user for user in node.users if user.target is operator.getitem and user.args[1] == _MAX_SCORES]
        if any(user.users for user in maxima):
            return None
    elif not _is_zero(node.args[_GRAD_LOGSUMEXP]) or key.shape[0] != query.shape[0]:
        return None
    if not _takes(query, key, value):
        return None
    function = function_of(mods, query.device, bends) if _computes(query) else None
    if bends and (function is None or not _bends(query, value)):
        return None
    return (_forward if node.target is flex_attention else _backward)(1 if bends else slope, function)
