# SPDX-License-Identifier: MIT
"""Programs of operators that meet in one graph by chance, as random ones do."""

import torch
import torch.nn.functional as F
from compiling import check, floats, fresh, integers, no_eager_graphs  # noqa: F401


def test_constants_of_several_types(device):
    """The number 0 of an integer type is another constant than False."""
    check(lambda x: (x > 0).all(0).half().view(torch.int16).unsqueeze(1).nansum(1), floats(5, 3), device=device)
    check(
        lambda x: (x.byte() + 200, x.short() + 200, x.int() + 200, x.bool() ^ True, x ^ 1, ~torch.ones_like(x) + x),
        integers(0, 6, 40),
        device=device,
    )


def test_divisions_in_a_loops_length(device):
    check(
        lambda x, index: F.embedding_bag(index[None], x, mode="mean").bool(),
        floats(3, 33),
        integers(0, 3, 4),
        device=device,
        dynamic=True,
    )


def test_bernoulli_keeps_the_dtype(device):
    function = torch.compile(lambda x: (x.bernoulli(0.25), 1 - torch.bernoulli(x, 0.25), x.bernoulli()), fullgraph=True)
    for dtype in (torch.float32, torch.float16, torch.float64):
        with no_eager_graphs():
            found = function(torch.full((50, 40), 0.75, dtype=dtype, device=device))
        assert [result.dtype for result in found] == [dtype] * 3
        for result, mean in zip(found, (0.25, 0.75, 0.75)):
            assert set(result.unique().tolist()) == {0, 1} and abs(result.double().mean().item() - mean) < 0.05
