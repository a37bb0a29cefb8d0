# SPDX-License-Identifier: MIT
"""FloatTensor and its like: what Tensor.type() names, isinstance() of a tensor is asked about, and old programs make
tensors by."""

import torch

KINDS = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Bool": torch.bool,
}


class TypeOfTensors(type):
    """A type of tensors on "ocl": of one dtype, whatever their class."""

    def __call__(cls, *arguments, **options):
        return getattr(torch, cls.__name__.rpartition(".")[2])(*arguments, **options).to("ocl")

    def __instancecheck__(cls, value):
        return isinstance(value, torch.Tensor) and value.device.type == "ocl" and value.dtype == cls.dtype


def tensor_types(module: str) -> dict:
    """{name: class} of the types of tensors of a module. Tensor.type() takes a class by its name, with the module's."""
    return {
        f"{kind}Tensor": TypeOfTensors(
            f"{module}.{kind}Tensor",
            (),
            {"dtype": dtype, "__module__": module, "__qualname__": f"{kind}Tensor"},
        )
        for kind, dtype in KINDS.items()
    }


_types = tensor_types("torch.ocl")
globals().update(_types)
__all__ = list(_types)
