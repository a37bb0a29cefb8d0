# SPDX-License-Identifier: MIT
"""ONNX models run in the manner of ONNX Runtime."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from . import _core


class InferenceSession:
    """Runs an ONNX model given as a path or as bytes, in the manner of ONNX Runtime. Threads may share it.

    device: "platform:device", an index, "cpu", "gpu" or a part of the device's name; default: the first device."""

    def __init__(self, path_or_bytes: str | os.PathLike | bytes, device: str | None = None):
        model = _core.ONNXModel()
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            model.load_bytes(bytes(path_or_bytes))
        else:
            model.load(os.fspath(path_or_bytes))
        self.net = _core.Net(_core.Context(device) if device else _core.Context())
        self.net.load_model(model)
        self._lock = threading.Lock()

    def get_inputs(self) -> list[_core.ValueInfo]:
        return self.net.inputs

    def get_outputs(self) -> list[_core.ValueInfo]:
        return self.net.outputs

    def get_providers(self) -> list[str]:
        return [self.net.context.name]

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, object]) -> list[np.ndarray | list | None]:
        """The outputs of these names (None: all) for a dictionary of inputs: arrays, lists of them for sequences, None
        for what is absent."""
        inputs = self.net.inputs
        unknown = set(feeds) - {info.name for info in inputs}
        missing = [info.name for info in inputs if info.name not in feeds and not info.optional]
        if unknown or missing:
            raise ValueError(f"[run] expected the inputs {[info.name for info in inputs]}, got {list(feeds)}")
        wanted = [info.name for info in self.net.outputs] if output_names is None else output_names
        with self._lock:
            for i, info in enumerate(inputs):
                self.net.set_input(i, feeds.get(info.name))
            self.net.forward()
            return [self.net.output_array(name) for name in wanted]
