# SPDX-License-Identifier: MIT
"""accelerate, and with it transformers' Trainer and TRL: the device, float16, and the memory that
device_map="auto" counts on (read in 1.15). ACCELERATE_TORCH_DEVICE=ocl:0 chooses a device whatever its kind."""

import functools

import torch

from pytorch_ocl.adapters import chosen_automatically


def state(module) -> None:
    original = module.PartialState.default_device.fget

    def default_device(self):
        device = original(self)
        return torch.device("ocl") if device.type == "cpu" and chosen_automatically() else device

    module.PartialState.default_device = property(default_device, doc=original.__doc__)


def modeling(module) -> None:
    import psutil  # which accelerate needs

    original = module.get_max_memory

    @functools.wraps(original)
    def get_max_memory(max_memory=None):
        if torch.cuda.is_available() or not chosen_automatically():
            return original(max_memory)
        if max_memory is None:
            devices = (i for i in range(torch.ocl.device_count()) if torch.ocl.get_device_properties(i).type != "cpu")
            max_memory = {
                **{i: torch.ocl.mem_get_info(i)[0] for i in devices},
                "cpu": psutil.virtual_memory().available,
            }
        sizes = {
            place: module.convert_file_size_to_int(size) if isinstance(size, str) else size
            for place, size in max_memory.items()
        }
        numbers = sorted(place for place in sizes if isinstance(place, int))
        return {place: sizes[place] for place in (*numbers, *(p for p in sizes if p not in numbers))}

    module.get_max_memory = get_max_memory


def accelerator(module) -> None:
    # The devices that may compute in float16 are a constant of the function.
    code = module.Accelerator.__init__.__code__
    known = next(each for each in code.co_consts if isinstance(each, tuple) and {"cuda", "npu", "xpu"} <= set(each))
    constants = tuple((*each, "ocl") if each is known else each for each in code.co_consts)
    module.Accelerator.__init__.__code__ = code.replace(co_consts=constants)
    original = module.get_grad_scaler

    @functools.wraps(original)
    def get_grad_scaler(distributed_type=None, **options):
        if module.PartialState().device.type == "ocl" and (
            distributed_type is None or "FSDP" not in str(distributed_type)
        ):
            return torch.amp.GradScaler("ocl", **options)
        return original(distributed_type, **options)

    module.get_grad_scaler = get_grad_scaler
