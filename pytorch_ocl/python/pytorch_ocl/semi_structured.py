# SPDX-License-Identifier: MIT
"""torch.sparse.to_sparse_semi_structured on the device: PyTorch's classes take tensors of CUDA alone."""

import types

from torch.sparse import SparseSemiStructuredTensor


def install() -> None:
    """Lets the classes take tensors of this device; what else they ask of a tensor, they still do."""
    check = SparseSemiStructuredTensor._validate_device_dim_dtype_shape.__func__

    def validate(cls, original_tensor):
        tensor = original_tensor
        if tensor.device.type == "ocl":
            tensor = types.SimpleNamespace(
                is_cuda=True,
                device=tensor.device,
                dim=tensor.dim,
                is_contiguous=tensor.is_contiguous,
                dtype=tensor.dtype,
                shape=tensor.shape,
            )
        check(cls, tensor)

    SparseSemiStructuredTensor._validate_device_dim_dtype_shape = classmethod(validate)
