# SPDX-License-Identifier: MIT
"""tools/upstream.py: what counts as a result of PyTorch's own tests, and that every expected failure has a reason."""

import collections
import json
import pathlib
import re
import sys
import time

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import upstream  # noqa: E402

Options = collections.namedtuple("Options", "output most limit deadline")
TESTS = """
import unittest

class TestAPRIVATEUSE1(unittest.TestCase):
    def test_passes_ocl(self): pass
    def test_fails_here_ocl(self): self.fail("here")
    def test_fails_everywhere_ocl(self): self.fail("here, too")
    def test_known_ocl_float32(self): self.fail("known")
    def test_stops_ocl(self):
        import os
        os._exit(3)
    def test_of_no_device(self): pass

class TestACPU(unittest.TestCase):
    def test_passes_cpu(self): pass
    def test_fails_here_cpu(self): pass
    def test_fails_everywhere_cpu(self): self.fail("everywhere")
    def test_known_cpu_float32(self): pass
    def test_stops_cpu(self): pass

class TestOfNoDevice(unittest.TestCase):
    def test_passes(self): raise AssertionError
"""


def options(folder, most=0):
    return Options(folder, most, 60, time.monotonic() + 300)


def test_failures_of_the_device_alone_count(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    row, unexpected = upstream.judged(options(tmp_path), tmp_path, "test_it", "0/1", [r"TestA\.test_known_DEVICE"])
    assert row == {"passed": 2, "for reasons": 1, "failed": 2}
    assert [line.split(":")[0] for line in unexpected] == ["TestA.test_fails_here_DEVICE", "TestA.test_stops_DEVICE"]


def test_a_file_without_tests_is_a_failure(tmp_path):
    (tmp_path / "test_it.py").write_text("import no_such_module")
    row, unexpected = upstream.judged(options(tmp_path), tmp_path, "test_it", "0/1", [])
    assert row["failed"] == 1
    assert "no test ran" in unexpected[0]


def test_a_sample_is_the_same_every_time(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    samples = [set(upstream.run(options(tmp_path, 3), tmp_path, "test_it", "ocl")) for _ in range(2)]
    assert samples[0] == samples[1]
    assert len(samples[0]) == 3


def test_failures_win_over_later_lines(tmp_path):
    lines = [("a", "crash"), ("a", "passed"), ("b", "crash"), ("c", "failed"), ("c", "passed")]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"test": test, "outcome": outcome}) for test, outcome in lines))
    found = {test: entry["outcome"] for test, entry in upstream.results(log).items()}
    assert found == {"a": "passed", "b": "crash", "c": "failed"}


def test_expected_failures_are_patterns_with_reasons():
    entries = yaml.safe_load((upstream.ROOT / "pytorch_ocl/tests/upstream.yaml").read_text())
    for entry in entries:
        assert set(entry) == {"reason", "tests"}
        assert entry["reason"] and entry["tests"]
        for pattern in entry["tests"]:
            re.compile(pattern)
