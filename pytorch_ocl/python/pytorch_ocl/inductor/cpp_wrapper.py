# SPDX-License-Identifier: MIT
"""The C++ program around the kernels, for AOTInductor and torch._inductor.config.cpp_wrapper.

It is Inductor's for the CPU but for what runs on the device: kernels and operators are called by way of aot_program.h,
operators through the dispatcher, as Inductor's C functions for operators know PyTorch's own devices only.
"""

import dataclasses
import pathlib
import types
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.cpp_utils import cexpr
from torch._inductor.codegen.wrapper import WrapperLine
from torch._inductor.utils import normalize_name
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

from pytorch_ocl.inductor import runtime
from pytorch_ocl.inductor.cpp_wrapper_base import Base, make_codegen_buffer

_FOLDER = pathlib.Path(__file__).parent
_NO_SCHEMA = types.SimpleNamespace(arguments=())  # of operators that Python alone knows
_ENUMS = (torch.dtype, torch.layout, torch.memory_format)


def _program_text():
    """What each program has in common, as text to be placed into it."""
    text = (_FOLDER / "aot_abi.h").read_text() + (_FOLDER / "aot_program.h").read_text()
    return text.replace("#pragma once\n", "").replace('#include "aot_abi.h"\n', "")


def kernels_version():
    """A number of what the text of kernels includes: programs are for libraries that have the same."""
    return torch.ops.pytorch_ocl.aot_kernels_version()


def _literal(text):
    return f'R"OCL({text})OCL"'


def _list(values):
    return "{" + ", ".join(values) + "}"


def align_arguments(schema, positional, named):
    """[(argument of the schema, its value)]: given by position or name, or its default."""
    found, given = [], list(positional)
    for argument in schema.arguments:
        if argument.name in named:
            value = named[argument.name]
        elif given and not argument.kwarg_only:
            value = given.pop(0)
        else:
            value = argument.default_value
        found.append((argument, value))
    return found


@dataclasses.dataclass
class OperatorLine(WrapperLine):
    """A call of an operator; `outputs` are the IR nodes of the tensors it returns, None for what is no tensor."""

    wrapper: Any
    op: Any
    arguments: list
    outputs: list

    def codegen(self, code):
        self.wrapper.write_operator(self.op, self.arguments, self.outputs)

    @staticmethod
    def codegen_fx(converter):
        raise NotImplementedError("operators of ocl devices in FX programs")


class OclCppWrapper(Base):
    """Of a whole graph; graphs within it are part of the same function."""

    def __init__(self):
        self.device = "ocl"
        self.fused_kernels, self.operators = [], {}  # what the program's tables get
        super().__init__()

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        return OclCppWrapper()

    # Headers, devices and streams

    @staticmethod
    def get_device_include_path_aot(device):
        if device != "ocl":
            return Base.get_device_include_path_aot(device)
        return Base.includes_aot + _program_text()

    @staticmethod
    def get_device_include_path_jit(device):
        if device != "ocl":
            return Base.get_device_include_path_jit(device)
        return "#include <torch/csrc/inductor/cpp_wrapper/common.h>\n" + _program_text()

    def _device_number(self):
        return "this->device_idx_" if V.graph.aot_mode else str(next(iter(V.graph.device_idxs), 0))

    def codegen_device(self, device):
        if device.type != "ocl":
            return super().codegen_device(device)
        self.used_cached_devices.add("privateuse1")
        return f"cached_torch_device_type_privateuse1, {device.index or 0}"

    def codegen_device_idx(self, device, device_id):
        return super().codegen_device_idx(device, device_id) if device.type == "ocl" else device_id.strip()

    def codegen_device_guard_enter(self, device_idx, num_streams=1, *_):
        if num_streams > 1:
            raise NotImplementedError("several streams in a C++ program")
        self.last_seen_device_guard_index = device_idx

    def codegen_device_guard_exit(self):
        pass

    # Kernels

    def define_fused(self, name, kernel):
        """Adds a kernel (FusedText) to the program's table, and has it built, so that mistakes show now."""
        self.fused_kernels.append((name, kernel))
        fields = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)}
        del fields["comment"]
        runtime.FusedKernel(name, **fields)

    def call_fused(self, name, device, tensors, numbers, items):
        number = [known for known, _ in self.fused_kernels].index(name)
        handles = [f"ocl::moved({caller}, {self._index_of(device)})" if moved else caller for caller, moved in tensors]
        counts = [cexpr(sympy.sympify(expression)) for expression in numbers]
        self.writeline(f"ocl_program.launch({number} /* {name} */, {_list(handles)}, {_list(counts)}, {cexpr(items)});")

    def _index_of(self, device):
        return self.codegen_device_idx(device, str(device.index or 0))

    # Operators

    def generate_fallback_kernel(self, node):
        arguments, named = node.unflatten_args(node.inputs, node.constant_args)
        self._call_operator(node.op_overload, arguments, {**node.kwargs, **named}, self._outputs(node))

    def generate_fallback_kernel_with_runtime_lookup(
        self, buf_name, python_kernel_name, get_args, op_overload, raw_args, outputs
    ):
        if V.graph.aot_mode:
            V.extern_kernel_nodes.pop()  # of PyTorch's executor, which is not used
        if not isinstance(op_overload, torch._ops.OpOverload):
            raise NotImplementedError(f"{op_overload} in a C++ program")
        names = [argument.name for argument in op_overload._schema.arguments]
        self._call_operator(op_overload, [], dict(zip(names, raw_args)), outputs)

    def generate_extern_kernel_alloc(self, node):
        node.codegen_comment(self)
        self._call_operator(node.op_overload, [*node.inputs, *node.constant_args], node.kwargs, self._outputs(node))
        if isinstance(node.layout, ir.Layout):
            node.codegen_size_asserts(self)

    def generate_extern_kernel_out(self, node):
        node.codegen_comment(self)
        op = node.op_overload
        if op is None and node.cpp_kernel_name == "torch::inductor::_mm_plus_mm":
            op = torch.ops.inductor._mm_plus_mm.default
        written = [
            a.name for a in getattr(op, "_schema", _NO_SCHEMA).arguments if a.alias_info and a.alias_info.is_write
        ]
        if len(written) != 1:
            raise NotImplementedError(f"{op or node.python_kernel_name} in a C++ program")
        named = {**node.kwargs, written[0]: node.output_view or node}
        self._call_operator(op, [*node.inputs, *node.constant_args], named, [])

    def generate_extern_kernel_multi_out(self, node):
        raise NotImplementedError(f"{node.op_overload} with several outputs to write in a C++ program")

    def generate_scatter_fallback(self, node):
        x, index, *src = node.inputs
        dim, *number = node.constant_args
        self._call_operator(node.op_overload, [x, dim, index, *src, *number], node.kwargs, [])

    def generate_index_put_fallback(self, node):
        x, values, *given = node.inputs
        given = iter(given)
        indices = [None if index is None else next(given) for index in node.indices]
        self._call_operator(torch.ops.aten.index_put_.default, [x, indices, values, *node.constant_args], {}, [])

    @staticmethod
    def _outputs(node):
        if node.outputs:
            return tree_leaves(node.outputs)
        return [node] if isinstance(node.layout, ir.Layout) else []

    def _call_operator(self, op, positional, named, outputs):
        if not isinstance(op, torch._ops.OpOverload):
            raise NotImplementedError(f"{op} in a C++ program")
        if torch.Tag.inplace_view in op.tags:
            outputs = []
        outputs = [output if isinstance(output, ir.IRNode) else None for output in outputs]
        arguments = align_arguments(op._schema, positional, named)
        self.writeline(OperatorLine(self, op, arguments, outputs))
        self._after_operator(outputs)

    def write_operator(self, op, arguments, outputs):
        """Writes a call of an operator, and variables for the tensors it returns."""
        number = self.operators.setdefault(op, len(self.operators))
        values = [self._value(value, argument.real_type, argument.N) for argument, value in arguments]
        new = [None if isinstance(o, (ir.MutationOutput, type(None))) else o.get_name() for o in outputs]
        for name in filter(None, new):
            self.writeline(f"AtenTensorHandle {name}_handle;")
        handles = [f"&{name}_handle" if name else "nullptr" for name in new]
        self.writeline(f"ocl_program.call({number} /* {op} */, {_list(values)}, {_list(handles)});")
        for name in filter(None, new):
            self.writeline(f"RAIIAtenTensorHandle {name}({name}_handle);")

    def _value(self, value, kind, length=None):
        """An operator's argument as aot_program.h takes it."""
        if value is None:
            return "ocl::none()"
        if isinstance(kind, torch.OptionalType):
            return self._value(value, kind.getElementType(), length)
        if isinstance(kind, torch.ListType):
            values = value if isinstance(value, (list, tuple)) else [value] * (length or 1)
            return f"ocl::list({_list(self._value(element, kind.getElementType()) for element in values)})"
        if hasattr(value, "codegen_reference"):
            return f"ocl::tensor({value.codegen_reference()})"
        if isinstance(value, _ENUMS):
            return f"ocl::integer({self.val_to_arg_str_for_prim_type(value, None)})"
        if isinstance(value, torch.device):
            return self._device_value(value)
        return self._scalar(value, kind)

    def _device_value(self, device):
        kind, number = self.codegen_device(device).split(", ")
        return f"ocl::device({kind}, {self.codegen_device_idx(device, number)})"

    def _scalar(self, value, kind):
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            value = value.node.expr
        if isinstance(value, sympy.Expr):
            real = isinstance(kind, torch.FloatType) or value.is_integer is False
            return f"ocl::{'real' if real else 'integer'}({cexpr(V.graph.sizevars.simplify(value))})"
        if isinstance(value, bool):
            return f"ocl::boolean({str(value).lower()})"
        if isinstance(value, int):
            return "ocl::integer(INT64_MIN)" if value == -(2**63) else f"ocl::integer({value}L)"
        if isinstance(value, float):
            return f"ocl::real({self.generate_float_value(value)})"
        if isinstance(value, str):
            return f"ocl::text({_literal(value)})"
        raise NotImplementedError(f"{type(value).__name__} arguments of operators in a C++ program")

    def _codegen_assert_size_stride(self, code, name, size, stride, *rest):
        if name.startswith("buf"):
            code.writeline(f"ocl_program.plan({name}, {size}, {stride});")
        else:
            super()._codegen_assert_size_stride(code, name, size, stride, *rest)

    def check_numbers(self, caller):
        self.writeline(f'AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_check_inf_and_nan("{caller}", {caller}));')

    # The program's frame

    def _expect_devices(self, of_number):
        """Checks inputs, each by what it is called in the program."""
        for number, value in enumerate(V.graph.graph_inputs.values()):
            if V.graph.aot_mode and isinstance(value, ir.TensorBox):
                kind, index = self.codegen_device(value.get_device()).split(", ")
                index = self.codegen_device_idx(value.get_device(), index)
                self.prefix.writeline(f"ocl::expect_device({of_number(number)}, {number}, {kind}, {index});")

    def _write_input_unpacking(self):
        self._expect_devices("inputs[{}]".format)
        super()._write_input_unpacking()

    def _write_entry_point_postamble(self):
        super()._write_entry_point_postamble()
        self.prefix.writeline(
            f"[[maybe_unused]] const ocl::Program& ocl_program = ocl::Program::on({self._device_number()});"
        )

    def codegen_model_kernels(self):
        self.prefix.writeline("namespace {")
        self.prefix.writeline("class AOTInductorModelKernels : public AOTInductorModelKernelsBase {};")
        self.prefix.writeline("}")

    def finalize_prefix(self):
        super().finalize_prefix()
        tables = make_codegen_buffer()
        self._write_tables(tables)
        if V.graph.aot_mode:
            self._write_constants(tables)
        tables.splice(self.prefix)
        self.prefix = tables

    def _write_tables(self, code):
        code.writeline("namespace { namespace ocl {")
        for number, (_, kernel) in enumerate(self.fused_kernels):
            texts = [_literal(message) for message in kernel.messages]
            code.writeline(f"const char* const messages_{number}[] = {_list([*texts, 'nullptr'])};")
        code.writeline("const KernelText kernel_texts[] = {")
        for number, (name, kernel) in enumerate(self.fused_kernels):
            for line in kernel.comment.splitlines():
                code.writeline(f"// {line.removeprefix('#').strip()}")
            code.writeline(f'{{"{name}", R"OCL(')
            for line in kernel.source.splitlines():
                code.writeline(line)
            traits = f'"{kernel.form}", {kernel.length}, {kernel.vector}'
            code.writeline(f')OCL", {traits}, messages_{number}, {len(kernel.messages)}}},')
        code.writeline("{}};")
        code.writeline(f"const std::int64_t kernel_count = {len(self.fused_kernels)};")
        code.writeline(f"const std::int64_t kernels_version = {kernels_version()}L;")
        code.writeline("const OperatorName operator_names[] = {")
        for op in self.operators:
            code.writeline(f'{{"{op._schema.name}", "{op._schema.overload_name}"}},')
        code.writeline("{}};")
        code.writeline(f"const std::int64_t operator_count = {len(self.operators)};")
        code.writeline("}}  // namespace ocl")

    def _write_constants(self, code):
        """What the library's runner calls when it loads the model, and what it makes the weights by."""
        code.writeline('extern "C" __attribute__((visibility("default"))) void pytorch_ocl_aot_load(int32_t device) {')
        code.writeline("    ocl::Program::on(device);")
        code.writeline("}")
        code.writeline(
            'extern "C" __attribute__((visibility("default"))) '
            "const ocl::Constant* pytorch_ocl_aot_constants(std::int64_t* count) {"
        )
        rows, names = IndentedBuffer(), list(V.graph.constants)
        parameters = {normalize_name(name) for name in V.graph.named_parameters}
        for number, name in enumerate(names):
            tensor = V.graph.get_original_value_of_constant(name)
            for kind, values in (("sizes", tensor.shape), ("strides", tensor.stride())):
                values = _list([*map(str, values), "0"])
                code.writeline(f"    static const std::int64_t {kind}_{number}[] = {values};")
            on_cpu, is_parameter = tensor.device.type == "cpu", name in parameters
            rows.writeline(
                f'{{"{name}", aoti_torch_dtype_{str(tensor.dtype).split(".")[-1]}(), {str(on_cpu).lower()}, '
                f"{str(is_parameter).lower()}, {tensor.dim()}, sizes_{number}, strides_{number}, "
                f"{tensor.storage_offset()}, {tensor.untyped_storage().nbytes() if tensor.numel() else 0}}},"
            )
        code.writeline("    static const ocl::Constant constants[] = {")
        with code.indent():
            code.splice(rows)
        code.writeline("    {}};")
        code.writeline(f"    *count = {len(names)};")
        code.writeline("    return constants;")
        code.writeline("}")
