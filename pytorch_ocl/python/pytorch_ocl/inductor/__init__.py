# SPDX-License-Identifier: MIT
"""torch.compile on OpenCL devices: Inductor's graphs as OpenCL C (see docs/compile.md).

Inductor is imported at the first graph with ocl tensors, not before.
"""

import warnings

import torch
from torch.utils._pytree import tree_leaves

# Minors of PyTorch whose Inductor was tested here.
TESTED = ("2.11", "2.12", "2.13", "2.14", "2.15")
_warned = False


def _values(graph, inputs):
    """The inputs of a graph that Dynamo captured, its parameters and buffers, and what its nodes compute."""
    yield from inputs
    if isinstance(graph, torch.nn.Module):
        yield from graph.parameters()
        yield from graph.buffers()
    for node in getattr(getattr(graph, "graph", None), "nodes", ()):
        yield node.meta.get("example_value")  # of Dynamo
        yield node.meta.get("val")  # of torch.export


def uses_ocl(graph, inputs) -> bool:
    """Whether a tensor of a graph is on an ocl device."""
    return any(
        isinstance(leaf, torch.Tensor) and leaf.device.type == "ocl"
        for value in _values(graph, inputs)
        for leaf in tree_leaves(value)
    )


def is_tested() -> bool:
    """Whether this version of PyTorch is one of those."""
    return ".".join(torch.__version__.split(".")[:2]) in TESTED


def _warn(reason) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"torch.compile: graphs with tensors on ocl devices run eagerly with torch {torch.__version__}: {reason}",
            UserWarning,
            stacklevel=3,
        )


def _call(original):
    def __call__(self, model_, inputs_, **options):
        """As PyTorch's (2.11 to 2.14). Graphs with tensors on ocl devices are compiled for them; they run eagerly
        with other versions of PyTorch than those tested."""
        if not uses_ocl(model_, inputs_):
            return original(self, model_, inputs_, **options)
        if not is_tested():
            _warn("its Inductor is not among those tested, " + ", ".join(TESTED))
            return model_
        try:
            from pytorch_ocl.inductor.compile import compile_graph
        except (ImportError, AttributeError) as error:
            _warn(error)
            return model_
        return compile_graph(model_, inputs_, {**self.config, **(options.get("config_patches") or {})})

    return __call__


def install() -> None:
    """Patches what torch.compile(backend="inductor") calls with each graph; Inductor itself is not imported."""
    wrapper = torch._TorchCompileInductorWrapper
    wrapper.__call__ = _call(wrapper.__call__)
