# SPDX-License-Identifier: MIT
"""Networks by name, from torchvision or timm, for the command line and the tests."""

import importlib

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# What torchvision's Python code refers to. Its compiled half from PyPI needs CUDA's libraries; beside a PyTorch without
# CUDA it cannot be loaded, and declaring the operators it would have brought lets torchvision.models be imported.
_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward": "(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, "
    "bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_roi_pool_backward": "(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) "
    "-> Tensor",
    "ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward": "(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, "
    "SymInt channels, SymInt height, SymInt width) -> Tensor",
    "ps_roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_ps_roi_pool_backward": "(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, "
    "SymInt height, SymInt width) -> Tensor",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
    "_deform_conv2d_backward": "(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
}
_SCHEMAS |= {"qnms": _SCHEMAS["nms"], "qroi_align": _SCHEMAS["roi_align"]}
_library = None


def declare_torchvision() -> None:
    """Declares torchvision's operators where nobody has."""
    global _library
    if torch.version.cuda is None and not hasattr(torch.ops.torchvision, "nms") and _library is None:
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for name, signature in _SCHEMAS.items():
            _library.define(name + signature)


def torchvision_models():
    """The module torchvision.models, or None when torchvision is not installed."""
    if importlib.util.find_spec("torchvision") is None:
        return None
    declare_torchvision()
    return importlib.import_module("torchvision.models")


def create(name):
    """A new network with random weights, of torchvision or timm, or what the function `module:function` returns.

    Raises ValueError when neither torchvision nor timm knows the name.
    """
    module, colon, function = name.partition(":")
    if colon:
        return getattr(importlib.import_module(module), function)()
    vision = torchvision_models()
    if vision is not None and name in vision.list_models(module=vision):
        extra = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        return vision.get_model(name, weights=None, **extra)
    if importlib.util.find_spec("timm") is not None:
        timm = importlib.import_module("timm")
        if timm.is_model(name):
            return timm.create_model(name, pretrained=False)
    raise ValueError(f"neither torchvision nor timm (as installed here) has a network named {name!r}")


def input_size(name):
    """Height and width of the images a network expects."""
    return 299 if name.startswith("inception") else 224


def remove_randomness(model):
    """Sets every dropout and stochastic depth to 0, so that two devices compute the same function."""
    for module in model.modules():
        for attribute in ("p", "drop_prob", "dropout"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)


class WithoutDropout(TorchFunctionMode):
    """Inside, dropout that a network calls as a function passes its input on."""

    DROPOUTS = frozenset(
        {
            functional.dropout,
            functional.dropout1d,
            functional.dropout2d,
            functional.dropout3d,
            functional.alpha_dropout,
            functional.feature_alpha_dropout,
        }
    )

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        if function in self.DROPOUTS:
            return arguments[0] if arguments else options["input"]
        return function(*arguments, **options)
