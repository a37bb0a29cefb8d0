# SPDX-License-Identifier: MIT
"""What torch._inductor.aoti_compile_and_package needs for graphs with tensors on ocl devices."""

import torch

from pytorch_ocl import inductor
from pytorch_ocl.inductor import compile

# Weights lie in a file of the package, which the library reads; the program has none of its own.
_SETTINGS = {
    "aot_inductor.package_constants_on_disk_format": "binary_blob",
    "aot_inductor.use_runtime_constant_folding": False,
    "aot_inductor.precompile_headers": False,
    "aot_inductor.force_mmap_weights": False,
    "aot_inductor.allow_stack_allocation": False,
    "size_asserts": True,
}


def prepare(inner_compile, patches):
    """The function that compiles a graph, and Inductor's configuration, as ocl devices need them. Raises RuntimeError
    for versions of PyTorch whose C++ programs are not known."""
    if not inductor.is_tested():
        raise RuntimeError(
            f"AOTInductor compiles programs for ocl devices with torch {', '.join(inductor.TESTED)}, "
            f"this is {torch.__version__}"
        )
    inner_compile, patches = compile.prepare(inner_compile, patches)
    return inner_compile, {**patches, "cpp_wrapper": True, **_SETTINGS}
