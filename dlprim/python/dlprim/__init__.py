# SPDX-License-Identifier: MIT
"""dlprim: runs and trains neural networks on any OpenCL device, without PyTorch.

session = dlprim.InferenceSession("resnet18.onnx")
scores, = session.run(None, {"input": image})
"""

from . import _runtime

_runtime.prepare()  # OpenCL drivers that pip installed

from ._core import (  # noqa: E402
    SGD,
    Adam,
    AdamW,
    CalculationsMode,
    Context,
    Error,
    ExecutionContext,
    IndexError,
    JSONModel,
    Net,
    NotSupportedError,
    ONNXModel,
    OutOfMemoryError,
    Solver,
    Tensor,
    ValidationError,
    ValueInfo,
    devices,
    read_parameters,
    schedules,
    write_parameters,
)
from .config import NetConfig  # noqa: E402
from .generator import Generator  # noqa: E402
from .session import InferenceSession  # noqa: E402

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CalculationsMode",
    "Context",
    "Error",
    "ExecutionContext",
    "Generator",
    "IndexError",
    "InferenceSession",
    "JSONModel",
    "Net",
    "NetConfig",
    "NotSupportedError",
    "ONNXModel",
    "OutOfMemoryError",
    "Solver",
    "Tensor",
    "ValidationError",
    "ValueInfo",
    "devices",
    "read_parameters",
    "schedules",
    "write_parameters",
]


def __getattr__(name):
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("dlprim")
        except metadata.PackageNotFoundError:
            return "unknown"  # it runs from its source tree
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
