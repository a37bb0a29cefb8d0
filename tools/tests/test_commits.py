# SPDX-License-Identifier: MIT
"""Subjects of commits stay within 72 characters. Older ones, of which some are longer, are left out."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SINCE = "c247068"
LIMIT = 72


def too_long(subjects):
    return [subject for subject in subjects if len(subject) > LIMIT]


def test_the_check_finds_what_it_is_for():
    assert too_long(["x" * LIMIT, "y" * (LIMIT + 1)]) == ["y" * (LIMIT + 1)]


def test_subjects_are_short():
    command = ["git", "log", "--no-merges", "--format=%s", f"{SINCE}..HEAD"]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if log.returncode:
        pytest.skip("no history: " + log.stderr.strip())
    assert not too_long(log.stdout.splitlines())
