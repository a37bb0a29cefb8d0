# SPDX-License-Identifier: MIT
"""What a driver is known to compute wrong is not used, by made-up defects of the driver at hand."""

import pytest
import torch
from processes import run_python, start_python

# Prints, for each of two equal products, whether it is right, then the warnings that named a defect.
PRODUCT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = torch.arange(96.0 * 96).view(96, 96) % 7
    for _ in range(2):
        print(torch.equal((x.to("ocl") @ x.to("ocl")).cpu(), x @ x))
for warning in caught:
    if "known to compute this wrong" in str(warning.message):
        print(str(warning.message).splitlines()[0])
"""


# Prints the error of a call.
CAUGHT = """
try:
    {}
except (NotImplementedError, RuntimeError) as error:
    print(error)
"""


@pytest.fixture
def defects(tmp_path, device):
    """Writes a file of defects of this driver: (kernels, reason) each."""
    properties = torch.ocl.get_device_properties(device)

    def write(*lines):
        file = tmp_path / "defects.tsv"
        start = [properties.platform_name, properties.driver_version[:4]]
        file.write_text("# made up\n\n" + "".join("\t".join([*start, *line]) + "\n" for line in lines))
        return {"DLPRIM_DRIVER_DEFECTS": str(file)}

    return write


def chosen_core():
    """The file of kernels of the core for the product above."""
    log = run_python("import os; os.dup2(1, 2)" + PRODUCT, DLPRIM_DEBUG_SELECT="1")
    name = next(line for line in log.splitlines() if line.startswith("[gemm]") and line.endswith(": chosen"))
    return name.split()[1].rstrip(":").removesuffix("_join")


def test_another_core_takes_the_place_of_a_wrong_one(defects):
    core = chosen_core()
    right, again, *warnings = run_python(PRODUCT, **defects((f"gemm/{core}.cl", "sums are too large"))).splitlines()
    assert right == again == "True"
    (warning,) = warnings
    assert "sums are too large; other kernels are used" in warning and f"gemm_{core}" in warning


def test_a_kernel_that_nothing_replaces_is_refused(defects):
    x = 'x = torch.ones(4, 8, device="ocl")'
    code = f"{x}{CAUGHT.format('x.softmax(1)')}print((x + x).sum().item())"
    message, total = run_python(code, **defects(("softmax", "all are 0"))).splitlines()
    assert "is known to compute this wrong: all are 0" in message and "[softmax" in message
    assert float(total) == 64


def test_a_core_that_is_forced_is_not_replaced(defects):
    core = chosen_core()
    code = f"x = torch.ones(96, 96, device='ocl'){CAUGHT.format('x @ x')}"
    message = run_python(code, DLPRIM_GEMM=core, **defects((f"gemm/{core}.cl", "wrong sums")))
    assert "known to compute this wrong: wrong sums" in message


def test_devices_of_a_wrong_driver_are_left_out(defects, device):
    code = "import warnings; warnings.simplefilter('always')\n"
    code += "print([torch.ocl.get_device_properties(i).id for i in range(torch.ocl.device_count())])"
    code += CAUGHT.format("torch.ones(1, device='ocl')")  # lists them where the first line found none
    own = torch.ocl.get_device_properties(device).id

    def devices_and_warnings(**environment):
        return start_python(code, **environment).communicate(timeout=300)

    devices, warnings = devices_and_warnings()
    assert own in devices and "cannot be used" not in warnings
    devices, warnings = devices_and_warnings(**defects(("*", "nothing is right")))
    assert own not in devices and warnings.count("nothing is right") == 1


def test_a_file_of_defects_that_is_damaged_is_an_error(tmp_path, device):
    file = tmp_path / "defects.tsv"
    file.write_text("a driver without a reason\n")
    code = CAUGHT.format("torch.ones(1, device='ocl')")
    assert "expected platform, driver, kernels and reason" in run_python(code, DLPRIM_DRIVER_DEFECTS=str(file))
    assert "cannot be read" in run_python(code, DLPRIM_DRIVER_DEFECTS=str(tmp_path / "none.tsv"))
