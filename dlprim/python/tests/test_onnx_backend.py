# SPDX-License-Identifier: MIT
"""The conformance tests of the `onnx` package.

expectations.txt lists what does not simply pass, with the reason. What is listed as refused must be refused with
NotSupportedError; everything else must give the right numbers, twice, as the second run reuses what was computed for
the shapes."""

import pathlib
import re

import numpy as np
import onnx
import pytest
from dlprim.backend import Backend
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import dlprim

EXPECTATIONS = [
    line.split(maxsplit=2)
    for line in (pathlib.Path(__file__).parent / "expectations.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]
CASES = {f"{kind}-{case.name}": case for kind in KINDS for case in load_model_tests(kind=kind)}


def expectation(name):
    """refused, random, rounding or pass."""
    return next((kind for pattern, kind, _ in EXPECTATIONS if re.fullmatch(pattern, name)), "pass")


def read_value(path, kind):
    data = pathlib.Path(path).read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def as_array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def model_and_data(case):
    """The model and a list of (inputs, outputs)."""
    if case.model is not None:
        return case.model, [tuple([as_array(value) for value in values] for values in pair) for pair in case.data_sets]
    folder = pathlib.Path(case.model_dir)
    model = onnx.load(str(folder / "model.onnx"))
    data = []
    for path in sorted(folder.glob("test_data_set_*")):

        def values(what, infos, path=path):
            count = len(list(path.glob(f"{what}_*.pb")))
            return [read_value(path / f"{what}_{i}.pb", infos[i].type) for i in range(count)]

        data.append((values("input", model.graph.input), values("output", model.graph.output)))
    for path in sorted(folder.glob("test_data_*.npz")):
        arrays = np.load(path, encoding="bytes")
        data.append((list(arrays["inputs"]), list(arrays["outputs"])))
    return model, data


def flat(values):
    """The arrays of nested sequences, and how they nest."""
    if not isinstance(values, (list, tuple)):
        return [values], None
    parts = [flat(value) for value in values]
    return [array for arrays, _ in parts for array in arrays], [structure for _, structure in parts]


def compare(case, kind, expected, got):
    (expected, wanted_structure), (got, structure) = flat(list(expected)), flat(list(got))
    assert structure == wanted_structure
    if kind == "random":
        assert [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in expected]
        return
    rtol, atol = (2e-3, 1e-6) if kind == "rounding" else (case.rtol, case.atol)
    Runner.assert_similar_outputs(expected, got, rtol=rtol, atol=atol, model_dir=case.model_dir)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case, kind = CASES[name], expectation(name)
    model, data = model_and_data(case)
    if kind == "refused":
        with pytest.raises(dlprim.NotSupportedError):
            Backend.prepare(model).run(data[0][0] if data else [])
        return
    ready = Backend.prepare(model)
    for _ in range(2):
        for inputs, outputs in data:
            compare(case, kind, outputs, ready.run(inputs))


def test_light_models():
    """The nets that ship with the package, on the inputs and for the results that its own runner uses."""
    folder = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
    for path in sorted(folder.glob("light_*.onnx")):
        model = onnx.load(str(path))
        weights = {tensor.name for tensor in model.graph.initializer}
        shapes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in model.graph.input
            if value.name not in weights
        }
        inputs = {
            name: np.linspace(0, 1, int(np.prod(shape)), False, dtype=np.float32).reshape(shape)
            for name, shape in shapes.items()
        }
        expected = numpy_helper.to_array(
            onnx.TensorProto.FromString(path.with_name(path.stem + "_output_0.pb").read_bytes())
        )
        got = Backend.prepare(model).run(inputs)[0]
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5, err_msg=path.stem)


def test_expectations_name_cases():
    unused = [pattern for pattern, _, _ in EXPECTATIONS if not any(re.fullmatch(pattern, name) for name in CASES)]
    assert not unused
