# SPDX-License-Identifier: MIT
"""Networks exported by torch.onnx against ONNX Runtime: a small set, or with `pytest --all` every network
and operator set.

What the exporter itself cannot write is skipped with its words."""

import importlib.util

import numpy as np
import pytest

for needed in ("torch", "torchvision", "transformers", "onnxscript"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)
onnxruntime = pytest.importorskip("onnxruntime")

from exported import IMAGES, MORE_IMAGES, MORE_TEXT, OPSETS, TEXT, batch_of, export, network  # noqa: E402

import dlprim  # noqa: E402

DEFAULT = [
    ("squeezenet1_0", 9),
    ("regnet_y_400mf", 11),
    ("resnet18", 13),
    ("mobilenet_v2", 17),
    ("gpt2", 17),
    ("bert", 0),
    ("lstm", 0),
]
NAMES = [*IMAGES, *TEXT, *MORE_IMAGES, *MORE_TEXT]


def pytest_generate_tests(metafunc):
    every = [(name, opset) for name in NAMES for opset in OPSETS]
    cases = every if metafunc.config.getoption("--all") else DEFAULT
    metafunc.parametrize("name, opset", cases, ids=[f"{name}-{opset or 'newest'}" for name, opset in cases])


def test_agrees_with_onnx_runtime(name, opset):
    net, x = network(name)
    try:
        model = export(net, x, opset)
    except Exception as error:  # noqa: BLE001
        pytest.skip(f"torch.onnx cannot export it: {type(error).__name__}: {str(error).strip().splitlines()[0][:120]}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    try:
        expected = onnxruntime.InferenceSession(model, options)
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph as error:
        pytest.skip(f"the exported file breaks ONNX's rules: {error}")
    session = dlprim.InferenceSession(model)
    for count in (1, 8):
        data = batch_of(x, count)
        wanted, got = expected.run(None, {"x": data})[0], session.run(None, {"x": data})[0]
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        error = np.abs(got - wanted).max() / np.abs(wanted).max()
        assert error <= 1e-4
        print(f"{name} opset {opset} batch {count}: {error:.1e}")
