# SPDX-License-Identifier: MIT
"""torch.cuda: torch.ocl under its names, with CUDA's signatures where they differ."""

import contextlib
import functools
import inspect

import torch

from pytorch_ocl.as_cuda.devices import asked_by_program, stand_in, translated
from pytorch_ocl.ocl.graphs import OCLGraph, graph
from pytorch_ocl.ocl.tensor_types import tensor_types

# Names of torch.cuda that torch.ocl has under another one.
_RENAMED = {
    "memory_cached": "memory_reserved",
    "max_memory_cached": "max_memory_reserved",
    "reset_max_memory_allocated": "reset_peak_memory_stats",
    "reset_max_memory_cached": "reset_peak_memory_stats",
}
_PRIVATE = ("_is_in_bad_fork", "_lazy_init", "_get_generator")
_SUBMODULES = ("graphs", "memory", "random", "streams")


class _CUDAGraph(OCLGraph):
    def register_generator_state(self, generator):
        """Needs no call: every generator may be drawn from."""


class _Graph(graph):
    """With CUDA's name of the graph."""

    default_capture_stream = None

    # The last two, since PyTorch 2.13, change no results.
    def __init__(
        self,
        cuda_graph,
        pool=None,
        stream=None,
        capture_error_mode="global",
        check_input_liveness=False,
        enable_annotations=False,
    ):
        super().__init__(cuda_graph, pool, stream, capture_error_mode)


def _for_program(ours, original):
    """A question that PyTorch's own code asks, too, which must not take the device for CUDA's."""

    @functools.wraps(original)
    def ask(*arguments, **options):
        return (ours if asked_by_program() else original)(*arguments, **options)

    return ask


def _capability(device=None):
    """(major, minor) of an NVIDIA device; (8, 0) for others: programs ask for it to learn whether there is bfloat16."""
    number = torch.ocl.get_device_properties(device).compute_capability
    return divmod(number, 10) if number else (8, 0)


def _properties(device=None):
    """torch.ocl's properties, and what CUDA calls them."""
    properties = torch.ocl.get_device_properties(device)
    properties.major, properties.minor = _capability(device)
    properties.multi_processor_count = properties.max_compute_units
    properties.shared_memory_per_block = properties.local_mem_size
    properties.max_threads_per_block = properties.max_work_group_size
    properties.is_integrated = properties.unified_memory
    return properties


def _nothing(*arguments, **options):
    """CUDA's has an effect on other processes or on tools that OpenCL does not know."""


@contextlib.contextmanager
def _range(message, *arguments, **options):
    with torch.profiler.record_function(str(message)):
        yield


def _replace_all(ours, theirs) -> None:
    for name in dir(theirs):
        mine = getattr(ours, name, None)
        if name.startswith("_") or mine is None or inspect.ismodule(mine):
            continue
        if inspect.isclass(mine) and mine.__module__.startswith("pytorch_ocl"):
            setattr(theirs, name, stand_in(mine))
        elif inspect.isfunction(mine) and mine.__module__.startswith("pytorch_ocl"):
            setattr(theirs, name, translated(mine))


def install() -> None:
    cuda, ocl = torch.cuda, torch.ocl
    asked = {name: _for_program(getattr(ocl, name), getattr(cuda, name)) for name in ("is_available", "device_count")}
    initialized = _for_program(ocl.is_initialized, cuda.is_initialized)
    for module in (cuda, *(getattr(cuda, name) for name in _SUBMODULES)):
        _replace_all(ocl, module)
    for name, function in asked.items():
        setattr(cuda, name, function)
    cuda.is_initialized = initialized
    for name, mine in _RENAMED.items():
        setattr(cuda, name, translated(getattr(ocl, mine)))
    for module in (cuda, cuda.graphs):
        module.CUDAGraph, module.graph = _CUDAGraph, _Graph
    for name in _PRIVATE:
        setattr(cuda, name, translated(getattr(ocl, name)))
    cuda.get_device_capability, cuda.get_device_properties = translated(_capability), translated(_properties)
    cuda.ipc_collect = _nothing
    cuda.default_generators = ocl.default_generators
    cuda.nvtx.range_push = cuda.nvtx.mark = cuda.nvtx.range_start = cuda.nvtx.range_end = cuda.nvtx.range_pop = _nothing
    cuda.nvtx.range = _range
    for name, kind in tensor_types("torch.cuda").items():
        setattr(cuda, name, kind)
