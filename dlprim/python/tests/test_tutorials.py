# SPDX-License-Identifier: MIT
"""The code of the tutorials runs: the C++ programs against an installed package, as a project of its own;
Python's too."""

import re
import sys

import pytest
from building import ROOT, build_folder, run, write_classifier


def blocks(document, language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / document).read_text(), re.M | re.S)


@pytest.fixture(autouse=True)
def all_devices(monkeypatch):
    """The tutorials name device 0:0, which a choice of others would hide."""
    monkeypatch.delenv("OCL_VISIBLE_DEVICES", raising=False)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The tutorial's programs, built by a project that has only the installed package."""
    folder = tmp_path_factory.mktemp("tutorial")
    run("cmake", "--install", build_folder(), "--component", "dlprim", "--prefix", folder / "prefix")
    (folder / "CMakeLists.txt").write_text(blocks("tutorial_cpp.md", "cmake")[0])
    for program in blocks("tutorial_cpp.md", "cpp"):
        (folder / re.match(r"// (\S+\.cpp)", program)[1]).write_text(program)
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", folder=folder)
    run("cmake", "--build", "build", "-j2", folder=folder)
    write_classifier(folder / "resnet18.onnx")
    return folder


def test_predict(programs):
    assert run(programs / "build/predict", folder=programs) == "class 7 of [1, 1000]\n"


def test_train(programs):
    assert run(programs / "build/train", folder=programs).endswith("learned\n")
    assert (programs / "halves.safetensors").exists()


def test_distances(programs):
    assert run(programs / "build/distances", folder=programs) == "0 25 2 \n"


def test_errors(programs):
    first, second = run(programs / "build/errors", folder=programs).splitlines()[:2]
    assert "no_such_file.onnx" in first and "no such device" in second


def test_python(tmp_path):
    """The blocks one after the other are one program."""
    write_classifier(tmp_path / "resnet18.onnx")
    program = "\n".join(blocks("tutorial_python.md", "python"))
    path = f"import sys; sys.path.insert(0, {str(ROOT / 'dlprim/python')!r})\n"
    (tmp_path / "tutorial.py").write_text(path + program)
    output = run(sys.executable, "tutorial.py", folder=tmp_path)
    assert "accuracy" in output and "input [1, 3, 224, 224] 7" in output
