# SPDX-License-Identifier: MIT
"""What OpenCL cannot express raises RuntimeError and names the alternative."""

import functools

import torch

_REASONS = {
    "MemPool": "there is one pool of memory a device: torch.ocl.memory has what can be set",
    "use_mem_pool": "there is one pool of memory a device: torch.ocl.memory has what can be set",
    "CUDAPluggableAllocator": "memory comes from the package's own allocator",
    "change_current_allocator": "memory comes from the package's own allocator",
    "caching_allocator_alloc": "memory comes as tensors: torch.empty(bytes, dtype=torch.uint8, device='cuda')",
    "caching_allocator_delete": "memory comes as tensors, which free it",
    "ExternalStream": "a queue made elsewhere belongs to another context",
    "cudart": "there is no CUDA runtime: torch.ocl has devices, memory and streams",
    "current_blas_handle": "there is no cuBLAS: torch.matmul runs kernels of the package",
    "current_solver_handle": "there is no cuSOLVER: torch.linalg runs kernels of the package, or on the CPU",
    "jiterator": "kernels of one's own are OpenCL C: torch.ocl.compile_kernel",
    "gds": "files are read by the host: torch.load",
    "green_contexts": "devices are not divided",
    "GreenContext": "devices are not divided",
}


class _Refused:
    """Stands for an object of torch.cuda: any use raises, but what Dynamo asks of it where it is not used."""

    def __init__(self, name, reason):
        self.__dict__.update(name=name, reason=reason)

    def _refuse(self, *arguments, **options):
        raise RuntimeError(f"torch.cuda.{self.name} is not available on OpenCL devices: {self.reason}")

    __call__ = __enter__ = _refuse

    @property
    def __wrapped__(self):  # of use_mem_pool, since PyTorch 2.14
        return self._refuse

    def __instancecheck__(self, value):
        return False

    def __exit__(self, *arguments):
        pass

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._refuse()


def _extension(name):
    def refuse(*arguments, **options):
        raise RuntimeError(
            f"torch.utils.cpp_extension.{name}: CUDA sources cannot be built for OpenCL devices. Kernels of "
            "one's own are OpenCL C: torch.ocl.compile_kernel; C++ without kernels: CppExtension"
        )

    return refuse


def _without_cuda_sources(original, name):
    @functools.wraps(original)
    def load(*arguments, **options):
        sources = options.get("sources", arguments[1] if name == "load" and len(arguments) > 1 else ())
        sources = [sources] if isinstance(sources, str) else sources
        if (
            options.get("with_cuda")
            or options.get("cuda_sources")
            or any(str(each).endswith(".cu") for each in sources)
        ):
            _extension(name)()
        return original(*arguments, **options)

    return load


def _refuse_extensions() -> None:
    try:
        from torch.utils import cpp_extension
    except ImportError:  # needs setuptools; without them no extension can be built
        return
    cpp_extension.CUDAExtension = _extension("CUDAExtension")
    for name in ("load", "load_inline"):
        setattr(cpp_extension, name, _without_cuda_sources(getattr(cpp_extension, name), name))


def install() -> None:
    for name, reason in _REASONS.items():
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, _Refused(name, reason))
    _refuse_extensions()
