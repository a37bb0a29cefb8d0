# SPDX-License-Identifier: MIT
"""Copies between host and devices, and between devices: through pinned memory, as GPUs do it, and directly."""

import pytest
import torch
from processes import run_python

MIB = 1 << 20
SIZES = [1, 1000, MIB // 4 - 1, MIB // 4 + 1, 4 * MIB, 4 * MIB + 3, 17 * MIB + 5]


@pytest.fixture(params=["0", "1"], ids=["direct", "staged"])
def staged(request, set_variable):
    set_variable("DLPRIM_STAGED_COPIES", request.param)


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(device, staged, size):
    host = torch.arange(size, dtype=torch.int32).to(torch.uint8)
    there = host.to(device)
    assert torch.equal(there.cpu(), host)
    assert torch.equal(there[1:].cpu(), host[1:])  # not at the beginning of its memory
    back = torch.zeros(size + 10, dtype=torch.uint8)
    back[5:-5].copy_(there)
    assert torch.equal(back[5:-5], host) and back[:5].sum() == back[-5:].sum() == 0


def test_layouts_and_dtypes(device, staged):
    host = torch.randn(700, 900)
    target = torch.zeros(900, 700, device=device)
    target.t().copy_(host)
    assert torch.equal(target.cpu(), host.t())
    target = torch.zeros(700, 1800, dtype=torch.float16, device=device)
    target[:, ::2].copy_(host)
    assert torch.equal(target.cpu()[:, ::2], host.half()) and not target[:, 1::2].any()
    back = torch.zeros(700, 1800, dtype=torch.float64)
    back[:, 1::2].copy_(target[:, ::2])
    assert torch.equal(back[:, 1::2], host.half().double()) and not back[:, ::2].any()
    z = torch.randn(600, 600, dtype=torch.complex64)
    assert torch.equal(z.to(device).conj().t().cpu(), z.conj().t())


def test_a_pageable_source_may_change_at_once(device, staged):
    host = torch.full((3 * MIB,), 7, dtype=torch.uint8)
    there = host.to(device, non_blocking=True)
    host.zero_()
    assert there.min().item() == 7


def test_errors_in_data_are_raised_by_the_copy(device, staged):
    x, bad = torch.ones(2 * MIB, device=device), torch.tensor([5 * MIB], device=device)
    y = x[bad]
    with pytest.raises(IndexError):
        x.cpu()
    assert torch.equal(x[:3].cpu(), torch.ones(3)) and y.shape == (1,)


BETWEEN = """
if torch.ocl.device_count() < 2: print('one device')
else:
    for size in SIZES:
        host = torch.arange(size, dtype=torch.int32)
        for way in (('ocl:0', 'ocl:1'), ('ocl:1', 'ocl:0')):
            first = host.to(way[0])
            assert torch.equal(first.to(way[1]).cpu(), host)
            assert torch.equal(first[1:].to(way[1]).cpu(), host[1:])
    x = torch.randn(500, 700)
    target = torch.zeros(700, 500, dtype=torch.float64, device='ocl:1')
    target.t().copy_(x.to('ocl:0'))
    assert torch.equal(target.cpu().t(), x.double())
    target = torch.zeros(500, 1400, device='ocl:0')
    target[:, ::2].copy_(x.to('ocl:1'))
    assert torch.equal(target.cpu()[:, ::2], x) and not target[:, 1::2].any()
    z = torch.randn(300, 300, dtype=torch.complex64)
    assert torch.equal(z.to('ocl:0').conj().to('ocl:1').cpu(), z.conj())
    side = torch.ocl.Stream('ocl:0')
    with torch.ocl.stream(side):
        y = torch.ones(1000, 1000, device='ocl:0')
        for _ in range(20): y = y * 1.5
        assert torch.equal(y.to('ocl:1').cpu(), y.cpu())
    bad = torch.ones(3, device='ocl:0')[torch.tensor([9], device='ocl:0')]
    try: bad.to('ocl:1'); print('no error')
    except IndexError: pass
    print('same')
"""


@pytest.mark.parametrize("way", ["0", "1"])
def test_between_devices(way):
    """Intel's runtime and PoCL in one process are two devices."""
    chosen = {} if torch.ocl.device_count() > 1 else {"OCL_VISIBLE_DEVICES": "Intel,Portable"}
    out = run_python(BETWEEN.replace("SIZES", str(SIZES)), DLPRIM_STAGED_COPIES=way, **chosen)
    if out == "one device":
        pytest.skip("needs two devices")
    assert out == "same"
