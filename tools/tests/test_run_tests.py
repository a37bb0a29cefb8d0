# SPDX-License-Identifier: MIT
"""Failures of every kind reach the counts."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import run_tests  # noqa: E402


@pytest.mark.parametrize(
    "output, expected",
    [
        ("3 passed in 1.20s\n", {"passed": 3}),
        (
            "FAILED a.py::test_9 passed\n1 failed, 2 passed, 4 skipped, 5 xfailed, 2 errors in 1s\n",
            {"passed": 7, "failed": 3, "skipped": 4},
        ),
        (
            "[  PASSED  ] 41 tests.\n[  SKIPPED ] 1 test, listed below:\n[  FAILED  ] 2 tests, listed below:\n"
            "[  FAILED  ] A.b\n 2 FAILED TESTS\n",
            {"passed": 41, "failed": 2, "skipped": 1},
        ),
        ("Segmentation fault\n", {}),
    ],
)
def test_counts(output, expected):
    assert run_tests.counts(output) == expected


@pytest.mark.parametrize(
    "script, expected",
    [
        ("echo 2 passed", {"passed": 2}),
        ("echo 2 passed; exit 3", {"passed": 2, "failed": 1}),
        ("echo 1 failed; exit 1", {"failed": 1}),
        ("kill -SEGV $$", {"failed": 1}),
        ("true", {"failed": 1}),
        ("echo race > $OCLGRIND_LOG; echo 1 passed", {"passed": 1, "failed": 1}),
    ],
)
def test_bad_ends_are_failures(script, expected):
    assert run_tests.run(run_tests.Step("step", ["bash", "-c", script], {}, 1)) == expected


@pytest.mark.parametrize("script, expected", [("echo fine", {"passed": 1}), ("exit 1", {"failed": 1})])
def test_programs_are_one_test(script, expected):
    assert +run_tests.run(run_tests.Step("step", ["bash", "-c", script], {}, 1, False)) == expected


def test_words_choose_steps():
    every, for_gpus = run_tests.choose([]), run_tests.choose(["gpu"])
    assert len({step.name for step in every + for_gpus}) == len(every) + len(for_gpus)
    assert all(step.name.startswith("gpu: ") for step in for_gpus)
    assert not any("OCL_VISIBLE_DEVICES" in step.environment for step in for_gpus), "left to the user"
    assert [step.name for step in run_tests.choose(["gpu", "op_db"])] == ["gpu: op_db"]
    assert [step.name for step in run_tests.choose(["op_db", "documents"])] == [
        "documents",
        "op_db on Intel",
        "op_db on PoCL",
    ]


def test_steps_name_what_is_there():
    """Files of the project in commands; those of a build are made by it."""
    for step in run_tests.choose([]) + run_tests.choose(["gpu"]):
        for word in step.command:
            if word.startswith(("tools/", "pytorch_ocl/", "dlprim/", "examples/")):
                assert (run_tests.ROOT / word).exists(), f"{step.name}: {word}"


def test_missing_programs_are_failures():
    step = run_tests.Step("step", ["/nonexistent/program"], {}, 1)
    assert run_tests.run(step) == {"failed": 1}
