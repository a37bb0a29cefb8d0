# SPDX-License-Identifier: MIT
"""tools/dlprim_wheels.py: sources are those expected, or none, and a build that fails says all that it printed."""

import hashlib
import io
import pathlib
import sys
import tarfile
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import dlprim_wheels  # noqa: E402


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A small archive in place of protobuf's."""
    path = tmp_path / "sources.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo("protobuf-1/CMakeLists.txt")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"text"))
    monkeypatch.setattr(dlprim_wheels, "PROTOBUF", path.as_uri())
    monkeypatch.setattr(dlprim_wheels, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_sources_are_complete_and_loaded_once(archive, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    folder = dlprim_wheels.protobuf_sources(cache)
    assert (folder / "CMakeLists.txt").read_text() == "text" and list(cache.iterdir()) == [folder]
    archive.unlink()
    assert dlprim_wheels.protobuf_sources(cache) == folder


def test_other_sources_are_refused(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(dlprim_wheels, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="not the archive that is expected"):
        dlprim_wheels.protobuf_sources(tmp_path)
    assert not (tmp_path / "protobuf").exists()


def test_progress_and_failures(capsys):
    program = "import sys; print('one'); print('x [1/2] Building a.cpp'); sys.exit(%d)"
    dlprim_wheels.call_with_progress(sys.executable, "-c", program % 0)
    assert capsys.readouterr().out == "[1/2] Building a.cpp\n"
    with pytest.raises(SystemExit, match=r"(?s)^one.*Building.*failed with 3"):
        dlprim_wheels.call_with_progress(sys.executable, "-c", program % 3)


def test_the_program_is_taken_from_the_wheel(tmp_path):
    wheel = tmp_path / "dlprim-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dlprim/dlprim", "#!/bin/sh\necho it runs\n")
    program = dlprim_wheels.extract_program(wheel, tmp_path)
    assert program.name == "dlprim-0.1.0-x86_64"
    assert dlprim_wheels.call(program) == "it runs\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dlprim/__init__.py", "")
    with pytest.raises(SystemExit, match="has no program: are CLI11 and stb"):
        dlprim_wheels.extract_program(wheel, tmp_path)
