# SPDX-License-Identifier: MIT
"""What Inductor's scheduler asks of a device: what can be fused, and where kernels are defined."""

import torch
from torch._inductor import config
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.utils import get_fused_kernel_name
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from pytorch_ocl.inductor import combined
from pytorch_ocl.inductor.assembly import NAME
from pytorch_ocl.inductor.kernel import OclKernel
from pytorch_ocl.inductor.wrapper import FusedText


class OclScheduling(SIMDScheduling):
    """Fuses as on GPUs; index spaces have one dimension besides that of a reduction."""

    kernel_type = OclKernel

    @classmethod
    def get_backend_features(cls, device):
        return OrderedSet([BackendFeature.INPLACE_BUFFERS])

    @staticmethod
    def int64_atomics(device):
        return torch.ocl.get_device_properties(device).has_int64_atomics

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=1, coalesce_analysis=None):
        return cls.create_tiling([numel], [reduction_numel]), None

    @classmethod
    def select_tiling(cls, node_schedule, numel, reduction_numel=1, *_, **__):
        return cls.create_tiling([numel], [reduction_numel])

    def define_kernel(self, src_code, node_schedule, kernel):
        wrapper = V.graph.wrapper_code
        device = V.graph.get_current_device_or_throw().index or 0
        messages = tuple(kernel.messages)
        form = "items" if kernel.form == "elements" and kernel.calls_library else kernel.form
        key = f"{device} {messages} {form} {kernel.vector}\n{src_code}"
        if key in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[key]
        fused = get_fused_kernel_name(node_schedule, config.triton.descriptive_names)
        name = f"ocl_{fused}_{wrapper.next_kernel_suffix()}".replace("__", "_")
        wrapper.src_to_kernel[key] = name
        text = FusedText(
            device=device,
            form=form,
            length=kernel.row_length(),
            vector=kernel.vector,
            messages=list(messages),
            source=src_code.replace(NAME, name),
            comment=kernel.describe(node_schedule),
        )
        wrapper.define_fused(name, text)
        return name

    def codegen_combo_kernel(self, combo_kernel_node):
        combined.generate(self, combo_kernel_node)

    def codegen_sync(self):
        V.graph.wrapper_code.writeline("torch.ocl.synchronize()")
