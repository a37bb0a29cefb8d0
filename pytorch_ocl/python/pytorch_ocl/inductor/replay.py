# SPDX-License-Identifier: MIT
"""torch.compile(mode="reduce-overhead"): what a program launches is recorded and replayed by one call, without the
program. Inputs and results lie in other memory each time, as without it."""

import torch
from torch._logging import getArtifactLogger

_WARM_UP = 2  # runs before the one that is recorded: operators tune and fill their caches in the first
_MOST = 64  # recordings of one program, for different sizes
_log = getArtifactLogger(__name__, "perf_hints")


class _Recording:
    """What a program launched for one combination of sizes."""

    def __init__(self, program, values, tensors, constants):
        self.number = torch.ops.pytorch_ocl.graph_record(tensors[0].device.index)
        try:
            self.results = program(list(values))
            found = [r for r in self.results if isinstance(r, torch.Tensor)]
            self.refusal = "a result is on another device" if any(r.device.type != "ocl" for r in found) else ""
            reason = torch.ops.pytorch_ocl.graph_finish(self.number, tensors, constants, [] if self.refusal else found)
            self.refusal = self.refusal or reason
        except BaseException:
            torch.ops.pytorch_ocl.graph_drop(self.number)
            raise
        if self.refusal:
            torch.ops.pytorch_ocl.graph_drop(self.number)
        self.others = (
            None if len(found) == len(self.results) else [isinstance(r, torch.Tensor) or (r,) for r in self.results]
        )

    def take_results(self):
        """What the program gave when it was recorded, once."""
        results, self.results = self.results, None
        return results

    def replay(self, tensors):
        """The results, or None where the recording does not fit these inputs."""
        fits, results = torch.ops.pytorch_ocl.graph_replay.default(self.number, tensors)
        if not fits:
            return None
        if self.others is None:
            return results
        rest = iter(results)
        return [next(rest) if other is True else other[0] for other in self.others]

    def __del__(self):
        if not self.refusal and torch is not None:  # None: Python ends
            torch.ops.pytorch_ocl.graph_drop(self.number)


class Replayed:
    """A program that is recorded at its third run with the same sizes, and replayed from then on. Where that cannot be
    done it runs as it is; `torch._logging.set_logs(perf_hints=True)` says why."""

    def __init__(self, program, constants):
        self.program, self.constants = program, constants
        self.runs, self.recordings = {}, {}

    def __call__(self, inputs):
        values = list(inputs)
        inputs.clear()
        key = tuple(value for value in values if not isinstance(value, torch.Tensor))
        tensors = [value for value in values if isinstance(value, torch.Tensor)] if key else values
        recording = self.recordings.get(key)
        if recording is not None:
            results = None if recording.refusal else recording.replay(tensors)
            return self.program(values) if results is None else results
        runs = self.runs[key] = self.runs.get(key, 0) + 1
        if runs <= _WARM_UP or len(self.recordings) >= _MOST or not self._suits(tensors):
            return self.program(values)
        recording = self.recordings[key] = _Recording(self.program, values, tensors, self.constants)
        if recording.refusal:
            _log.warning("not replayed for %s: %s", key, recording.refusal)
        return recording.take_results()

    @staticmethod
    def _suits(tensors):
        if torch.ops.pytorch_ocl.is_capturing(-1):  # a graph notes what runs
            return False
        devices = {tensor.device for tensor in tensors}
        return len(devices) == 1 and devices.pop().type == "ocl"


def wrap(compiled):
    """Has a compiled graph replay what it launches."""
    constants = [
        c for c in (compiled.constants or {}).values() if isinstance(c, torch.Tensor) and c.device.type == "ocl"
    ]
    compiled.current_callable = Replayed(compiled.current_callable, constants)
