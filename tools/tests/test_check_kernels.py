# SPDX-License-Identifier: MIT
"""tools/check_kernels.py: registers, local memory and spills of programs, without their devices."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "check_kernels.py"
PLAIN = """// -w -DN=64 -DCPU_DEVICE
__kernel __attribute__((reqd_work_group_size(N, 1, 1))) void plain(__global float *x) {
  __local float kept[N];
  kept[get_local_id(0)] = exp(x[get_global_id(0)]);
  barrier(CLK_LOCAL_MEM_FENCE);
  x[get_global_id(0)] = kept[N - 1 - get_local_id(0)];
}
"""
# 1024 work-items leave each of them 64 registers, and 100 numbers are needed at once.
SPILLING = """// -w
__kernel __attribute__((reqd_work_group_size(1024, 1, 1))) void spilling(__global float *x) {
  float kept[100];
#pragma unroll
  for (int i = 0; i < 100; i++) kept[i] = x[get_global_id(0) + 4096 * i];
  barrier(CLK_GLOBAL_MEM_FENCE);
#pragma unroll
  for (int i = 0; i < 100; i++) x[get_global_id(0) + 4096 * i] = kept[99 - i] * kept[i];
}
"""


def check(folder, **programs):
    for name, text in programs.items():
        (folder / f"{name}.cl").write_text(text)
    return subprocess.run(
        [sys.executable, SCRIPT, folder, "--all", "--architecture", "gfx906"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_lists_what_a_kernel_takes(tmp_path):
    result = check(tmp_path, plain=PLAIN)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "plain gfx906: registers " in result.stdout and "local 256, spills 0" in result.stdout


def test_fails_for_spills_and_errors(tmp_path):
    result = check(tmp_path, spilling=SPILLING)
    assert result.returncode == 1 and "1 wrong" in result.stdout, result.stdout
    result = check(tmp_path, broken="// -w\n__kernel void broken() { undeclared = 1; }\n")
    assert result.returncode == 1 and "broken gfx906: " in result.stdout and "undeclared" in result.stdout
    assert check(tmp_path / "nothing").returncode == 1
