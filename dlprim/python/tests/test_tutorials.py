# SPDX-License-Identifier: MIT
"""The code of the tutorials runs: the C++ programs against an installed package, as a project of its own."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[3]


def blocks(document, language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / document).read_text(), re.M | re.S)


def build_folder():
    """Where this source tree was built with networks: DLPRIM_BUILD, or the folder of `make test` or of the documents."""
    names = [os.environ["DLPRIM_BUILD"]] if "DLPRIM_BUILD" in os.environ else ["build/make", "build-net", "build"]
    for folder in (ROOT / name for name in names):
        cache = folder / "CMakeCache.txt"
        if cache.exists() and re.search(r"^DLPRIM_NET:BOOL=ON", cache.read_text(), re.M):
            return folder
    raise FileNotFoundError(f"none of {names} has a build with networks: set DLPRIM_BUILD")


def write_classifier(path):
    """A small network with the inputs and outputs of resnet18.onnx, in which class 7 always wins."""
    weights = {"w": np.full((4, 3, 7, 7), 0.01, np.float32), "v": np.zeros((4, 1000), np.float32)}
    weights["v"][:, 7] = 1
    nodes = [helper.make_node("Conv", ["input", "w"], ["c"], strides=[4, 4]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("MatMul", ["f", "v"], ["scores"])]
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("input", floats, ["N", 3, 224, 224])],
                              [helper.make_tensor_value_info("scores", floats, ["N", 1000])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    fixed = onnx.ModelProto.FromString(model.SerializeToString())
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(fixed, str(path))


def run(*command, folder):
    result = subprocess.run([str(word) for word in command], cwd=folder, text=True, capture_output=True)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The tutorial's programs, built by a project that has only the installed package."""
    folder = tmp_path_factory.mktemp("tutorial")
    run("cmake", "--install", build_folder(), "--component", "dlprim", "--prefix", folder / "prefix", folder=folder)
    (folder / "CMakeLists.txt").write_text(blocks("tutorial_cpp.md", "cmake")[0])
    for program in blocks("tutorial_cpp.md", "cpp"):
        (folder / re.match(r"// (\S+\.cpp)", program)[1]).write_text(program)
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", folder=folder)
    run("cmake", "--build", "build", "-j2", folder=folder)
    write_classifier(folder / "resnet18.onnx")
    return folder


def test_predict(programs):
    assert run(programs / "build/predict", folder=programs) == "class 7 of [1, 1000]\n"


def test_errors(programs):
    first, second = run(programs / "build/errors", folder=programs).splitlines()[:2]
    assert "no_such_file.onnx" in first and "no such device" in second
