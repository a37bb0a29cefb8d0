# SPDX-License-Identifier: MIT
"""PyTorch on OpenCL devices: importing this package adds the device "ocl". Where PyTorch has no other
accelerator, `import torch` does so by itself (pytorch_ocl_autoload)."""

import os
import warnings

import pytorch_ocl_autoload
import torch

from pytorch_ocl import _runtime

_problem = None


# Names of pytorch_dlprim, whose module pytorch_ocl was torch.ocl as well.
_MOVED = ("device", "empty_cache", "enable_profiling", "manual_seed_all", "profile", "synchronize")


def __getattr__(name):
    if name in _MOVED:
        return getattr(torch.ocl, name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'pytorch_ocl' has no attribute '{name}'")


def _version() -> str:
    """Of the installed package, made from git's tags; "unknown" where it runs from its source tree."""
    from importlib import metadata

    try:
        return metadata.version("pytorch_ocl")
    except metadata.PackageNotFoundError:
        return "unknown"


def unavailable_reason() -> str:
    """Why no OpenCL device can be used; an empty string when one can."""
    if _problem is not None:
        return _problem
    return "" if torch.ops.pytorch_ocl.device_count() else torch.ops.pytorch_ocl.missing_reason()


def _warn_beside(other):
    """Tells what a process loses that has another accelerator and asked for this one (PyTorch 2.11 to 2.14)."""
    warnings.warn(
        f"pytorch_ocl beside {other}: PyTorch follows one accelerator's streams in a process, from now on ocl's, "
        f"so backward passes on {other} tensors raise an INTERNAL ASSERT (opt_ready_stream). Train on {other} in "
        "a process that does not import pytorch_ocl",
        RuntimeWarning,
        stacklevel=3,
    )


def _register():
    """Adds the device; returns the type of another accelerator that this process has, or an empty string."""
    from pytorch_ocl import (
        adapters,
        backends,
        distributed,
        inductor,
        ocl,
        optimizers,
        parallel,
        predictions,
        semi_structured,
    )
    from pytorch_ocl.ocl import interchange

    _runtime.prepare()
    other = pytorch_ocl_autoload.other_accelerator()
    torch.ops.load_library(_runtime.library_path(torch.__version__))
    torch.utils.rename_privateuse1_backend("ocl")
    torch._register_device_module("ocl", ocl)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    backends.install()
    optimizers.install()
    interchange.install()
    distributed.install()
    inductor.install()
    predictions.install()
    parallel.install()
    semi_structured.install()
    adapters.install()
    return other


if not hasattr(torch, "ocl"):
    _other = ""
    try:
        _other = _register()
    except Exception as error:  # noqa: BLE001  a backend that cannot be loaded must never break `import torch`
        _problem = f"{type(error).__name__}: {error}"
        warnings.warn(f"pytorch_ocl could not be loaded: {_problem}", RuntimeWarning, stacklevel=2)
        from pytorch_ocl import ocl

        if not hasattr(torch, "ocl"):
            torch.ocl = ocl
    if _other:
        _warn_beside(_other)
    if (
        os.environ.get("PYTORCH_OCL_AS_CUDA") == "1"
    ):  # set by `python -m pytorch_ocl run` for the processes that it starts
        import pytorch_ocl.as_cuda  # noqa: F401
