# SPDX-License-Identifier: MIT
"""Dtypes that PyTorch refuses are refused: with the CPU's type of error, by the operator's name, before any work."""

import itertools

import opinfo
import pytest
import torch

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
# Operators of op_db whose dtypes are checked here; those of shared tables of rows are in test_numerics.py.
NAMES = frozenset(
    """
    _native_batch_norm_legit _segment_reduce amax aminmax arange bernoulli bucketize cauchy cross
    cumsum cummax exponential geometric grid_sampler_2d histc index_reduce kthvalue linspace log_normal
    logcumsumexp max max_pool2d_with_indices_backward median mode msort nanmedian native_layer_norm normal
    nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
    nn.functional.avg_pool2d nn.functional.binary_cross_entropy nn.functional.fractional_max_pool2d
    nn.functional.group_norm nn.functional.interpolate nn.functional.max_pool2d nn.functional.max_pool3d
    nn.functional.max_unpool2d nn.functional.multi_margin_loss nn.functional.nll_loss nn.functional.pad
    nn.functional.rms_norm nn.functional.unfold softmax topk tril_indices uniform""".split()
)
# Served although the CPU, CUDA or both refuse: windows over integers, 16-bit floats, spans of integers.
MORE = frozenset(
    [
        ("nn.functional.avg_pool2d", torch.int32),
        ("nn.functional.avg_pool2d", torch.uint8),
        ("histc", torch.int64),
        ("histc", torch.int32),
        ("histc", torch.uint8),
    ]
)


def error_of(op, sample, device):
    try:
        opinfo.call(op, opinfo.to_device(sample, device), 0)
        if device != "cpu":
            torch.ocl.synchronize()
    except Exception as error:  # noqa: BLE001
        return error
    return None


@pytest.mark.parametrize("name", sorted(NAMES))
def test_refused_dtypes(device, name):
    refused = 0
    for op, dtype in itertools.product([op for op in opinfo.op_db if op.name == name], DTYPES):
        if dtype in op.supported_dtypes("cuda") or (name, dtype) in MORE:
            continue
        try:
            samples = opinfo.samples(op, dtype, 4)
        except Exception:  # noqa: BLE001  there are no such samples
            continue
        for sample in samples:
            expected, got = (error_of(op, sample[:3], where) for where in ("cpu", device))
            if expected is None:
                continue
            refused += 1
            assert isinstance(got, type(expected)), f"{op.full_name} {dtype}: {got!r}, the CPU: {expected!r}"
            if isinstance(expected, NotImplementedError):
                assert str(got).split('"')[2:] == str(expected).split('"')[2:]
    assert refused


def test_places_of_histograms_are_rounded_as_on_the_cpu(device):
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.randint(0, 1000, (1000,)).div(100).to(dtype)  # the CPU counts in bfloat16 up to 256
        for bins, low, high in ((10, 0, 0), (100, 0, 10), (7, 1, 9), (33, -3, 5)):
            torch.testing.assert_close(
                torch.histc(x.to(device), bins, low, high).cpu(), torch.histc(x, bins, low, high), rtol=0, atol=0
            )
    x = torch.tensor([2**40, 2**40 + 1, 2**40 + 2, 2**40 + 9], device=device)
    assert torch.histc(x, 10).tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 1]


def test_numbers_beyond_int64(device):
    largest = 2**64 - 1
    assert torch.full((3,), largest, dtype=torch.uint64, device=device).tolist() == [largest] * 3
    x = torch.zeros(3, dtype=torch.uint64, device=device)
    x[1].fill_(largest)
    assert x.tolist() == [0, largest, 0]
