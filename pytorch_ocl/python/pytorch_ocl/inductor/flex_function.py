# SPDX-License-Identifier: MIT
"""score_mod and mask_mod of FlexAttention as what attention kernels compute: text, what it reads, tiles of scores."""

import typing

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from pytorch_ocl.inductor import flex_text
from pytorch_ocl.inductor.flex_graphs import number_of, placeholders, result_of

_MASKS, _BENDS = 1, 2  # kinds of functions (csrc/ops/attention_flex.cpp)


class Mods(typing.NamedTuple):
    """score_mod and mask_mod as graphs, that of score_mod with its gradients, of a backward pass, examples of what they
    capture, and operators' decompositions."""

    score_mod: torch.fx.GraphModule
    joint: torch.fx.GraphModule | None
    mask_mod: torch.fx.GraphModule
    buffers: list
    mask_buffers: list
    decompositions: dict


class Function:
    """What score_mod and mask_mod come to, as text that the kernels compute it by."""

    def __init__(self, graph, text, slope, read, kind):
        self._graph, self._texts, self._read, self._kind = graph, (text, slope), read, kind

    def _tensors(self, captured):
        """What the text reads, computed from what the functions capture."""
        values = dict(zip(placeholders(self._graph)[5:], captured))
        needed = set(self._read)
        for node in reversed(self._graph.graph.nodes):
            if node in needed:
                needed.update(node.all_input_nodes)
        for node in self._graph.graph.nodes:
            if node in needed and node not in values:
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
        return [values[node] for node in self._read]

    def arguments(self, key, block_mask, buffers, mask_buffers):
        """Of the operators, between the value and the scale of the forward one."""
        captured = [x for x in (*buffers, *mask_buffers) if isinstance(x, torch.Tensor)]
        return self._tensors(captured), *self._texts, self._kind, *_tiles(key, block_mask)


def _listed(counts, indices, columns):
    """Whether each of `columns` is among the first `counts` of `indices`, as a byte."""
    place = torch.arange(indices.shape[-1], device=indices.device)
    listed = (place < counts.unsqueeze(-1)) & (indices < columns)
    none = torch.zeros([*indices.shape[:-1], columns + 1], dtype=torch.uint8, device=indices.device)
    return none.scatter(-1, torch.where(listed, indices, columns).long(), 1)[..., :columns]


def _tiles(key, block_mask):
    """A BlockMask as the kernels take it: 0, 1 or 2 for each block, as none, some or all of its keys take part, and the
    queries and keys of a block."""
    counts, indices, full_counts, full_indices = block_mask[2:6]
    tile_queries, tile_keys, mask_mod = block_mask[-3:]
    if number_of(mask_mod, result_of(mask_mod)) in (True, 1):
        return None, 0, 0
    columns = (key.shape[2] + tile_keys - 1) // tile_keys
    tiles = _listed(counts, indices, columns)
    if full_counts is not None:
        tiles = tiles.maximum(_listed(full_counts, full_indices, columns) * 2)
    return tiles, tile_queries, tile_keys


def function_of(mods, device, bends):
    """The Function of these, or None. In the mode of the examples of what they capture. With `bends` it takes scores
    and returns others, else it returns what is added to them."""
    score_mod, joint, mask_mod, buffers, mask_buffers, decompositions = mods
    held = [*buffers, *mask_buffers]
    if not all(isinstance(x, (torch.Tensor, bool, int, float)) for x in held):
        return None
    tensors = [place for place, x in enumerate(held) if isinstance(x, torch.Tensor)]
    adds = result_of(score_mod) is not placeholders(score_mod)[0]
    masks = number_of(mask_mod, result_of(mask_mod)) not in (True, 1)

    def evaluate(score, batch, head, query, key, *captured):
        filled = list(held)
        for place, tensor in zip(tensors, captured):
            filled[place] = tensor
        index = (batch, head, query, key)
        own, of_mask = filled[: len(buffers)], filled[len(buffers) :]
        one = torch.ones((), dtype=torch.float32, device=device)
        added = score_mod(score if bends else torch.zeros_like(one), *index, *own) if adds else None
        slope = joint(score, *index, one, *own)[0] if bends and joint is not None else None
        return added, mask_mod(*index, *of_mask) if masks else None, slope

    if not (adds or masks):
        return None
    numbers = [torch.zeros((), dtype=torch.int32 if i else torch.float32, device=device) for i in range(5)]
    examples = [*numbers, *(held[place].detach() for place in tensors)]
    graph = make_fx(evaluate, decomposition_table=decompositions)(*examples)
    graph.graph.eliminate_dead_code()
    written = flex_text.write(graph)
    if written is None:
        return None
    return Function(graph, *written, _BENDS if bends else 0 if adds else _MASKS)
