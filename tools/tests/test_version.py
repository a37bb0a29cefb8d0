# SPDX-License-Identifier: MIT
"""The version that CMake finds (cmake/version.cmake) is that of the last git tag."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def shown_by(script):
    return subprocess.run(["cmake", "-P", script], check=True, capture_output=True, text=True).stderr.strip()


@pytest.mark.parametrize(
    ("tags", "version"), [([], "0.1.0"), (["v1.2.3"], "1.2.3"), (["v1.2.3", "v1.3"], "1.3"), (["nightly"], "0.1.0")]
)
def test_version_of_the_last_tag(tmp_path, tags, version):
    script = tmp_path / "cmake/show.cmake"
    script.parent.mkdir()
    shutil.copy(ROOT / "cmake/version.cmake", script.parent)
    script.write_text('include(${CMAKE_CURRENT_LIST_DIR}/version.cmake)\nmessage("version ${version}")\n')

    def git(*arguments):
        person = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *person, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for tag in tags:
        git("commit", "-q", "--allow-empty", "-m", tag)
        git("tag", tag)
    assert shown_by(script) == f"version {version}"
    # Files without git in a folder of another repository.
    shutil.copytree(script.parent, tmp_path / "files/cmake")
    assert shown_by(tmp_path / "files/cmake/show.cmake") == "version 0.1.0"
