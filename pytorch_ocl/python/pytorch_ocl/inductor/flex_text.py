# SPDX-License-Identifier: MIT
"""score_mod and mask_mod as OpenCL C that attention kernels compute a score's bias by (dlprim's AttentionFunction)."""

import typing

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from pytorch_ocl.inductor import types
from pytorch_ocl.inductor.overrides import OclOverrides

_aten = torch.ops.aten


class Value(str):
    """The name of a variable, or a constant, which knows its dtype, and the text that the variable is computed by."""

    dtype: torch.dtype
    text = ""


def _value(text, dtype):
    value = Value(text)
    value.dtype = dtype
    return value


class _Captured(typing.NamedTuple):
    """A tensor in memory: its name, and an example."""

    name: str
    example: torch.Tensor


class _Unknown(Exception):
    """There is no text for an operator here."""


# Operators of which the operands become the result's dtype first; OclOverrides has their text.
_UNARY = "neg abs bitwise_not sign exp exp2 log log2 log1p expm1 sqrt rsqrt sin cos tan tanh erf floor ceil trunc"
_BINARY = "add sub mul remainder fmod bitwise_and bitwise_or bitwise_xor"
_ARITHMETIC = {
    **{getattr(_aten, name).default: name for name in [*_UNARY.split(), "maximum", "minimum", "atan2"]},
    **{getattr(_aten, name).Tensor: name for name in _BINARY.split()},
    **{getattr(_aten, name).Scalar: name for name in _BINARY.split()},
    **{getattr(_aten.pow, overload): "pow" for overload in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")},
    _aten.div.Tensor: "truediv",
    _aten.div.Scalar: "truediv",
    _aten.clamp_min.default: "maximum",
    _aten.clamp_max.default: "minimum",
}
# Operators of which the operands become of one dtype first.
_COMPARISONS = {
    getattr(getattr(_aten, name), overload): name
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for overload in ("Tensor", "Scalar")
}
_LOGICAL = {getattr(_aten, name).default: name for name in ("logical_and", "logical_or", "logical_xor", "logical_not")}
_ROUNDED = {"floor": "floordiv", "trunc": "truncdiv"}
# Operators whose result is their first argument, of one element.
_SAME = [_aten.alias, _aten.clone, _aten.detach, _aten.expand, _aten.lift_fresh_copy, _aten.permute, _aten.reshape]
_SAME += [_aten.squeeze, _aten.unsqueeze, _aten.view, _aten._unsafe_view]


class _Writer(torch.fx.Interpreter):
    """Writes statements for a graph of numbers. `values`: of its first placeholders; the others are tensors. What is
    made of these alone stays outside."""

    def __init__(self, graph_module, values):
        super().__init__(graph_module)
        self.lines, self.tensors = [], []
        placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self.values = dict(zip(placeholders, values))
        self.inside, self.captured = set(self.values), set(placeholders[len(values) :])
        for node in graph_module.graph.nodes:
            if self.inside.intersection(node.all_input_nodes):
                self.inside.add(node)
            elif self.captured.intersection(node.all_input_nodes):
                self.captured.add(node)

    def _example(self, node):
        return node.meta["val"]

    def _new(self, text, dtype):
        if dtype == torch.float64:  # not all devices have it
            raise _Unknown("double")
        name = f"t{len(self.lines)}"
        self.lines.append(f"const {types.computed(dtype)} {name} = {text};")
        value = _value(name, dtype)
        value.text = text
        return value

    def _as(self, value, dtype):
        if isinstance(value, (bool, int, float)):
            return _value(OclOverrides.constant(value, dtype), dtype)
        if not isinstance(value, Value):
            raise _Unknown(f"{type(value)}")
        if value.dtype == dtype:
            return value
        return self._new(OclOverrides.to_dtype(value, dtype, value.dtype), dtype)

    def _operation(self, name, values, dtype):
        return self._new(getattr(OclOverrides, name)(*values), dtype)

    def run_node(self, n):
        if n in self.values:
            return self.values[n]
        example = self._example(n) if n.op != "output" else None
        if n in self.captured and n.op != "output":
            return self._tensor(n, example)
        if n.op == "get_attr":
            return self._constant(getattr(self.module, n.target), example)
        if n.op == "output":
            return self.map_nodes_to_values(n.args[0], n)
        if not isinstance(example, torch.Tensor) or example.dim() > 0 or n.op != "call_function":
            raise _Unknown(f"{n.target}")
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return self._call(n.target, args, kwargs, example.dtype)

    def _tensor(self, n, example):
        if not any(user in self.inside or user.op == "output" for user in n.users):
            return None
        if not isinstance(example, torch.Tensor) or not all(isinstance(size, int) and size for size in example.shape):
            raise _Unknown(f"{n.name}")
        if example.dtype in types.SMALL or example.device.type == "cpu":
            raise _Unknown(f"{example.dtype} of {example.device}")
        self.tensors.append(n)
        return _Captured(f"bias.x{len(self.tensors) - 1}", example)

    def _constant(self, tensor, example):
        held = tensor if getattr(tensor, "constant", None) is None else tensor.constant
        if example.dim() > 0 or type(held) is not torch.Tensor:
            raise _Unknown("a tensor")
        return _value(OclOverrides.constant(held.item(), example.dtype), example.dtype)

    def _element(self, tensor, indices):
        example = tensor.example
        if len(indices) != example.dim() or any(not isinstance(index, Value) for index in indices):
            raise _Unknown("index")
        kind = "int" if example.numel() < 2**31 else "long"
        places, step = [], 1
        for index, size in zip(reversed(indices), reversed(example.shape)):
            if types.is_real(index.dtype) or index.dtype == torch.bool:
                raise _Unknown("index")
            wide = "long" if index.dtype.itemsize > 4 else kind
            places.append(f"({kind})PLACE_IN({wide}, {index}, {size}) * {step}")
            step *= size
        element = f"{tensor.name}[{' + '.join(places) or '0'}]"
        return self._new(types.decode(example.dtype, element), example.dtype)

    def _loaded(self, value):
        return self._element(value, []) if isinstance(value, _Captured) else value

    def _call(self, target, args, kwargs, dtype):
        if target is _aten.index.Tensor and isinstance(args[0], _Captured):
            return self._element(args[0], args[1])
        args = [self._loaded(value) for value in args]
        if target in (_aten._to_copy.default, torch.ops.prims.convert_element_type.default):
            return self._as(args[0], dtype)
        if target is _aten.div.Tensor_mode:
            return self._operation(_ROUNDED[kwargs["rounding_mode"]], [self._as(x, dtype) for x in args], dtype)
        if getattr(target, "overloadpacket", None) in _SAME:
            return self._as(args[0], dtype)
        if target in (_aten.full.default, _aten.full_like.default, _aten.scalar_tensor.default):
            return self._as(args[0 if target is _aten.scalar_tensor.default else 1], dtype)
        if kwargs:
            raise _Unknown(f"{target} with {list(kwargs)}")
        if target in _ARITHMETIC:
            return self._operation(_ARITHMETIC[target], [self._as(x, dtype) for x in args], dtype)
        if target in _COMPARISONS:
            joint = torch.result_type(*(torch.zeros((), dtype=x.dtype) if isinstance(x, Value) else x for x in args))
            return self._operation(_COMPARISONS[target], [self._as(x, joint) for x in args], dtype)
        if target in _LOGICAL:
            return self._operation(_LOGICAL[target], [self._as(x, torch.bool) for x in args], dtype)
        if target is _aten.where.self:
            return self._operation(
                "where", [self._as(args[0], torch.bool), *(self._as(x, dtype) for x in args[1:])], dtype
            )
        if target is _aten.clamp.default:
            value = self._as(args[0], dtype)
            for name, bound in zip(("maximum", "minimum"), args[1:]):
                value = value if bound is None else self._operation(name, [value, self._as(bound, dtype)], dtype)
            return value
        if target is _aten.sigmoid.default:
            return self._new(f"1 / (1 + exp(-{self._as(args[0], dtype)}))", dtype)
        if target is _aten.reciprocal.default:
            return self._new(f"1 / {self._as(args[0], dtype)}", dtype)
        raise _Unknown(f"{target}")


def write(graph_module):
    """The bodies of functions (AttentionFunction) for a graph of (score, batch, head, query, key, tensors...) -> (what
    is added or another score, or None; whether the key takes part, or None; the slope, or None), and the nodes of the
    tensors that these read, which do not depend on the first five. None where an operator has no text here."""
    index = [_value(name, torch.int32) for name in ("batch", "head", "query", "key")]
    writer = _Writer(graph_module, [_value("score", torch.float32), *index])
    try:
        with unset_fake_temporarily():
            added, part, slope = (writer._loaded(result) for result in writer.run())
            added = writer._as(0.0 if added is None else added, torch.float32)
            part = None if part is None else writer._as(part, torch.bool)
            slope = None if slope is None else writer._as(slope, torch.float32)
    except (_Unknown, NotImplementedError, KeyError, AttributeError, RuntimeError):
        return None
    lines = " ".join(writer.lines)
    text = f"{lines} return {added};" if part is None else f"{lines} return {part} ? {added} : -INFINITY;"
    return text, "" if slope is None else f"{lines} return {slope};", writer.tensors
