# SPDX-License-Identifier: MIT
"""dlprim: runs neural networks on any OpenCL device, without PyTorch.

    session = dlprim.InferenceSession("resnet18.onnx")
    scores, = session.run(None, {"input": image})
"""
from ._core import (CalculationsMode, Context, Error, IndexError, NotSupportedError, ONNXModel, OutOfMemoryError,
                    ValidationError, devices)
from .session import InferenceSession, Net

__all__ = ["CalculationsMode", "Context", "Error", "IndexError", "InferenceSession", "Net", "NotSupportedError",
           "ONNXModel", "OutOfMemoryError", "ValidationError", "devices"]
