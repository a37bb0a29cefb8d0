#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of the project, after `make test` has set everything up, and adds up the counts.

run_tests.py [--list] [STEP...]: only the steps whose names contain one of the words.
run_tests.py [--list] whole [STEP...]: with what takes long, such as all of op_db and all tests on PoCL.
run_tests.py [--list] gpu [STEP...]: the steps for a machine with a GPU instead.
Steps of one core run beside each other, as many as there are cores, and what one prints comes when it has ended.
The last line is "N passed, N failed, N skipped"; the exit code is 0 when nothing failed. Ctrl-C ends all steps.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
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


class Processes:
    """Those that steps have started and that run; after `end` there are none, and none can be started."""

    def __init__(self):
        self.lock, self.running, self.ended = threading.Lock(), set(), False

    def start(self, command, **options):
        with self.lock:
            if self.ended:
                raise OSError("interrupted")
            process = subprocess.Popen(command, **options)
            self.running.add(process)
        return process

    def wait(self, process):
        code = process.wait()
        with self.lock:
            self.running.discard(process)
        return code

    def end(self, timeout=10):
        """Ends all, with what they have started; what does not go within so many seconds is killed. A process that a
        shell was just starting can miss a signal, so it is sent until their output ends."""
        with self.lock:
            self.ended = True
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline + timeout:
            with self.lock:
                for process in self.running:  # `timeout` leads a group of its own
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
            time.sleep(0.1)


PROCESSES = Processes()


def show(text):
    print(text, flush=True)


def run(step, say=show):
    """Runs a step, saying its output by lines; returns (counts, seconds). Ending badly without a failed test is a
    failure."""
    say(f"\n== {step.name}")
    start, output = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "oclgrind.log"
        environment = {**os.environ, **step.environment, "OCLGRIND_LOG": str(log), "PYTHON": sys.executable}
        environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"  # its cmake and ninja
        command = ["timeout", "--kill-after=10", str(60 * step.minutes), *step.command]
        try:
            process = PROCESSES.start(
                command,
                cwd=ROOT,
                env=environment,
                text=True,
                errors="replace",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            say(str(error))
            return collections.Counter(failed=1), 0.0
        for line in process.stdout:
            output.append(line)
            if not re.match(r"\[( RUN      |       OK |---+)\]", line):
                say(line.rstrip("\n"))
        code = PROCESSES.wait(process)
        findings = log.read_text().strip() if log.exists() else ""
    total = counts("".join(output)) if step.counted else collections.Counter(passed=int(code == 0))
    if findings:
        say(f"Oclgrind found:\n{findings[:4000]}")
        total["failed"] += 1
    if code and not total["failed"]:
        say(f"{step.name} ended with exit code {code}{' (out of time)' if code in (124, 137) else ''}")
        total["failed"] += 1
    if not sum(total.values()):
        say(f"{step.name} ran no test")
        total["failed"] += 1
    seconds = time.monotonic() - start
    say(f"== {step.name}: {summary(total)} in {seconds:.0f} s")
    return total, seconds


def run_steps(steps, processes):
    """(counts, seconds) of steps by name, so many at a time. Of those that run beside each other, all output comes at
    the end."""

    def run_one(step):
        said = []
        return run(step, show if processes == 1 else said.append), said

    totals = {}
    if processes > 1:
        show(f"\nbeside each other, {processes} at a time: {', '.join(step.name for step in steps)}")
    # In threads even one by one: an interrupt then comes when no process is just being started.
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        try:
            names = {pool.submit(run_one, step): step.name for step in steps}
            left = set(names)
            while left:  # with a timeout: a wait that a signal just precedes would not see it
                done, left = concurrent.futures.wait(left, 0.5, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    totals[names[future]], said = future.result()
                    if said:
                        show("\n".join(said))
        except BaseException:
            PROCESSES.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return totals


def run_all(chosen):
    """(counts, seconds) of all steps by name, in their order: those of one core beside each other, then the others
    alone."""
    processes = len(os.sched_getaffinity(0))
    small = [step for step in chosen if step.cores == 1]
    longest_first = sorted(small, key=lambda step: -step.minutes)
    totals = run_steps(longest_first, processes) if min(len(small), processes) > 1 else {}
    totals |= run_steps([step for step in chosen if step.name not in totals], 1)
    return {step.name: totals[step.name] for step in chosen}


def summary(total):
    return ", ".join(f"{total[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def choose(words):
    """The steps that these words ask for."""
    kinds = {"gpu": gpu_steps, "whole": lambda: steps(whole=True)}
    every, words = (kinds[words[0]](), words[1:]) if words and words[0] in kinds else (steps(), words)
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    totals = run_all(chosen)
    print()
    for name, (total, seconds) in totals.items():
        print(f"{name:48} {seconds:5.0f} s  {summary(total)}")
    total = sum((total for total, _ in totals.values()), collections.Counter())
    print(f"\n{summary(total)}", flush=True)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
