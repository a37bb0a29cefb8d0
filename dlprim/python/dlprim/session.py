# SPDX-License-Identifier: MIT
"""Networks fed with and giving NumPy arrays."""
import collections
import os

import numpy as np

from . import _core

ValueInfo = collections.namedtuple("ValueInfo", "name dtype shape sequence optional")


def _numpy_type(name):
    if name == "bfloat16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _to_core(array):
    """dtype, shape and bytes of an array, or of anything that has DLPack's interface."""
    if not isinstance(array, (np.ndarray, np.generic)) and hasattr(array, "__dlpack__"):
        array = np.from_dlpack(array)
    array = np.asarray(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    return str(array.dtype), list(array.shape), flat.view(np.uint8)


def _from_core(value):
    if value is None:
        return None
    if isinstance(value, list):
        return [_from_core(element) for element in value]
    dtype, shape, data = value
    return data.view(_numpy_type(dtype)).reshape(shape)


class Net:
    """A network on a device: `net.forward(inputs)` takes arrays in the order of the network's inputs."""

    def __init__(self, context=None):
        self.context = context or _core.Context()
        self._net = _core.Net(self.context)

    def load_model(self, model):
        """Takes an ONNXModel. Raises NotSupportedError that lists every node without an operator."""
        self._net.load_model(model)

    @property
    def inputs(self):
        return [ValueInfo(*self._net.input_info(i)) for i in range(self._net.inputs)]

    @property
    def outputs(self):
        return [ValueInfo(*self._net.output_info(i)) for i in range(self._net.outputs)]

    def forward(self, inputs):
        """Runs the network; returns its outputs as arrays (lists of them for sequences, None for what is absent)."""
        for i, value in enumerate(inputs):
            if value is None:
                self._net.set_input_empty(i)
            elif isinstance(value, (list, tuple)):
                self._net.set_input_sequence(i, [_to_core(element) for element in value])
            else:
                self._net.set_input(i, _to_core(value))
        self._net.forward()
        return [_from_core(self._net.output(i)) for i in range(self._net.outputs)]


class InferenceSession:
    """Runs an ONNX model given as a path or as bytes, in the manner of ONNX Runtime.

    device: "platform:device", an index, "cpu", "gpu" or a part of the device's name; default: the first device."""

    def __init__(self, path_or_bytes, device=None):
        model = _core.ONNXModel()
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            model.load_bytes(bytes(path_or_bytes))
        else:
            model.load(os.fspath(path_or_bytes))
        self.net = Net(_core.Context(device) if device else None)
        self.net.load_model(model)

    def get_inputs(self):
        return self.net.inputs

    def get_outputs(self):
        return self.net.outputs

    def run(self, output_names, feeds):
        """The outputs of these names (None: all) for a dictionary of inputs."""
        inputs, outputs = self.net.inputs, [info.name for info in self.net.outputs]
        unknown = set(feeds) - {info.name for info in inputs}
        missing = [info.name for info in inputs if info.name not in feeds and not info.optional]
        if unknown or missing:
            raise ValueError(f"[run] expected the inputs {[info.name for info in inputs]}, got {list(feeds)}")
        results = self.net.forward([feeds.get(info.name) for info in inputs])
        wanted = outputs if output_names is None else output_names
        return [results[outputs.index(name)] for name in wanted]
