# SPDX-License-Identifier: MIT
"""torch.compile on OpenCL devices: Inductor has no code generator for them, so their graphs run eagerly."""
import warnings

import torch
from torch.utils._pytree import tree_leaves

_warned = False


def _values(graph, inputs):
    """The inputs of a graph that Dynamo captured, its parameters and buffers, and what its nodes compute."""
    yield from inputs
    if isinstance(graph, torch.nn.Module):
        yield from graph.parameters()
        yield from graph.buffers()
    for node in getattr(getattr(graph, "graph", None), "nodes", ()):
        yield node.meta.get("example_value")


def uses_ocl(graph, inputs) -> bool:
    """Whether a tensor of a graph is on an ocl device."""
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "ocl"
               for value in _values(graph, inputs) for leaf in tree_leaves(value))


def _warn() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn("torch.compile: Inductor cannot generate code for ocl devices yet; graphs with tensors on them run "
                      "eagerly", UserWarning, stacklevel=3)


def _call(original):
    def __call__(self, model_, inputs_, **options):
        """As PyTorch's (2.11 to 2.14); a graph with tensors on ocl devices is returned as it is, to run eagerly."""
        if uses_ocl(model_, inputs_):
            _warn()
            return model_
        return original(self, model_, inputs_, **options)

    return __call__


def install() -> None:
    """Patches what torch.compile(backend="inductor") calls with each graph; Inductor itself is not imported."""
    wrapper = torch._TorchCompileInductorWrapper
    wrapper.__call__ = _call(wrapper.__call__)
