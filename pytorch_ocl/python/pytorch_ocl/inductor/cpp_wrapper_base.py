# SPDX-License-Identifier: MIT
"""Inductor's C++ program for the CPU, with the functions that it has been split into since PyTorch 2.13."""

from torch._inductor import ir
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

try:
    from torch._inductor.utils import make_codegen_buffer
except ImportError:  # before PyTorch 2.13
    make_codegen_buffer = IndentedBuffer


# The container of weights refuses any that are on another device than the program, which is the CPU's (aot_runner.cpp).
_CONTAINER = """
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
namespace {
AOTITorchError type_of_program(AtenTensorHandle, std::int32_t* type) {
    *type = aoti_torch_device_type_cpu();
    return AOTI_TORCH_SUCCESS;
}
}
#define aoti_torch_get_device_type type_of_program
#include <torch/csrc/inductor/aoti_runtime/model_container.h>
#undef aoti_torch_get_device_type
"""


class _NewBase(CppWrapperCpu):
    includes_aot = "#include <torch/csrc/inductor/aoti_include/common.h>\n"

    def _after_operator(self, outputs):
        """Inductor has the strides of results checked."""


class _OldBase(CppWrapperCpu):
    """Of PyTorch 2.11 and 2.12."""

    includes_aot = "#include <torch/csrc/inductor/aoti_include/common.h>\n" + _CONTAINER

    @staticmethod
    def get_device_include_path_aot(device):
        return f"#include <torch/csrc/inductor/aoti_include/{device}.h>"

    @staticmethod
    def get_device_include_path_jit(device):
        return f"#include <torch/csrc/inductor/cpp_wrapper/{device}.h>"

    def get_device_include_path(self, device):
        of = self.get_device_include_path_aot if V.graph.aot_mode else self.get_device_include_path_jit
        return of(device)

    def codegen_device_idx(self, device, device_id):
        return device_id.strip()

    def write_wrapper_decl(self):
        super().write_wrapper_decl()
        names = [*V.graph.graph_inputs]
        self._expect_devices(names.__getitem__)
        self._write_entry_point_postamble()

    def _write_entry_point_postamble(self):
        """What comes before the first call of the entry function."""

    def _after_operator(self, outputs):
        for output in filter(None, outputs):
            if not isinstance(output.layout, ir.Layout) or getattr(output, "skip_size_stride_alignment_checks", False):
                continue
            known = not free_unbacked_symbols(output.get_size())  # others are read from the result later
            if known and sympy_product(output.get_size()) != 0:
                sizes, strides = map(self.codegen_shape_tuple, (output.get_size(), output.get_stride()))
                self._codegen_assert_size_stride(self, output.get_name(), sizes, strides)

    def _codegen_assert_size_stride(self, code, name, size, stride):
        """Other than operators' results are not checked."""


Base = _NewBase if hasattr(CppWrapperCpu, "_write_input_unpacking") else _OldBase
