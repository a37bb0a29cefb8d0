# SPDX-License-Identifier: MIT
"""Finding drivers and the library, without any of them being loaded."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

FILE = pathlib.Path(__file__).parents[1] / "python/pytorch_ocl/_runtime.py"


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The module with every folder it looks at inside tmp_path, and a working loader."""
    spec = importlib.util.spec_from_file_location("runtime_under_test", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in (*module.USER_CHOICES, "DLPRIM_OPENCL_FALLBACK_LIBRARY"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is undone, too
        monkeypatch.delenv(name)
    monkeypatch.setenv("DLPRIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "SYSTEM_VENDORS", tmp_path / "vendors")
    monkeypatch.setattr(module, "SYSTEM_LIBRARIES", [tmp_path / "system"])
    monkeypatch.setattr(module, "environments", lambda: [tmp_path / "env"])
    monkeypatch.setattr(module, "can_load", lambda library: True)
    monkeypatch.setattr(module.sys, "platform", "linux")
    return module


def make(folder, *names, text=""):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(text)


def vendors():
    """{file: contents} of the folder that the loader is pointed at; None when it is left alone."""
    folder = os.environ.get("OCL_ICD_VENDORS")
    return folder and {p.name: p.read_text() for p in pathlib.Path(folder).iterdir()}


def test_nothing_installed_changes_nothing(runtime):
    runtime.prepare()
    assert vendors() is None


def test_intel_runtime_is_added_to_the_systems_drivers(runtime, tmp_path):
    make(tmp_path / "env", "libintelocl.so", *runtime.INTEL_LIBRARIES)
    make(tmp_path / "vendors", "pocl.icd", text="libpocl.so.2\n")
    runtime.prepare()
    assert vendors() == {"pocl.icd": "libpocl.so.2\n", "intel_pip.icd": f"{tmp_path}/env/libintelocl.so\n"}


def test_nvidia_driver_without_an_entry_is_added(runtime, tmp_path):
    make(tmp_path / "system", "libnvidia-opencl.so.1")
    runtime.prepare()
    assert vendors() == {"nvidia.icd": f"{tmp_path}/system/libnvidia-opencl.so.1\n"}


def test_listed_drivers_are_not_added_twice(runtime, tmp_path):
    make(tmp_path / "env", "libintelocl.so", *runtime.INTEL_LIBRARIES)
    make(tmp_path / "system", "libnvidia-opencl.so.1")
    make(tmp_path / "vendors", "a.icd", text="/opt/intel/libintelocl.so")
    make(tmp_path / "vendors", "b.icd", text="libnvidia-opencl.so.1")
    runtime.prepare()
    assert vendors() is None


@pytest.mark.parametrize("name", ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"])
def test_the_users_choice_wins(runtime, tmp_path, monkeypatch, name):
    make(tmp_path / "env", "libintelocl.so", *runtime.INTEL_LIBRARIES)
    monkeypatch.setenv(name, "/chosen")
    runtime.prepare()
    assert os.environ[name] == "/chosen"
    assert os.environ.get("OCL_ICD_VENDORS", "/chosen") == "/chosen"


def test_incomplete_intel_runtime_is_reported(runtime, tmp_path):
    make(tmp_path / "env", "libintelocl.so")
    with pytest.warns(UserWarning, match="intel-cmplr-lib-rt"):
        runtime.prepare()
    assert vendors() is None


def test_damaged_entries_are_repaired(runtime, tmp_path, monkeypatch):
    make(tmp_path / "system", "libnvidia-opencl.so.1")
    runtime.prepare()
    expected, folder = vendors(), pathlib.Path(os.environ["OCL_ICD_VENDORS"])
    (folder / "nvidia.icd").write_text("")
    monkeypatch.delenv("OCL_ICD_VENDORS")
    runtime.prepare()
    assert vendors() == expected and os.environ["OCL_ICD_VENDORS"] == str(folder)


def test_cache_folder_that_cannot_be_written(runtime, tmp_path, monkeypatch):
    make(tmp_path / "system", "libnvidia-opencl.so.1")
    make(tmp_path, "file")
    monkeypatch.setenv("DLPRIM_CACHE_DIR", str(tmp_path / "file"))
    runtime.prepare()
    assert list(vendors()) == ["nvidia.icd"]


def test_loader_of_the_environment_is_offered_when_the_system_has_none(runtime, tmp_path, monkeypatch):
    make(tmp_path / "env", runtime.LOADER)
    monkeypatch.setattr(runtime, "can_load", lambda library: False)
    runtime.prepare()
    assert os.environ["DLPRIM_OPENCL_FALLBACK_LIBRARY"] == str(tmp_path / "env" / runtime.LOADER)


def test_other_systems_are_left_alone(runtime, tmp_path, monkeypatch):
    make(tmp_path / "system", "libnvidia-opencl.so.1")
    monkeypatch.setattr(runtime.sys, "platform", "win32")
    runtime.prepare()
    assert vendors() is None


def test_library_of_another_torch_is_refused(runtime):
    with pytest.raises(ImportError, match="not built for torch 1.2.3"):
        runtime.library_path("1.2.3+cpu")


def test_refusal_names_the_versions_that_have_libraries(runtime, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "__file__", str(tmp_path / "_runtime.py"))
    with pytest.raises(ImportError, match=r"has no library\. Install pytorch_ocl from its source"):
        runtime.library_path("2.15.0")
    stems = [f"libpytorch_ocl_torch2.{minor}" for minor in (14, 9, 11)]
    make(tmp_path / "lib", *(f"{stem}.{ending}" for stem in stems for ending in ("so", "json")))
    assert runtime.library_path("2.11.1+cpu") == str(tmp_path / "lib" / f"{stems[2]}.so")
    with pytest.raises(ImportError, match=r"libraries for torch 2\.9, 2\.11, 2\.14\. Install one of these versions"):
        runtime.library_path("2.15.0")


def run_in_new_process(code, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_", "OPENCL_", "DLPRIM_OPENCL"))}
    environment = {**clean, **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("modules", ["pytorch_ocl", "torch, pytorch_ocl", "pytorch_ocl, torch"])
def test_any_order_of_imports_registers_the_device(modules):
    code = f"import {modules}, sys; print(sys.modules['torch'].ocl.device_count())"
    result = run_in_new_process(code)
    assert result.stdout.strip().isdigit(), result.stderr
