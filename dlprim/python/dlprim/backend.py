# SPDX-License-Identifier: MIT
"""dlprim as a backend of the `onnx` package: onnx.backend.base.Backend."""

import onnx.backend.base

from . import _core
from .session import InferenceSession


class Representation(onnx.backend.base.BackendRep):
    """A model ready to run."""

    def __init__(self, session):
        self.session = session

    def run(self, inputs, **kwargs):
        """Takes arrays in the order of the model's inputs, or a dictionary; returns a tuple of arrays."""
        if not isinstance(inputs, dict):
            inputs = dict(zip((info.name for info in self.session.get_inputs()), inputs))
        return tuple(self.session.run(None, inputs))


class Backend(onnx.backend.base.Backend):
    """`prepare(model, device)`: device "CPU" is the first OpenCL device."""

    @classmethod
    def supports_device(cls, device):
        return device == "CPU" and bool(_core.devices())

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        super().prepare(model, device, **kwargs)
        return Representation(InferenceSession(model.SerializeToString()))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)


prepare = Backend.prepare
run_model = Backend.run_model
supports_device = Backend.supports_device
