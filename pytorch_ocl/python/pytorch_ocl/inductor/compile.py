# SPDX-License-Identifier: MIT
"""Compiles a graph with tensors on ocl devices by Inductor. What cannot be compiled runs eagerly, with a warning."""

import contextlib
import copy
import functools
import warnings

import torch
import torch._functorch.config
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from torch._guards import detect_fake_mode
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from pytorch_ocl.inductor import (
    epilogues,
    flex_attention,
    products,
    registration,
    replay,
    runtime,
    shared_heads,
    softmax_gradients,
)

# What Inductor's kernels for other devices need.
_SETTINGS = {
    "online_softmax": False,
    "triton.cudagraphs": False,
    "triton.coalesce_tiling_analysis": False,
    "triton.tile_reductions": False,
    "triton.mix_order_reduction": False,
    "triton.multi_kernel": 0,
    "triton.cooperative_reductions": False,
    "max_autotune_gemm_backends": "ATEN",
    "max_autotune_conv_backends": "ATEN",
    "combo_kernels": True,  # combined.py
    "combo_kernels_autotune": 0,
    "benchmark_combo_kernel": False,
    "combo_kernel_peak_memory_pct_threshold": None,  # what is combined is small
    "combo_kernel_peak_memory_increase_gb": None,
    "combo_kernel_max_distance": -1,
    "layout_optimization": False,
    "benchmark_fusion": False,
    "cpp_cache_precompile_headers": False,  # there is none of this device's
    "triton.nested_reduction": False,
    "triton.autotune_at_compile_time": False,  # which standalone_compile asks for
}


def settings() -> dict:
    """What this device needs of Inductor's configuration."""
    known = config.get_config_copy()
    return {name: value for name, value in _SETTINGS.items() if name in known}


def _copy_graph(module):
    """The graph as it is now, as Inductor changes the one it gets."""
    graph = torch.fx.Graph()
    values = {}
    output = graph.graph_copy(module.graph, values)
    graph.output(output)
    return torch.fx.GraphModule(copy.copy(module) if not isinstance(module, torch.fx.GraphModule) else module, graph)


def _eager(module):
    def run(arguments):
        values = list(arguments)
        if hasattr(arguments, "clear"):
            arguments.clear()
        return module(*values)

    run._boxed_call = True
    return run


def _is_ours(error):
    """Whether a graph may run eagerly instead: not where Dynamo starts again, nor for mistakes in the program."""
    return not isinstance(error, TorchDynamoException) or isinstance(error, BackendCompilerFailed)


@contextlib.contextmanager
def _numbers_from_tensors(inputs):
    """Lets Inductor make loops of torch.scan and map, which count in a tensor, also where Dynamo may break graphs."""
    mode = detect_fake_mode(inputs)
    if not hasattr(mode, "allow_scalar_outputs"):
        yield
        return
    before, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
    try:
        yield
    finally:
        mode.allow_scalar_outputs = before


def _inner(module, inputs, *, replayed=False, **options):
    """Inductor's compilation of one graph of aten operators, forward or backward."""
    flex_attention.expand(module)
    spare = _copy_graph(module)
    try:
        shared_heads.share(module)
        products.join(module)
        epilogues.fuse(module)
        softmax_gradients.skip_tiny(module)
        with _numbers_from_tensors(inputs):
            compiled = compile_fx_inner(module, inputs, **options)
        runtime.wait_for_builds()
        if replayed and hasattr(compiled, "current_callable"):
            replay.wrap(compiled)
        return compiled
    except Exception as error:
        if not _is_ours(error):
            raise
        warn(error)
        return _eager(spare)


_inner.for_ocl = True


def warn(error) -> None:
    """Says why a graph runs eagerly."""
    reason = str(getattr(error, "inner_exception", error)).strip() or type(error).__name__
    warnings.warn(
        f"torch.compile: a graph with ocl tensors runs eagerly: {type(error).__name__}: {reason.splitlines()[0]}",
        UserWarning,
        stacklevel=2,
    )


def _expanded(inner_compile):
    @functools.wraps(inner_compile)
    def compile_inner(module, inputs, **options):
        flex_attention.expand(module)
        compiled = inner_compile(module, inputs, **options)
        runtime.wait_for_builds()
        return compiled

    compile_inner.for_ocl = True
    return compile_inner


def is_prepared(inner_compile) -> bool:
    """Whether a function that Inductor's compile_fx gets in place of compile_fx_inner is of this module.
    compile_fx calls itself with it in wrappers."""
    while inner_compile is not None:
        if hasattr(inner_compile, "for_ocl"):
            return True
        inner_compile = getattr(inner_compile, "func", None) or getattr(inner_compile, "__wrapped__", None)
    return False


def prepare(inner_compile, patches):
    """A caller's function of this kind, and Inductor's configuration, as ocl devices need them. What cannot be compiled
    raises."""
    registration.register()
    return _expanded(inner_compile), {**(patches or {}), **settings()}


def compile_graph(graph, inputs, patches, **options):
    """As Inductor's compile_fx; `patches` of its configuration go before what this device needs."""
    registration.register()
    replayed = bool(patches.get("triton.cudagraphs", config.triton.cudagraphs))
    # Programs from the cache of autograd's would not pass _inner.
    kept = torch._functorch.config.patch(enable_autograd_cache=False) if replayed else contextlib.nullcontext()
    with kept:
        compiled = compile_fx(
            graph,
            inputs,
            inner_compile=functools.partial(_inner, replayed=True) if replayed else _inner,
            config_patches={**patches, **settings()},
            **options,
        )
    try:
        runtime.wait_for_builds()  # of programs that came from Inductor's cache
    except RuntimeError as error:
        warn(error)
        return graph
    return compiled
