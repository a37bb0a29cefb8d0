# SPDX-License-Identifier: MIT
"""Programs written for pytorch_dlprim: the names and calls of docs/migration.md."""

import pytest
import torch

import pytorch_ocl


@pytest.mark.parametrize("module", [torch.ocl, pytorch_ocl])
def test_names_of_pytorch_dlprim(module, device, tmp_path):
    module.manual_seed_all(7)
    first = torch.rand(5, device=device)
    module.manual_seed_all(7)
    module.enable_profiling(device)
    with module.profile(device, str(tmp_path / "log.csv")):
        again = torch.rand(5, device=device) + 0
    module.synchronize(device)
    module.synchronize()
    module.empty_cache()
    assert torch.equal(first.cpu(), again.cpu())
    assert (tmp_path / "log.csv").read_text().startswith("name,device,stream,start_ns")
    with module.device(device):
        assert torch.ocl.current_device() == (torch.device(device).index or 0)


def test_other_names_are_no_part_of_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        pytorch_ocl.no_such_name  # noqa: B018
    with pytest.raises(ValueError, match="Expected an ocl device"):
        torch.ocl.enable_profiling("cpu")


def test_device_of_pytorch_1_13():
    assert torch.ones(2, device="privateuseone:0").device == torch.device("ocl:0")
