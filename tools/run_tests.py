#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every test of the project, after `make test` has set everything up, and adds up the counts.

run_tests.py [--list] [STEP...]: only the steps whose names contain one of the words.
run_tests.py [--list] gpu [STEP...]: the steps for a machine with a GPU instead.
The last line is "N passed, N failed, N skipped"; the exit code is 0 when nothing failed.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "pytorch_ocl/python/pytorch_ocl"))
import _runtime  # noqa: E402
from steps import Step, gpu_steps, steps  # noqa: E402, F401


def counts(output):
    """Counter of passed, failed and skipped from the closing lines of pytest or GoogleTest."""
    total = collections.Counter()
    last_line = output.rstrip().rsplit("\n", 1)[-1]
    for number, outcome in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)\b", last_line):
        total[{"error": "failed", "errors": "failed", "xfailed": "passed"}.get(outcome, outcome)] += int(number)
    for outcome, number in re.findall(r"^\[  (PASSED|FAILED|SKIPPED) +\] (\d+) tests?[.,]", output, re.M):
        total[outcome.lower()] += int(number)
    return total


def run(step):
    """Runs a step, showing its output; returns its counts. Ending badly without a failed test is a failure."""
    print(f"\n== {step.name}", flush=True)
    start, output = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "oclgrind.log"
        environment = {**os.environ, **step.environment, "OCLGRIND_LOG": str(log), "PYTHON": sys.executable}
        environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"  # its cmake and ninja
        command = ["timeout", "--kill-after=10", str(60 * step.minutes), *step.command]
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                text=True,
                errors="replace",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            print(error)
            return collections.Counter(failed=1)
        for line in process.stdout:
            output.append(line)
            if not re.match(r"\[( RUN      |       OK |---+)\]", line):
                print(line, end="", flush=True)
        code = process.wait()
        findings = log.read_text().strip() if log.exists() else ""
    total = counts("".join(output)) if step.counted else collections.Counter(passed=int(code == 0))
    if findings:
        print(f"Oclgrind found:\n{findings[:4000]}")
        total["failed"] += 1
    if code and not total["failed"]:
        print(f"{step.name} ended with exit code {code}{' (out of time)' if code in (124, 137) else ''}")
        total["failed"] += 1
    if not sum(total.values()):
        print(f"{step.name} ran no test")
        total["failed"] += 1
    print(f"== {step.name}: {summary(total)} in {time.monotonic() - start:.0f} s", flush=True)
    return total


def summary(total):
    return ", ".join(f"{total[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def choose(words):
    """The steps that these words ask for."""
    every, words = (gpu_steps(), words[1:]) if words[:1] == ["gpu"] else (steps(), words)
    return [step for step in every if not words or any(word in step.name.lower() for word in words)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only print the steps")
    parser.add_argument("words", nargs="*", metavar="STEP")
    options = parser.parse_args()
    chosen = choose([word.lower() for word in options.words])
    if options.list:
        print("\n".join(f"{step.name}: {' '.join(step.command)}" for step in chosen))
        return 0
    _runtime.prepare()  # lists drivers installed by pip, for programs without Python too
    totals = {step.name: run(step) for step in chosen}
    print()
    for name, total in totals.items():
        print(f"{name:32} {summary(total)}")
    total = sum(totals.values(), collections.Counter())
    print(f"\n{summary(total)}", flush=True)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
