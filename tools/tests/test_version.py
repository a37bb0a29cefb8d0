# SPDX-License-Identifier: MIT
"""The version that CMake finds (cmake/version.cmake) is that of the last git tag."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("tags", "version"), [([], "0.1.0"), (["v1.2.3"], "1.2.3"), (["v1.2.3", "v1.3"], "1.3"), (["nightly"], "0.1.0")]
)
def test_version_of_the_last_tag(tmp_path, tags, version):
    shutil.copy(ROOT / "cmake/version.cmake", tmp_path)
    script = tmp_path / "show.cmake"
    script.write_text('include(${CMAKE_CURRENT_LIST_DIR}/version.cmake)\nmessage("version ${version}")\n')

    def git(*arguments):
        person = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *person, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for tag in tags:
        git("commit", "-q", "--allow-empty", "-m", tag)
        git("tag", tag)
    shown = subprocess.run(["cmake", "-P", script], check=True, capture_output=True, text=True)
    assert shown.stderr.strip() == f"version {version}"
