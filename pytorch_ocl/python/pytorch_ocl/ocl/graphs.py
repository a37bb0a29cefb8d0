# SPDX-License-Identifier: MIT
"""Graphs: work of a stream that is captured once and replayed by one call, with the memory that it used then."""

import torch
from torch.utils import _pytree as pytree

from pytorch_ocl.ocl.device import current_device, device
from pytorch_ocl.ocl.streams import Stream, StreamContext

__all__ = ["OCLGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_MODES = ("default", "global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether work of the current stream is noted for a graph instead of run."""
    return torch.ops.pytorch_ocl.is_capturing(-1)


def graph_pool_handle() -> tuple[int, int]:
    """A token for `pool`: graphs that are captured with one share the memory that they take."""
    return torch.ops.pytorch_ocl.new_graph_pool()


class OCLGraph:
    """Captures what is put into the current stream between capture_begin() and capture_end(), by any thread, instead of
    running it; replay() runs it, as often as wished. It reads and writes the tensors that it used then, which have to
    be kept; tensors that were made within keep their memory as long as the graph. Random numbers are those that the
    work itself would draw. Streams that wait for the captured one are captured with it. What needs the host, such as
    `item()`, raises RuntimeError while capturing, and so does what other processes take part in."""

    def __init__(self, keep_graph: bool = False):
        self._graph = torch.classes.pytorch_ocl.Graph(keep_graph)

    def capture_begin(self, pool=None, capture_error_mode: str = "global") -> None:
        """Captures the current stream from here on. Of modes there is one, the streams of other threads run on."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected one of {', '.join(_MODES)}, got {capture_error_mode}"
            )
        self._graph.capture_begin(*(pool or (0, 0)))

    def capture_end(self) -> None:
        """Ends the capture. Raises RuntimeError where something within it failed."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Needs no call; for graphs made with keep_graph=True."""
        self._graph.instantiate()

    def replay(self) -> None:
        """Runs the captured work in the order of the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Gives up what was captured; another capture may follow."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """The token of the graph's memory."""
        return self._graph.pool()

    def enable_debug_mode(self) -> None:
        """Allows debug_dump()."""
        self._graph.enable_debug_mode()

    def debug_dump(self, debug_path: str) -> None:
        """Writes the captured commands in Graphviz' language."""
        self._graph.debug_dump(debug_path)


_capture_streams = {}  # {device index: stream}


def _capture_stream():
    """Of the current device; what runs there is captured where nothing else is asked for."""
    index = current_device()
    if index not in _capture_streams:
        _capture_streams[index] = Stream()
    return _capture_streams[index]


class graph:
    """Context manager that captures what runs within into an OCLGraph: on `stream`, or on one of the current device
    that is there for this, so that other threads' work goes on."""

    def __init__(self, ocl_graph: OCLGraph, pool=None, stream=None, capture_error_mode: str = "global"):
        self.ocl_graph, self.pool, self.capture_error_mode = ocl_graph, pool, capture_error_mode
        self._given = stream

    def __enter__(self):
        torch.ocl.synchronize()
        torch.ocl.empty_cache()
        self._stream = StreamContext(_capture_stream() if self._given is None else self._given)
        self._stream.__enter__()
        try:
            self.ocl_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._stream.__exit__(None, None, None)
            raise

    def __exit__(self, *error):
        try:
            self.ocl_graph.capture_end()
        except RuntimeError:
            if error[0] is None:  # else it says why
                raise
        else:
            if error[0] is not None:
                self.ocl_graph.reset()
        finally:
            self._stream.__exit__(*error)


class _Graphed:
    """A callable whose forward and backward passes are captured, for inputs as the sample ones."""

    def __init__(self, function, sample, allow_unused_input):
        self.function, self.allow_unused = function, allow_unused_input
        self.inputs, self.structure = pytree.tree_flatten(sample)
        if not all(isinstance(value, torch.Tensor) for value in self.inputs):
            raise TypeError("make_graphed_callables: expected sample arguments of tensors only")
        module = isinstance(function, torch.nn.Module)
        if module and (function._backward_hooks or function._forward_hooks or function._forward_pre_hooks):
            raise RuntimeError(
                "make_graphed_callables: expected modules without hooks; hooks may be registered on what it returns"
            )
        if module and any(buffer.requires_grad for buffer in function.buffers()):
            raise RuntimeError("make_graphed_callables: expected buffers that need no gradients")
        self.parameters = tuple(function.parameters()) if module else ()
        self.device = device(next((t.device for t in (*self.inputs, *self.parameters) if t.is_ocl), None))
        self.sources = [t for t in (*self.inputs, *self.parameters) if t.requires_grad]
        self.forward_graph, self.backward_graph = OCLGraph(), OCLGraph()

    def _call(self):
        outputs = self.function(*pytree.tree_unflatten(self.inputs, self.structure))
        return pytree.tree_flatten(outputs)

    def _gradients(self, outputs, given):
        return torch.autograd.grad(
            [o for o in outputs if o.requires_grad], self.sources, given, allow_unused=self.allow_unused
        )

    def warm_up(self, times):
        torch.ocl.synchronize()
        with self.device, StreamContext(_capture_stream()):
            for _ in range(times):
                outputs, _ = self._call()
                given = [torch.empty_like(o) for o in outputs if o.requires_grad]
                if given and self.sources:
                    self._gradients(outputs, given)
        torch.ocl.synchronize()

    def capture_forward(self, pool):
        with self.device, graph(self.forward_graph, pool=pool):
            self.outputs, self.outer = self._call()

    def capture_backward(self, pool):
        self.given = [torch.empty_like(o) if o.requires_grad else None for o in self.outputs]
        self.gradients = [None] * (len(self.inputs) + len(self.parameters))
        self.trains = bool(self.sources) and any(given is not None for given in self.given)
        if self.trains:
            with self.device, graph(self.backward_graph, pool=pool):
                found = iter(self._gradients(self.outputs, [g for g in self.given if g is not None]))
            for i, source in enumerate((*self.inputs, *self.parameters)):
                if source.requires_grad:
                    self.gradients[i] = next(found)
        self.outputs = [o.detach() for o in self.outputs]

    def __call__(self, *arguments):
        inputs, structure = pytree.tree_flatten(arguments)
        if structure != self.structure:
            raise TypeError("graphed callable: expected arguments nested as the sample ones")
        return pytree.tree_unflatten(_Replay.apply(self, *inputs, *self.parameters), self.outer)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, graphed, *values):
        ctx.graphed = graphed
        for own, value in zip(graphed.inputs, values):
            if own.shape != value.shape or own.dtype != value.dtype:
                raise RuntimeError(
                    f"graphed callable: expected a tensor of size {tuple(own.shape)} and {own.dtype} as the sample's, "
                    f"got {tuple(value.shape)} and {value.dtype}"
                )
            if own.data_ptr() != value.data_ptr():
                own.copy_(value)
            elif own.stride() != value.stride():
                own.copy_(value.clone())
        graphed.forward_graph.replay()
        outputs = tuple(o.detach() for o in graphed.outputs)
        ctx.mark_non_differentiable(*(o for o, g in zip(outputs, graphed.given) if g is None))
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        graphed = ctx.graphed
        for own, gradient in zip(graphed.given, gradients):
            if own is not None and own.data_ptr() != gradient.data_ptr():
                own.copy_(gradient)
        graphed.backward_graph.replay()
        return None, *(None if g is None else g.detach() for g in graphed.gradients)


def _replace_forward(module, graphed):
    eager, training = module.forward, module.training

    def forward(*arguments):
        return graphed(*arguments) if module.training == training else eager(*arguments)

    module.forward = forward
    return module


def make_graphed_callables(
    callables, sample_args, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool=None
):
    """Functions or modules that replay their forward and backward passes as graphs.

    `callables` is one or a tuple of them, run one after the other in a program's step; `sample_args` is a tuple of
    tensors, or one for each callable: arguments of the same sizes, dtypes and needs for gradients come later. Results
    and gradients are overwritten by the next call, those that `Parameter.grad` holds as well: accumulate gradients in
    tensors of your own. Modules have their `forward` replaced, for the mode, training or
    evaluation, that they are in now. Gradients of gradients are not available."""
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    if torch.is_autocast_enabled("ocl") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables: expected autocast with cache_enabled=False, whose casts are not kept"
        )
    pool = pool or graph_pool_handle()
    every = [_Graphed(f, tuple(s), allow_unused_input) for f, s in zip(functions, samples, strict=True)]
    for one in every:
        one.warm_up(num_warmup_iters)
    for one in every:
        one.capture_forward(pool)
    for one in reversed(every):
        one.capture_backward(pool)
    made = tuple(_replace_forward(f, g) if isinstance(f, torch.nn.Module) else g for f, g in zip(functions, every))
    return made if several else made[0]
