# SPDX-License-Identifier: MIT
"""tools/check_kernels.py: registers, local memory and spills of programs, without their devices."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

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


def tool():
    spec = importlib.util.spec_from_file_location("check_kernels", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(folder, architecture="gfx906", **programs):
    for name, text in programs.items():
        (folder / f"{name}.cl").write_text(text)
    return subprocess.run(
        [sys.executable, SCRIPT, folder, "--all", "--architecture", architecture],
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


def test_what_a_launch_on_hopper_can_have():
    wrong = tool().wrong_on_hopper
    found = {"registers": 168, "local": 232432, "spills": 0}
    assert wrong("", found, [288, 1, 1], 1) is None
    assert wrong("(C7508) Potential Performance Loss: 'setmaxnreg' ignored", found, [288, 1, 1], 1) is None
    assert "serialized" in wrong("(C7510) Potential Performance Loss: serialized", found, [288, 1, 1], 1)
    assert "232433 bytes" in wrong("", {**found, "local": 232433}, [288, 1, 1], 1)
    assert "168 registers" in wrong("", {**found, "local": 0}, [288, 1, 1], 2)
    assert wrong("", {"registers": 96, "local": 98352, "spills": 0}, [288, 1, 1], 2) is None
    assert "98352 bytes" in wrong("", {"registers": 64, "local": 98352, "spills": 0}, [288, 1, 1], 3)


def test_assembles_as_the_driver_does():
    ptx = ".version 8.0\n.target sm_90\n.entry f(\n\t.param .u64 x\n)\n{\n\t//@wgmma.fence;\n}\n"
    changed = tool().retarget(ptx, [288, 1, 1], "sm_90a 2")
    assert ".target sm_90a\n" in changed and "\n\twgmma.fence;" in changed
    assert ")\n.minnctapersm 2\n.reqntid 288, 1, 1\n{" in changed
    assert "minnctapersm" not in tool().retarget(ptx, None, "sm_90a")
    assert tool().retarget(ptx, None, "") == ptx


def entry(token, *numbers):
    values = b"".join(number.to_bytes(4, "little") for number in numbers)
    return f"Unidentified PatchToken:\n\t4 Token {token}\n\t4 Size {len(values) + 8}\n\tHex " + " ".join(
        f"{value:x}" for value in values
    )


def test_reads_what_intels_compiler_lists():
    runs_with = entry(23, 64, 1, 1, 32, *[0] * 16, 128, 0)
    assert tool().read_intel(runs_with) == {"registers": 128, "local": 0, "spills": 0}
    listing = "\n".join([entry(15, 0, 9216), runs_with, entry(18, 0, 2048)])
    assert tool().read_intel(listing) == {"registers": 128, "local": 9216, "spills": 2048}
    with pytest.raises(RuntimeError, match="another format"):
        tool().read_intel("no entries")


@pytest.mark.skipif(not tool().OCLOC.exists(), reason="Intel's compiler could not be downloaded")
def test_compiles_for_intel(tmp_path):
    result = check(tmp_path, "acm-g10", plain=PLAIN)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "plain acm-g10: registers 128, local 256, spills 0" in result.stdout
    spilling = SPILLING.replace("100", "400").replace("99", "399")
    assert check(tmp_path, "acm-g10", spilling=spilling).returncode == 1
    result = check(tmp_path, "acm-g10", broken="// -w\n__kernel void broken() { undeclared = 1; }\n")
    assert result.returncode == 1 and "broken acm-g10: " in result.stdout and "undeclared" in result.stdout


def test_programs_with_assembly_are_for_one_architecture(tmp_path):
    program = tmp_path / "p.cl"
    program.write_text("// -w -DNV_PTX=90 target: sm_90a 4\n__kernel void p() {}\n")
    assert tool().options_of(program) == (["-w", "-DNV_PTX=90"], "sm_90a 4")
    assert tool().serves(program, "sm_90") and not tool().serves(program, "gfx906")
    program.write_text("// -w\n__kernel void p() {}\n")
    assert tool().serves(program, "gfx906")
