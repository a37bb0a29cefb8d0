# SPDX-License-Identifier: MIT
"""Boolean tensors whose bytes are not 0 and 1, as torch.uint8.view(torch.bool) makes them: any other byte is true."""

import pytest
import torch

FUNCTIONS = {
    "eq": lambda x, y: x == y,
    "xor": lambda x, y: x ^ y,
    "and": lambda x, y: (x & y) == y,
    "sum": lambda x, y: x.sum(),
    "cumsum": lambda x, y: x.cumsum(0),
    "any": lambda x, y: x.view(4, -1).any(1),
    "sort": lambda x, y: x.sort(stable=True)[1],
    "unique": lambda x, y: x.unique(),
    "float": lambda x, y: x.float(),
    "where": lambda x, y: torch.where(x, 3, 4),
    "masked_fill": lambda x, y: torch.ones(x.shape, device=x.device).masked_fill(x, 5),
    "masked_select": lambda x, y: torch.arange(len(x), device=x.device)[x],
    "nonzero": lambda x, y: x.nonzero(),
    "count_nonzero": lambda x, y: x.count_nonzero(),
    "logical_not": lambda x, y: x.logical_not(),
    "mul": lambda x, y: x * 2.5,
    "cat": lambda x, y: torch.cat([x, y]).int(),
    "index_add": lambda x, y: torch.zeros(2, dtype=torch.bool, device=x.device).index_add(0, x.int(), x).int(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_byte_but_zero_is_true(name, device):
    truth = torch.rand(64, generator=torch.Generator().manual_seed(3)) > 0.5
    numbers = torch.randint(2, 255, (64,), dtype=torch.uint8).where(truth, torch.tensor(0, dtype=torch.uint8))
    odd = numbers.to(device).view(torch.bool)
    function = FUNCTIONS[name]
    assert torch.equal(function(odd, truth.to(device)).cpu(), function(truth, truth))


@pytest.mark.parametrize("core", ["sweep", "radix", "parts", "merge"])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts(core, descending, device, set_variable):
    set_variable("DLPRIM_SORT", core)
    truth = torch.rand(3, 5000, generator=torch.Generator().manual_seed(4)) > 0.5
    odd = (truth.byte() * torch.arange(1, 255, dtype=torch.uint8).repeat(60)[:15000].view(3, 5000)).to(device)
    values, order = odd.view(torch.bool).sort(descending=descending, stable=True)
    expected = truth.sort(descending=descending, stable=True)
    assert torch.equal(order.cpu(), expected[1]) and torch.equal(values.cpu() ^ False, expected[0])
