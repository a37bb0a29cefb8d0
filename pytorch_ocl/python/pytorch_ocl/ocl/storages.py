# SPDX-License-Identifier: MIT
"""FloatStorage and its like: what Tensor.storage_type() returns, and isinstance() of a storage is asked about."""

import torch
from torch._utils import classproperty
from torch.storage import _dtype_to_storage_type_map, _LegacyStorage


def _storage_class(name: str, dtype: torch.dtype) -> type:
    """PyTorch finds the device of such a class by the name of its module, the dtype by `_dtype`."""
    known = classproperty(lambda cls: dtype)
    return type(_LegacyStorage)(name, (_LegacyStorage,), {"__module__": "torch.ocl", "dtype": known, "_dtype": known})


_classes = {
    name: _storage_class(name, dtype)
    for dtype, name in _dtype_to_storage_type_map().items()
    if not name.startswith("Q")
}
globals().update(_classes)
__all__ = list(_classes)
