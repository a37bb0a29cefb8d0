# SPDX-License-Identifier: MIT
"""transformers.pipeline and the Trainer's arguments, which take the first device of the kinds that they know, offloaded
caches, and generation with static caches, which is compiled on kinds that it knows (read in 5.23). The Trainer puts
batches where accelerate does."""

import functools
import os

import torch

from pytorch_ocl.adapters import chosen_automatically


def pipelines(module) -> None:
    original = module.Pipeline.__init__

    @functools.wraps(original)
    def __init__(self, model, *arguments, device=None, **options):
        placed = getattr(model, "hf_device_map", None) is not None
        if not torch.cuda.is_available() and chosen_automatically():
            if device is None and not placed:
                device = torch.device("ocl", 0)
            elif isinstance(device, int) and device >= 0:
                device = torch.device("ocl", device)
        original(self, model, *arguments, device=device, **options)

    module.Pipeline.__init__ = __init__


def training_args(module) -> None:
    original = vars(module.TrainingArguments)["_setup_devices"]

    def _setup_devices(self):
        device = original.func(self)
        chosen = getattr(self.distributed_state, "device", device)
        if device.type == "cpu" and not self.use_cpu and chosen.type == "ocl":
            return torch.device("ocl", chosen.index or 0)
        return device

    _setup_devices.__doc__ = original.__doc__
    module.TrainingArguments._setup_devices = functools.cached_property(_setup_devices)
    vars(module.TrainingArguments)["_setup_devices"].__set_name__(module.TrainingArguments, "_setup_devices")
    bf16_available = module.is_torch_bf16_gpu_available

    @functools.wraps(bf16_available)
    def is_torch_bf16_gpu_available():
        named = os.environ.get("ACCELERATE_TORCH_DEVICE", "").partition(":")[0] == "ocl"
        return bf16_available() or named or chosen_automatically()

    module.is_torch_bf16_gpu_available = is_torch_bf16_gpu_available


def cache_utils(module) -> None:
    """Caches offloaded to the CPU: their update waits for streams of CUDA by name. The order of steps is the same."""
    kind = module.Cache
    original = kind.update

    @functools.wraps(original)
    def update(self, key_states, value_states, layer_idx, *arguments, **options):
        if not self.offloading or key_states.device.type != "ocl":
            return original(self, key_states, value_states, layer_idx, *arguments, **options)
        while self.layer_class_to_replicate is not None and len(self.layers) <= layer_idx:
            self.layers.append(self.layer_class_to_replicate())
        stream = torch.ocl.current_stream(key_states.device)
        stream.wait_stream(self.prefetch_stream)
        self.prefetch_stream.wait_stream(stream)
        self.prefetch(layer_idx + 1, self.only_non_sliding)
        states = self.layers[layer_idx].update(key_states, value_states, *arguments, **options)
        self.offload(layer_idx, self.only_non_sliding)
        return states

    kind.update = update


def generation(module) -> None:
    """Decoding with a cache that can be compiled is compiled on GPUs, as on CUDA, unless `disable_compile` says no:
    transformers asks `_compile_all_devices` of devices that it does not know."""
    from transformers.generation.configuration_utils import CompileConfig

    kind = module.GenerationMixin
    original = kind._valid_auto_compile_criteria

    @functools.wraps(original)
    def _valid_auto_compile_criteria(self, model_kwargs, generation_config):
        cache = model_kwargs.get("cache", model_kwargs.get("past_key_values"))
        if self.device.type != "ocl" or not getattr(cache, "is_compileable", False) or not _on_gpu(self.device):
            return original(self, model_kwargs, generation_config)
        given = generation_config.compile_config
        generation_config.compile_config = given or CompileConfig()
        generation_config.compile_config._compile_all_devices = True
        try:
            return original(self, model_kwargs, generation_config)
        finally:
            generation_config.compile_config = given

    kind._valid_auto_compile_criteria = _valid_auto_compile_criteria


def _on_gpu(device):
    return torch.ocl.get_device_properties(device).type != "cpu"
