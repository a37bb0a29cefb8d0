# SPDX-License-Identifier: MIT
"""Failures of every kind reach the counts; steps of one core run beside each other."""

import collections
import pathlib
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import run_tests  # noqa: E402
import steps  # noqa: E402


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
    assert run_tests.run(run_tests.Step("step", ["bash", "-c", script], {}, 1))[0] == expected


@pytest.mark.parametrize("script, expected", [("echo fine", {"passed": 1}), ("exit 1", {"failed": 1})])
def test_programs_are_one_test(script, expected):
    assert +run_tests.run(run_tests.Step("step", ["bash", "-c", script], {}, 1, False))[0] == expected


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def counted(totals):
    return {name: total for name, (total, _) in totals.items()}


def one_core(name, script):
    return run_tests.Step(name, ["bash", "-c", script], {}, 1, cores=1)


def test_steps_of_one_core_run_beside_each_other(tmp_path, capsys):
    """Each waits for what the other one writes, line by line; the output of each comes whole."""
    (tmp_path / "1").mkdir(), (tmp_path / "2").mkdir()
    script = (
        "for i in 1 2 3; do echo {0} line $i; touch {0}/$i; for n in $(seq 300); do test -e {1}/$i && break; "
        "sleep 0.1; done; test -e {1}/$i || exit 1; done; echo 1 passed"
    )
    pair = [one_core(name, f"cd {tmp_path}; " + script.format(*name)) for name in ("12", "21")]
    assert counted(run_tests.run_steps(pair, 2)) == {"12": {"passed": 1}, "21": {"passed": 1}}
    said = [line for line in capsys.readouterr().out.splitlines() if "line" in line]
    assert sorted([said[:3], said[3:]]) == [[f"{name} line {i}" for i in (1, 2, 3)] for name in "12"]


def test_other_steps_run_alone_and_all_are_counted(tmp_path):
    alone = f"cd {tmp_path}; test ! -e busy && touch busy && sleep 0.2 && rm busy && echo 1 passed"
    beside = f"cd {tmp_path}; test ! -e busy && echo 1 passed"
    several = [
        run_tests.Step("a", ["bash", "-c", alone], {}, 1),
        one_core("b", beside),
        run_tests.Step("c", ["bash", "-c", alone], {}, 1),
        one_core("d", beside),
    ]
    totals = run_tests.run_all(several)
    assert all(seconds >= 0.2 for (_, seconds), step in zip(totals.values(), several) if step.name in "ac")
    assert list(counted(totals).items()) == [(step.name, {"passed": 1}) for step in several]


def test_processes_of_a_sharded_program_run_all_parts(tmp_path):
    """As many at a time as there are processes, all or one of `part`; a part that fails is a failure, whatever comes
    after it."""
    program = f"bash -c 'echo $GTEST_SHARD_INDEX/$GTEST_TOTAL_SHARDS >> {tmp_path}/parts; test $GTEST_SHARD_INDEX != 1'"
    result = subprocess.run(steps.sharded(program), cwd=tmp_path)
    assert sorted((tmp_path / "parts").read_text().split()) == [f"{i}/8" for i in range(8)]
    assert result.returncode
    (tmp_path / "parts").unlink()
    assert not subprocess.run(steps.sharded(program, part=3), cwd=tmp_path).returncode
    assert sorted((tmp_path / "parts").read_text().split()) == sorted(f"{i}/24" for i in range(0, 24, 3))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("together", [False, True])
def test_an_interrupt_ends_all_steps(tmp_path, number, together):
    program = f"""
import pathlib, sys
sys.path.insert(0, {str(run_tests.ROOT / "tools")!r})
import run_tests
script = "echo $BASHPID > {tmp_path}/$0; (sleep 1000; echo never) | cat"
cores = {1 if together else None}
steps = [run_tests.Step(str(i), ["bash", "-c", script, str(i)], {{}}, 1, cores=cores) for i in range(2)]
run_tests.choose = lambda words: steps
run_tests.os.sched_getaffinity = lambda process: {{0, 1}}
sys.exit(run_tests.main())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = [tmp_path / str(i) for i in range(2 if together else 1)]
    until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in started))
    process.send_signal(number)
    assert process.wait(60)
    until(lambda: not any(pathlib.Path("/proc", file.read_text().strip()).exists() for file in started))


def test_words_choose_steps():
    every, for_gpus = run_tests.choose([]), run_tests.choose(["gpu"])
    assert len({step.name for step in every + for_gpus}) == len(every) + len(for_gpus)
    assert all(step.name.startswith("gpu: ") for step in for_gpus)
    assert not any("OCL_VISIBLE_DEVICES" in step.environment for step in for_gpus), "left to the user"
    assert [step.name for step in run_tests.choose(["gpu", "op_db"])] == ["gpu: op_db"]
    assert [step.name for step in run_tests.choose(["op_db", "documents"])] == [
        "documents",
        "op_db on Intel",
        "op_db on Intel, optimized",
        "op_db on PoCL",
        "op_db in the form for GPUs",
        "op_db on rusticl",
    ]
    ordinary, whole = run_tests.choose(["op_db"])[0], run_tests.choose(["whole", "op_db"])[0]
    assert ordinary.command == [*whole.command, "-m", "sampled"]


def test_kernels_are_built_quickly_where_other_steps_see_them_optimized():
    """dlprim's tests on Intel take all of it, without optimizing but as a whole; what lies above them optimizes."""
    quick, whole = run_tests.choose(["dlprim on intel"])[0], run_tests.choose(["whole", "dlprim on intel"])[0]
    assert quick.command == whole.command and "--gtest_filter" not in quick.command[-1]
    assert steps.QUICK.items() <= quick.environment.items() and not steps.QUICK.keys() & whole.environment.keys()
    others = ["networks on intel", "op_db on intel, optimized", "onnx conformance on intel", "python module"]
    for word in others + ["whole " + word for word in ("backend on intel", "op_db on intel")]:
        (step,) = run_tests.choose(["whole", word.removeprefix("whole ")] if word.startswith("whole ") else [word])
        assert not steps.QUICK.keys() & step.environment.keys(), step.name


def test_the_backend_tests_part_of_the_cases_of_tests_with_many():
    file = "pytorch_ocl/tests/test_sorting.py"

    def cases(*arguments):
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", file, *arguments]
        done = subprocess.run(command, cwd=run_tests.ROOT, capture_output=True, text=True, check=True)
        found = collections.defaultdict(list)
        for line in done.stdout.splitlines():
            if line.startswith(file):
                found[line.partition("[")[0]].append(line)
        return found

    every, third = cases(), cases("--every", "3")
    assert every.keys() == third.keys() and {len(each) > 4 for each in every.values()} == {True, False}
    for test, each in every.items():
        assert third[test] == (each[::3] if len(each) > 4 else each)


def test_steps_name_what_is_there():
    """Files of the project in commands; those of a build are made by it."""
    for step in run_tests.choose([]) + run_tests.choose(["whole"]) + run_tests.choose(["gpu"]):
        for word in step.command:
            if word.startswith(("tools/", "pytorch_ocl/", "dlprim/", "examples/")):
                assert (run_tests.ROOT / word).exists(), f"{step.name}: {word}"


def test_missing_programs_are_failures():
    step = run_tests.Step("step", ["/nonexistent/program"], {}, 1)
    assert run_tests.run(step)[0] == {"failed": 1}
