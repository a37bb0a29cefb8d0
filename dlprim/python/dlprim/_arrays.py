# SPDX-License-Identifier: MIT
"""Arrays as their dtype's name, shape and bytes: what crosses to C++ and back."""

import numpy as np


def _numpy_type(name):
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def to_core(array):
    """dtype, shape and bytes of an array, of anything that has DLPack's interface, or of numbers."""
    if not isinstance(array, (np.ndarray, np.generic)) and hasattr(array, "__dlpack__"):
        array = np.from_dlpack(array)
    array = np.asarray(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    return str(array.dtype), list(array.shape), flat.view(np.uint8)


def from_core(dtype, shape, data):
    return data.view(_numpy_type(dtype)).reshape(shape)
