# SPDX-License-Identifier: MIT
"""Inductor's own functions on ocl devices (docs/compile.md).

AOTInductor's aoti_compile_and_package and aoti_load_package, and what compiles a graph without torch.compile:
torch._inductor.compile, standalone_compile, compile_fx.
"""

import functools

from pytorch_ocl.inductor import is_tested, uses_ocl


def compiler(module):
    """torch._inductor.compile_fx: programs with ocl tensors get what they need; others stay as they are."""
    original = module.compile_fx_aot

    def compile_fx_aot(model_, example_inputs_, inner_compile=module.compile_fx_inner, config_patches=None):
        if uses_ocl(model_, example_inputs_):
            from pytorch_ocl.inductor import aot

            inner_compile, config_patches = aot.prepare(inner_compile, config_patches)
        return original(model_, example_inputs_, inner_compile, config_patches)

    module.compile_fx_aot = compile_fx_aot
    compile_fx, usual = module.compile_fx, module.compile_fx_inner

    @functools.wraps(compile_fx)
    def for_any_device(
        model_, example_inputs_, inner_compile=usual, config_patches=None, decompositions=None, **options
    ):
        options["decompositions"] = decompositions
        if is_tested() and uses_ocl(model_, example_inputs_):
            from pytorch_ocl.inductor.compile import compile_graph, is_prepared, prepare

            if inner_compile is usual:
                return compile_graph(model_, example_inputs_, config_patches or {}, **options)
            if not is_prepared(inner_compile):
                inner_compile, config_patches = prepare(inner_compile, config_patches)
        return compile_fx(model_, example_inputs_, inner_compile, config_patches, **options)

    module.compile_fx = for_any_device


def package(module):
    """torch.export.pt2_archive._package: a package for ocl devices can be loaded in a process that compiled nothing."""
    import torch

    original, load_metadata = module._load_aoti, torch._C._aoti.AOTIModelPackageLoader.load_metadata_from_package

    def _load_aoti(file, model_name, *options):
        if load_metadata(file, model_name).get("AOTI_DEVICE_KEY") == "ocl":
            from pytorch_ocl.inductor.interface import register_interface

            register_interface()
        return original(file, model_name, *options)

    module._load_aoti = _load_aoti
