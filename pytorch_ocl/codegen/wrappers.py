# SPDX-License-Identifier: MIT
"""The functions that the dispatcher calls for a unit, as C++: checks, device guard, and the kernel's call.

torchgen says what their signatures are and how arguments convert between them; nothing else of it prints code. Its
modules `api.*` that are used here have the same functions in torch 2.11 to 2.14. What differs is C++ and is dealt with
in csrc/ops/structured.hpp: before 2.13, outputs of structured kernels have dimension names, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from catalog import Catalog
from plan import Unit
from torchgen.api import cpp, structured
from torchgen.api.translate import translate
from torchgen.api.types import (
    BaseCType,
    Binding,
    DispatcherSignature,
    Expr,
    MutRefCType,
    NamedCType,
    NativeSignature,
    tensorT,
)
from torchgen.context import native_function_manager
from torchgen.model import (
    Argument,
    BackendMetadata,
    DeviceCheckType,
    NativeFunction,
    NativeFunctionsGroup,
    SchemaKind,
    TensorOptionsArguments,
)

# Of csrc/ops/structured.hpp: a structured kernel whose outputs come from the caller, or not.
KERNEL_CLASSES = {
    SchemaKind.functional: "FunctionalKernel",
    SchemaKind.inplace: "InplaceKernel",
    SchemaKind.out: "OutKernel",
}


def flat(name: object) -> str:
    """A C++ identifier for a function: dots become underscores."""
    return str(name).replace(".", "_")


def namespace_of(unit: Unit) -> str:
    """Of the authors' functions: those for a layout have the names of those for dense tensors."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", unit.layout.removesuffix("Tensor")).lower() if unit.layout else "ops"


def kernel_of(unit: Unit, f: NativeFunction, catalog: Catalog) -> BackendMetadata | None:
    """What serves a function of the unit; of structured units `f` is the out overload."""
    if unit.kind == "structured":
        return BackendMetadata(flat(f.func.name), True, "pytorch_ocl")
    if unit.kind == "functions":
        if str(f.func.name) != unit.entry.name:
            return None
        name = flat(f.func.name) + ("_symint" if unit.entry.options.get("symint") else "")
        return BackendMetadata(name, False, f"pytorch_ocl::{namespace_of(unit)}")
    return catalog.layout_kernel(unit.layout, f) if unit.layout else catalog.cpu_kernel(f)


def signature_of(kernel: BackendMetadata, f: NativeFunction) -> NativeSignature:
    """Of the function that the kernel is."""
    if kernel.supports_symint() and not f.func.has_symint():
        raise ValueError(f"{f.func.name} has no argument for the option symint")
    return NativeSignature(f.func, symint=kernel.supports_symint())


@dataclass(frozen=True)
class Wrapper:
    operator: str  # as in the schema
    name: str
    declaration: str
    body: list[str]

    def definition(self) -> str:
        lines = "".join(f"  {line}\n" for line in self.body)
        return f"{self.declaration} try {{\n{lines}}} OCL_TRANSLATE_ERRORS\n"

    def registration(self) -> str:
        return f'add("{self.operator}", &{self.name});'


def wrappers(unit: Unit, catalog: Catalog) -> Iterator[Wrapper]:
    for f in unit.functions:
        with native_function_manager(unit.group if unit.structured else f):
            if unit.structured:
                yield of_structured(unit, f, catalog)
            elif kernel := kernel_of(unit, f, catalog):
                yield of_function(unit, f, kernel)
            elif unit.entry and unit.entry.options.get("variants"):
                yield of_variant(unit, f)


def dispatched(f: NativeFunction) -> DispatcherSignature:
    """Of the wrapper of a function that is not structured."""
    return DispatcherSignature.from_schema(f.func, prefix=f"wrapper_OCL_{f.func.name.overload_name}_", symint=True)


def converted(given: list[Binding | Expr], wanted: list[Binding]) -> str:
    """The wanted arguments, by what is given."""
    return ", ".join(e.expr for e in translate(given, wanted, method=False))


def of_function(unit: Unit, f: NativeFunction, kernel: BackendMetadata) -> Wrapper:
    signature = dispatched(f)
    options = unit.entry.options if unit.entry else {}
    body = own_checks(unit, f)
    if options.get("device_check", True):
        body += device_check(f, signature.name())
    if options.get("guard", not f.is_view_op):
        body += device_guard(f)
    body += ownership(f)
    arguments = converted(signature.arguments(), signature_of(kernel, f).arguments())
    body += [f"return {kernel.cpp_namespace}::{kernel.kernel}({arguments});"]
    return Wrapper(str(f.func.name), signature.name(), signature.defn(), body)


def of_variant(unit: Unit, f: NativeFunction) -> Wrapper:
    """In-place or out overload that copies what the functional one gives."""
    signature, functional = dispatched(f), dispatched(unit.group.functional)
    written = cpp.return_names(f)
    if not written:
        raise ValueError(f"variants: {f.func.name} returns nothing")
    copy = "_copy_from" if f.func.kind() is SchemaKind.inplace else "_copy_from_and_resize"
    arguments = converted(signature.arguments(), functional.arguments())
    body = [*own_checks(unit, f), f"auto result = {functional.name()}({arguments});"]
    single = len(written) == 1
    results = {name: "result" if single else f"std::get<{i}>(result)" for i, name in enumerate(written)}
    body += ["std::optional<Device> common_device;"]
    body += [line for name, result in results.items() for line in output_check(result, name, signature.name())]
    body += [f"at::{copy}({result}, {name});" for name, result in results.items()]
    answer = written[0] if single else f"{signature.returns_type().cpp_type()}({', '.join(written)})"
    body += [f"return {answer};"]
    return Wrapper(str(f.func.name), signature.name(), signature.defn(), body)


def of_structured(unit: Unit, f: NativeFunction, catalog: Catalog) -> Wrapper:
    """PyTorch's meta function checks the arguments and asks for outputs; the kernel's `impl` fills them."""
    group, kind = unit.group, f.func.kind()
    kernel = kernel_of(unit, group.out, catalog)
    symint = kind is SchemaKind.out and kernel.supports_symint()
    signature = NativeSignature(f.func, prefix="wrapper_OCL_", symint=symint)
    given = [a.name for a in f.func.arguments.out] if kind is SchemaKind.out else []
    given = ["self"] if kind is SchemaKind.inplace else given
    count = len(f.func.returns)
    op = f"pytorch_ocl::{KERNEL_CLASSES[kind]}<{kernel.cpp_namespace}::structured_{kernel.kernel}, {count}> op"
    body = own_checks(unit, f) + device_check(f, signature.name())
    body += ownership(f)
    body += [f"{op}({', '.join(given)});" if given else f"{op};"]

    context = list(signature.arguments())
    meta = f"op.meta({converted(context, structured.meta_arguments(group))});"
    if group.out.precomputed:
        meta = f"[[maybe_unused]] auto precompute = {meta}"
        context += precomputed(group)
    for i, argument in enumerate(structured.out_arguments(group)):
        output = NamedCType(argument.nctype.name, MutRefCType(BaseCType(tensorT)))
        context.append(Expr(f"op.maybe_get_output({i})", output))
    body += [meta, f"op.impl({converted(context, structured.impl_arguments(group))});"]
    body += ["op.copy_back();"] if given else []
    body += [f"return {returned(given or [f'std::move(op.outputs_[{i}])' for i in range(count)], kind)};"]
    return Wrapper(str(f.func.name), signature.name(), signature.defn(), body)


def precomputed(group: NativeFunctionsGroup) -> list[Expr]:
    """Arguments of `impl` that the meta function computes."""
    lists = [*group.out.precomputed.replace.values(), group.out.precomputed.add]
    return [
        Expr(f"precompute.{a.name}", structured.argument_type(a, binds=a.name))
        for arguments in lists
        for a in arguments
    ]


def returned(values: list[str], kind: SchemaKind) -> str:
    if len(values) == 1:
        return values[0]
    return f"std::{'forward_as_tuple' if kind is SchemaKind.out else 'make_tuple'}({', '.join(values)})"


def tensors_of(f: NativeFunction) -> list[Argument]:
    """Tensors, optional ones and lists of them, outputs first."""
    return [a for a in (*f.func.arguments.out, *f.func.arguments.flat_positional) if a.type.is_tensor_like()]


def own_checks(unit: Unit, f: NativeFunction) -> list[str]:
    """For operators whose host code is ours; PyTorch's has its own."""
    return [*dtype_check(unit, f), *overlap_checks(unit, f)] if unit.kind in ("structured", "functions") else []


def dtype_check(unit: Unit, f: NativeFunction) -> list[str]:
    """That the first tensor's dtype is among those its entry lists."""
    served = unit.entry.options.get("dtypes")
    first = next((a.name for a in f.func.arguments.flat_all if str(a.type) == "Tensor"), None)
    if not served or first is None:
        return []
    mask = " | ".join(f"pytorch_ocl::served::{kind}_" for kind in served)
    name = str(f.func.name.name.base).strip("_")
    return [f'pytorch_ocl::check_dtype({first}, {mask}, "{name}");']


def written_of(arguments: Iterable[Argument]) -> list[Argument]:
    """Those that the schema says are written."""
    return [a for a in arguments if a.annotation is not None and a.annotation.is_write]


def overlap_checks(unit: Unit, f: NativeFunction) -> list[str]:
    """That what is written overlaps neither itself nor part of what is read."""
    if unit.entry.options.get("overlap", False):
        return []
    tensors = [a for a in f.func.arguments.flat_all if a.type.is_tensor_like() and not a.type.is_list_like()]
    written = written_of(tensors)
    read = [a.name for a in tensors if a not in written]
    return [f"pytorch_ocl::check_overlap({', '.join([a.name, *read])});" for a in written]


def ownership(f: NativeFunction) -> list[str]:
    """That what is written shares no memory with lazy clones."""
    written = written_of(f.func.arguments.flat_all)
    return [] if f.is_view_op else [f"pytorch_ocl::make_own({a.name});" for a in written if a.type.is_tensor_like()]


def device_check(f: NativeFunction, wrapper: str) -> list[str]:
    """That all tensors are on one device."""
    if f.device_check is DeviceCheckType.NoCheck:
        return []
    check = "c10::impl::check_and_update_common_device"
    calls = [f'{check}(common_device, {a.name}, "{wrapper}", "{a.name}");' for a in tensors_of(f)]
    return ["std::optional<Device> common_device;", *calls] if calls else []


def output_check(result: str, out: str, wrapper: str) -> list[str]:
    """That a result may be copied to `out`: a tensor of its device, and of a dtype that it can be cast to."""
    have, want = f"{result}.scalar_type()", f"{out}.scalar_type()"
    text = f'"result type ", {have}, " can\'t be cast to the desired output type ", {want}'
    check = "c10::impl::check_and_update_common_device"
    return [
        *(f'{check}(common_device, {x}, "{wrapper}", "{out}");' for x in (result, out)),
        f"TORCH_CHECK(at::canCast({have}, {want}), {text});",
    ]


def device_guard(f: NativeFunction) -> list[str]:
    """Makes the device of new tensors, or of the first tensor, the current one."""
    if any(isinstance(a, TensorOptionsArguments) for a in f.func.arguments.non_out):
        return ["const DeviceGuard device_guard(device_or_default(device));"]
    own = f.func.arguments.self_arg
    candidates = [own.argument] if own is not None and own.argument.type.is_tensor_like() else []
    first = next(iter(candidates + tensors_of(f)), None)
    return [f"const OptionalDeviceGuard device_guard(device_of({first.name}));"] if first else []
