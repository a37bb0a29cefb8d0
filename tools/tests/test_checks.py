# SPDX-License-Identifier: MIT
"""The checks catch what they are for, and the project passes them."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import check_layers  # noqa: E402
import check_sizes  # noqa: E402


@pytest.mark.parametrize(
    "path, text, expected",
    [
        ("dlprim/runtime/a.cpp", "#include <dlprim/primitives/gemm.hpp>", "layer above"),
        ("dlprim/include/dlprim/primitives/a.hpp", '#include "../../../runtime/cpus.hpp"', "not installed"),
        ("dlprim/include/dlprim/runtime/a.hpp", '#include "cpus.hpp"', "not installed"),
        ("dlprim/include/dlprim/error.hpp", "#include <dlprim/primitives/gemm.hpp>", "layer above"),
        ("dlprim/include/dlprim/tuning/a.hpp", '#include "dlprim/primitives/table.hpp"', "layer above"),
        ("dlprim/primitives/a.cpp", '#include "../net/net.hpp"', "layer above"),
        ("dlprim/primitives/gemm/a.cpp", '#include "../../include/dlprim/net/net.hpp"', "layer above"),
        ("dlprim/tuning/a.cpp", '#include "../runtime/../primitives/select.hpp"', "layer above"),
        ("dlprim/primitives/a.cpp", "#include <ATen/Tensor.h>", "belongs to PyTorch"),
        ("dlprim/tests/a.cpp", "#  include <torch/library.h>", "belongs to PyTorch"),
        ("dlprim/primitives/a.cpp", '#include "net/net.hpp"', "layer above"),
        ("dlprim/net/a.cpp", '#include "../tools/model.hpp"', "layer above"),
        ("dlprim/primitives/a.cpp", "#include <dlprim/dlprim.hpp>", "layer above"),
        ("dlprim/primitives/a.cpp", '#include "../../pytorch_ocl/csrc/runtime/tensor.hpp"', "belongs to PyTorch"),
        ("pytorch_ocl/csrc/ops/a.cpp", '#include "../../../dlprim/primitives/select.hpp"', "no public header"),
        ("pytorch_ocl/csrc/ops/a.cpp", "#include <primitives/select.hpp>", "no public header"),
        ("dlprim/primitives/a.cpp", "#include HEADER", "expected #include"),
        ("dlprim/primitives/a.cpp", '#include \\\n "../net/net.hpp"', "layer above"),
        ("dlprim/primitives/a.cpp", '%:include "b.hpp"', "expected #include"),
        ("dlprim/primitives/a.cpp", '#include_next "b.hpp"', "expected #include"),
        ("dlprim/primitives/a.cpp", '#import "b.hpp"', "expected #include"),
        ("dlprim/primitives/a.cpp", '#include "/usr/include/b.hpp"', "expected #include"),
        ("dlprim/primitives/a.cpp", "int f() { return clFinish(0); }", "clFinish is used"),
        ("dlprim/primitives/a.cpp", "const auto f = &clFinish;", "clFinish is used"),
        ("dlprim/primitives/a.cpp", "void f(cl::CommandQueue& q) { q.finish(); }", "cl::CommandQueue is used"),
        ("pytorch_ocl/csrc/ops/a.cpp", "clSetKernelArg (k, 0, 4, p);", "clSetKernelArg is used"),
        ("pytorch_ocl/csrc/runtime/a.cpp", '#include "ops/pointwise.hpp"', "layer above"),
    ],
)
def test_layer_violations_are_found(path, text, expected):
    ((line, message),) = check_layers.violations(pathlib.Path(path), "\n" + text)
    assert line == 2 and expected in message


@pytest.mark.parametrize(
    "path, text",
    [
        ("dlprim/primitives/a.cpp", "#include <dlprim/runtime/launch.hpp>\n#include <dlprim/primitives/b.hpp>"),
        (
            "dlprim/primitives/a.cpp",
            '// clFinish(queue)\nconst char* text = "clFinish(queue)"; /* #include <ATen/x.h> */',
        ),
        ("dlprim/primitives/gemm/a.cpp", '#include "../b.hpp"\n#include "../../tuning/c.hpp"'),
        ("dlprim/runtime/a.cpp", "void f() { clFinish(0); }"),
        ("dlprim/tests/a.cpp", "#include <dlprim/primitives/b.hpp>\nvoid f() { clFinish(0); }"),
        (
            "pytorch_ocl/csrc/ops/a.cpp",
            '#include <ATen/Tensor.h>\n#include "runtime/stream.hpp"\nclamp(x); class Cl();',
        ),
        ("pytorch_ocl/csrc/ops/a.cpp", "#include <dlprim/primitives/gemm.hpp>\n#include <dlprim/net/net.hpp>"),
        ("examples/libtorch/main.cpp", "#include <torch/torch.h>"),
    ],
)
def test_sound_layers_pass(path, text):
    assert list(check_layers.violations(pathlib.Path(path), text)) == []


def test_a_link_counts_as_what_it_points_to(tmp_path):
    for folder in ("net", "primitives"):
        (tmp_path / "dlprim" / folder).mkdir(parents=True)
    (tmp_path / "dlprim/net/net.hpp").write_text("")
    (tmp_path / "dlprim/primitives/net.hpp").symlink_to("../net/net.hpp")
    path = pathlib.Path("dlprim/primitives/a.cpp")
    assert len(list(check_layers.violations(path, '#include "net.hpp"', tmp_path))) == 1


@pytest.mark.parametrize(
    "files, expected",
    [
        ({"a.cl": '#include "lib/b.clh"'}, "a.cl:1: lib/b.clh does not exist"),
        ({"gemm/a.clh": "", "conv/a.cl": '\n#include "gemm/a.clh"'}, "conv/a.cl:2: gemm/a.clh belongs to another"),
        (
            {"gemm/a.clh": "", "lib/a.clh": '#include "gemm/a.clh"', "a.cl": '#include "lib/a.clh"'},
            "lib/a.clh:1: gemm/",
        ),
        ({"a.clh": "", "b.cl": '#include "a.clh"'}, "b.cl:1: a.clh belongs to another"),
        ({"lib/a.clh": "void f() {}", "b.cl": '// #include "lib/a.clh"'}, "lib/a.clh:1: nothing includes"),
        ({"b.cl": '#define A "lib/a.clh"\n#include A'}, "b.cl:2: expected #include"),
        (
            {"a.cl": "__kernel void f(int x) {}", "b/a.cl": "__kernel LIMIT(64, 2)\nvoid f(int x) {}"},
            "b/a.cl:1: f is the name of a kernel of a.cl",
        ),
    ],
)
def test_violations_of_kernels_are_found(files, expected):
    ((path, line, message),) = check_layers.kernel_violations(files, lambda name: False)
    assert f"{path}:{line}: {message}".startswith(expected)


def test_sound_kernels_pass():
    files = {
        "lib/a.clh": "",
        "gemm/b.clh": '#include "lib/a.clh"',
        "gemm/c.cl": '#include "gemm/b.clh"\n__kernel void f(int x) {}\n__kernel void g(int x) {}',
        "lib/written.clh": "",
        "d.cl": "/* __kernel void f() {} */ void f();",
    }
    assert list(check_layers.kernel_violations(files, lambda name: name == "lib/written.clh")) == []


def body(lines):
    return "".join(f"  x += {n};\n" for n in range(lines - 2))


@pytest.mark.parametrize(
    "head",
    [
        "int f(int x) {",
        "void A::f() const noexcept {",
        "A::A(int x) : a{x}, b(x) {",
        "__kernel void f(__global int* x) {",
        "template <class T>\nauto f(T x) -> int {",
    ],
)
def test_functions_are_measured(head):
    text = f"namespace n {{\nstruct A {{ int x = 1; }};\n{head}\n{body(20)}}}\n}}\n"
    assert [length for _, length in check_sizes.c_functions(text)] == [20 + head.count("\n")]


def test_methods_are_measured_one_by_one():
    text = "class A {\n public:\n  int f() { return '}'; }  // {\n  int g() {\n    return 1;\n  }\n};\n"
    assert [length for _, length in check_sizes.c_functions(text)] == [1, 3]


def test_macros_and_tables_are_no_functions():
    text = "#define F(x) \\\n  void x() { \\\n  }\nconst int table[] = {\n" + "1,\n" * 100 + "};\n"
    assert list(check_sizes.c_functions(text)) == []


def test_python_functions_are_measured():
    text = "class A:\n    def f(self):\n        def g():\n            pass\n        return g\n"
    assert sorted(length for _, length in check_sizes.python_functions(text)) == [2, 4]


def repository(folder, **files):
    import subprocess

    subprocess.run(["git", "init", "-q", folder], check=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_large_files_and_functions_fail(tmp_path, capsys):
    root = repository(
        tmp_path,
        a__cpp="int x;\n" * 601,
        b__hpp=f"void f() {{\n{body(81)}}}\n",
        c__inc="ROW\n" * 900,
        d__cl=f"void f() {{\n{body(221)}}}\nvoid g() {{\n{body(199)}}}\n",
    )
    assert check_sizes.main(root) == 1
    output = capsys.readouterr().out
    assert "a.cpp: 601 lines" in output and "b.hpp:1: a function of 81 lines" in output and "c.inc" not in output
    assert "d.cl:1: a function of 221 lines" in output and output.count("d.cl") == 1


def test_the_project_keeps_its_layers():
    assert check_layers.main() == 0


def test_the_project_keeps_its_sizes():
    assert check_sizes.main() == 0
