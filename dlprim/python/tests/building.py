# SPDX-License-Identifier: MIT
"""What the tests of programs share: where they were built, running them, small networks."""

import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[3]


def build_folder():
    """Where this source tree was built with networks: DLPRIM_BUILD, or the folder of `make test` or the documents."""
    names = [os.environ["DLPRIM_BUILD"]] if "DLPRIM_BUILD" in os.environ else ["build/make", "build-net", "build"]
    for folder in (ROOT / name for name in names):
        cache = folder / "CMakeCache.txt"
        if cache.exists() and re.search(r"^DLPRIM_NET:BOOL=ON", cache.read_text(), re.M):
            return folder
    raise FileNotFoundError(f"none of {names} has a build with networks: set DLPRIM_BUILD")


def run(*command, folder=ROOT, code=0):
    """Output and messages of a program that must end with this exit code."""
    result = subprocess.run([str(word) for word in command], cwd=folder, text=True, capture_output=True)
    assert result.returncode == code, f"{command} ended with {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def dlprim(*arguments, code=0, folder=ROOT):
    """The program `dlprim`."""
    return run(build_folder() / "dlprim/tools/dlprim", *arguments, code=code, folder=folder)


def write_classifier(path, size=224, batch=1, best=7):
    """A small network with the inputs and outputs of resnet18.onnx, in which one class always wins."""
    weights = {
        "w": np.full((4, 3, 7, 7), 0.01, np.float32),
        "b": np.full(4, 1, np.float32),
        "v": np.zeros((4, 1000), np.float32),
    }
    weights["v"][:, best] = 1
    nodes = [
        helper.make_node("Conv", ["input", "w", "b"], ["c"], name="first", strides=[4, 4]),
        helper.make_node("Sigmoid", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["scores"]),
    ]
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("input", floats, [batch, 3, size, size])],
        [helper.make_tensor_value_info("scores", floats, [batch, 1000])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path
