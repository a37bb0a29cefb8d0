# SPDX-License-Identifier: MIT
"""Programs that say "cuda" run on the device "ocl": `import pytorch_ocl.as_cuda` before the program's own imports of
PyTorch's names, or `python -m pytorch_ocl run program.py`.

The program sees a CUDA device: torch.cuda, "cuda" as the name of a device wherever one is given, torch.device("cuda"),
.cuda(), .is_cuda, `device.type == "cuda"`. PyTorch's own code goes on to see "ocl". What OpenCL cannot do raises
RuntimeError with the alternative. docs/cuda_programs.md lists what is replaced (read in PyTorch 2.11 to 2.14). It holds
for the process; nothing happens without the import.
"""

import torch

import pytorch_ocl  # noqa: F401  (adds the device)
from pytorch_ocl.as_cuda import amp, devices, factories, groups, loading, module, refused, settings, tensors

_PARTS = (devices, factories, tensors, amp, loading, settings, module, groups, refused)  # in this order


def _install() -> None:
    if torch.cuda.is_available():
        raise RuntimeError(
            "pytorch_ocl.as_cuda: this process has a CUDA device, which the program uses by itself. A PyTorch built "
            "without CUDA runs it on OpenCL (CUDA_VISIBLE_DEVICES= hides NVIDIA's devices from OpenCL, too)"
        )
    if not torch.ocl.is_available():
        raise RuntimeError(f"pytorch_ocl.as_cuda: no OpenCL device: {pytorch_ocl.unavailable_reason()}")
    for part in _PARTS:
        part.install()


_install()
