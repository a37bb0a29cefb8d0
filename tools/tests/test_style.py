# SPDX-License-Identifier: MIT
"""The formatters and linters find what they are for, and nothing in the project."""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import sources  # noqa: E402
import style  # noqa: E402
import tidy  # noqa: E402


@pytest.fixture
def repository(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in (".clang-format", "pyproject.toml"):
        (tmp_path / name).write_text((sources.ROOT / name).read_text())
    return tmp_path


@pytest.mark.parametrize(
    "name, bad, good",
    [
        ("a.hpp", "int  f ( ) ;\n", "int f();\n"),
        ("a.py", "x = [1,2]\n", "x = [1, 2]\n"),
        ("b.py", "import os\n\nx = 1\n", "x = 1\n"),
    ],
)
def test_style_is_checked_and_mended(repository, name, bad, good):
    file = repository / name
    file.write_text(bad)
    assert style.main(["--check"], repository) == 1 and file.read_text() == bad
    assert style.main([], repository) == 0 and file.read_text().lstrip() == good
    assert style.main(["--check"], repository) == 0


def test_what_cannot_be_mended_fails(repository):
    (repository / "a.py").write_text("def f():\n    return missing\n")
    assert style.main([], repository) == 1


def test_versions_are_those_of_the_project():
    assert list(style.other_versions("ruff==0.0.1 no_such_package==1"))[0].startswith("expected ruff 0.0.1, found ")
    assert "found none" in list(style.other_versions("no_such_package==1"))[0]


def test_the_project_is_formatted():
    assert style.main(["--check"]) == 0


def test_tidy_finds_a_bug(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "tracked_files", lambda: [pathlib.Path("a.cpp"), pathlib.Path("b.cpp")])
    (tmp_path / "a.cpp").write_text(
        "int f(int x) { return x == 1 || x == 1; }\nint g() { return sizeof(sizeof(int)); }\n"
    )
    (tmp_path / "b.cpp").write_text("int f() { return 1; }\n")
    (tmp_path / "compile_commands.json").write_text(
        "[%s]"
        % ",".join(
            f'{{"directory": "{tmp_path}", "file": "{name}.cpp", "command": "c++ -c {name}.cpp"}}' for name in "ab"
        )
    )
    assert tidy.main(["--build", str(tmp_path), str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "bugprone-sizeof-expression" in output and "2 files, 1 with findings" in output
    assert tidy.main(["--build", str(tmp_path), str(tmp_path / "b.cpp")]) == 0
    (tmp_path / "Unity").mkdir()
    unit = tmp_path / "Unity/unity_0_cxx.cxx"
    unit.write_text(f'/* generated */\n#include "{tmp_path}/a.cpp"\n#include "{tmp_path}/b.cpp"\n')
    (tmp_path / "compile_commands.json").write_text(
        f'[{{"directory": "{tmp_path}", "file": "{unit}", "command": "c++ -c {unit}"}}]'
    )
    assert tidy.main(["--build", str(tmp_path), str(tmp_path)]) == 1
    assert "2 files, 1 with findings" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="compiles no file there"):
        tidy.main(["--build", str(tmp_path), str(tmp_path / "c")])
    with pytest.raises(SystemExit, match="has no compile_commands.json"):
        tidy.main(["--build", str(tmp_path / "c")])
