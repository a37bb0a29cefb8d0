# SPDX-License-Identifier: MIT
"""tools/wheels.py: names, metadata and records of the wheel that serves several versions of PyTorch."""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import wheels  # noqa: E402


def test_requirement_names_exactly_the_minors_that_have_libraries():
    assert wheels.torch_requirement(["2.13"]) == "torch>=2.13,<2.14"
    assert wheels.torch_requirement(["2.9", "2.11", "2.10"]) == "torch>=2.9,<2.12"
    assert wheels.torch_requirement(["2.14", "2.11"]) == "torch>=2.11,<2.15,!=2.12.*,!=2.13.*"
    with pytest.raises(ValueError, match="one major version"):
        wheels.torch_requirement(["2.14", "3.0"])


def test_serves_the_last_release_of_each_minor():
    listing = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1, 2.14.0, 2.13.0+cpu, 2.13.0, 2.11.0, 2.10.0, 1.13.1\n"
    assert wheels.newest_of_each_minor(listing, (2, 11)) == ["2.11.0", "2.13.0", "2.14.1", "2.15.0"]
    assert wheels.oldest_minor() == (2, 11)
    with pytest.raises(SystemExit, match="lists no version"):
        wheels.newest_of_each_minor("ERROR: no matching distribution", (2, 11))


def test_unpacks_what_a_build_needs_and_no_more(tmp_path):
    wanted = ["torch/include/a.h", "torch/share/x", "torch/version.py", "torch/lib/libc10.so",
              "torch/lib/libtorch_cpu.so", "torchgen/model.py"]  # fmt: skip
    others = ["torch/__init__.py", "torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "functorch/x.py"]
    with zipfile.ZipFile(tmp_path / "torch.whl", "w") as archive:
        for name in wanted + others:
            archive.writestr(name, name)
    wheels.unpack(tmp_path / "torch.whl", tmp_path / "torch-1")
    found = {p.relative_to(tmp_path / "torch-1").as_posix() for p in (tmp_path / "torch-1").rglob("*") if p.is_file()}
    assert found == set(wanted)


def test_metadata_and_record(tmp_path):
    info = tmp_path / "wheel/pytorch_ocl-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Name: pytorch_ocl\nRequires-Dist: torch>=2.11\nRequires-Dist: numpy; extra == 'x'\n"
    )
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheels.set_metadata(info, ["2.12", "2.11"], "linux_x86_64")
    assert "Requires-Dist: torch>=2.11,<2.13\nRequires-Dist: numpy" in (info / "METADATA").read_text()
    assert (info / "WHEEL").read_text() == "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
    wheel = wheels.pack(tmp_path / "wheel", info, tmp_path / "out", "linux_x86_64")
    assert wheel.name == "pytorch_ocl-1.2-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        rows = [line.split(",") for line in archive.read(f"{info.name}/RECORD").decode().split()]
        assert {row[0] for row in rows} == set(archive.namelist())
        for name, digest, size in rows:
            data = archive.read(name)
            if digest:
                value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                assert (digest, int(size)) == (f"sha256={value}", len(data))


def test_finds_the_list_where_the_library_is_installed():
    """Under the name that pytorch_ocl/CMakeLists.txt gives it."""
    cmake = (wheels.ROOT / "pytorch_ocl/CMakeLists.txt").read_text()
    name = re.search(r"install\(FILES \$\{OCL_OPERATORS_JSON\}.* RENAME (\S+)", cmake).group(1)
    library = pathlib.Path("lib/libpytorch_ocl_torch2.13.so")
    assert wheels.list_beside(library) == library.with_name(name.replace("${TORCH_VERSION}", "2.13"))


def test_refuses_what_is_no_library_of_the_backend(tmp_path):
    (tmp_path / "libother.so").touch()
    with pytest.raises(SystemExit, match="is not a library"):
        wheels.stage_library(tmp_path / "libother.so", tmp_path / "out")
    library = tmp_path / "libpytorch_ocl_torch2.13.so"
    library.touch()
    with pytest.raises(SystemExit, match="no list of operators"):
        wheels.stage_library(library, tmp_path / "out")
