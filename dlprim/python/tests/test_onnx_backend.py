# SPDX-License-Identifier: MIT
"""The conformance tests of the `onnx` package.

expectations.txt lists what is refused, with the reason. What is listed there must be refused with NotSupportedError, and
everything else must give the right numbers, twice, as the second run reuses what was computed for the shapes."""
import pathlib
import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import dlprim
from dlprim.backend import Backend

EXPECTATIONS = [line.split(maxsplit=1) for line in
                (pathlib.Path(__file__).parent / "expectations.txt").read_text().splitlines()
                if line and not line.startswith("#")]
KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]
CASES = {f"{kind}-{case.name}": case for kind in KINDS for case in load_model_tests(kind=kind)}


def reason_to_refuse(name):
    return next((reason for pattern, reason in EXPECTATIONS if re.fullmatch(pattern, name)), None)


def read_value(path, kind):
    data = pathlib.Path(path).read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def model_and_data(case):
    """The model and a list of (inputs, outputs)."""
    if case.model is not None:
        return case.model, case.data_sets
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    reason = reason_to_refuse(name)
    model, data = model_and_data(case)
    if reason:
        with pytest.raises(dlprim.NotSupportedError):
            Backend.prepare(model).run(data[0][0] if data else [])
        return
    ready = Backend.prepare(model)
    for _ in range(2):
        for inputs, outputs in data:
            Runner.assert_similar_outputs(outputs, ready.run(inputs), rtol=case.rtol, atol=case.atol,
                                          model_dir=case.model_dir)


def test_expectations_name_cases():
    unused = [pattern for pattern, _ in EXPECTATIONS if not any(re.fullmatch(pattern, name) for name in CASES)]
    assert not unused
