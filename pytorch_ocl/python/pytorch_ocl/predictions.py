# SPDX-License-Identifier: MIT
"""What PyTorch foretells of this device's operators without running them (fake tensors, torch.compile)."""

import functools

import torch

_library = None  # what it registers lives as long


def install() -> None:
    _predict_gradients_of_attention()
    _predict_layouts_of_convolutions()


def _predict_gradients_of_attention() -> None:
    """Of scaled_dot_product_attention by this device's kernels. PyTorch 2.11 does not know their sizes: it finds out by
    running them on zeros, or raises NotImplementedError where sizes are symbols."""
    global _library
    operator = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "Meta"):
        return

    def gradients(grad_out, query, key, value, attn_bias, grad_input_mask, *rest, scale=None):
        inputs = (query, key, value, attn_bias)
        return tuple(x if x is None else torch.empty_like(x) for x in inputs)

    _library = torch.library.Library("aten", "IMPL")
    _library.impl(operator, gradients, "Meta")


def _predict_layouts_of_convolutions() -> None:
    """Convolutions give channels-last results where input or weight is stored so (csrc/ops/conv.cpp). PyTorch (2.11 to
    2.15) expects contiguous ones of every device outside its tree, and torch.compile would copy each to that."""
    original = torch._C._conv_determine_backend_memory_format

    @functools.wraps(original)
    def memory_format(input, weight, backend):
        if input.device.type != "ocl":
            return original(input, weight, backend)
        from torch._prims_common import suggest_memory_format

        found = suggest_memory_format(input)
        return suggest_memory_format(weight) if found == torch.contiguous_format else found

    torch._C._conv_determine_backend_memory_format = memory_format
