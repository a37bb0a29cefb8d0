# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint, which copies tensors to the CPU before it writes them, but of one kind of device alone:
CUDA where that is available (read in PyTorch 2.11 to 2.14). `AssertionError: Tensor must be on CPU` is what a program
then gets that saves tensors of "ocl"."""


def filesystem(module) -> None:
    loader = module._OverlappingCpuLoader
    original = loader.__init__

    def __init__(self, resolve_fun, *arguments, **options):
        def resolve(item):
            tensor = resolve_fun(item)
            copied = tensor.device.type != "ocl" or self.device_type == "ocl"
            return tensor if copied else tensor.cpu()

        original(self, resolve, *arguments, **options)

    loader.__init__ = __init__
