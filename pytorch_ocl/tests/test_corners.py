# SPDX-License-Identifier: MIT
"""Tensors of no element and of no dimension: the same as on the CPU."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("function", [torch.median, torch.nanmedian])
def test_median_of_nothing(device, function, dtype):
    x = torch.empty(2, 0, dtype=dtype)
    torch.testing.assert_close(function(x.to(device)).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("k", [0, 1])
def test_largest_of_one_number(device, k):
    values, indices = torch.tensor(-6, device=device).topk(k)
    assert (values.item(), indices.item()) == (-6, 0)
