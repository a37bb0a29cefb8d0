# SPDX-License-Identifier: MIT
"""What PyTorch does by the device's name where it does not ask the device: DLPack, sending between
processes."""

import multiprocessing.reduction

import torch

_EXTENSION_DEVICE = 12  # kDLExtDev of dlpack.h


def _dlpack_device(original):
    def __dlpack_device__(self):
        if self.device.type == "ocl":
            return _EXTENSION_DEVICE, self.device.index
        return original(self)

    __dlpack_device__.__doc__ = original.__doc__
    return __dlpack_device__


def _from_host(kind, host, device, requires_grad):
    tensor = host.to(device)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce_tensor(original):
    """OpenCL memory belongs to one process: tensors travel through the host."""

    def reduce_tensor(tensor):
        if tensor.device.type != "ocl":
            return original(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "cannot send a non-leaf tensor that requires grad to another process: its "
                "graph stays here; detach() it first"
            )
        return _from_host, (type(tensor), tensor.detach().cpu(), str(tensor.device), tensor.requires_grad)

    return reduce_tensor


def install():
    """Patches PyTorch; to be called once, after the backend is registered."""
    import torch.multiprocessing.reductions as reductions

    torch.Tensor.__dlpack_device__ = _dlpack_device(torch.Tensor.__dlpack_device__)
    reduce_tensor = _reduce_tensor(reductions.reduce_tensor)
    for kind in (torch.Tensor, torch.nn.Parameter, *torch._tensor_classes):
        multiprocessing.reduction.ForkingPickler.register(kind, reduce_tensor)
