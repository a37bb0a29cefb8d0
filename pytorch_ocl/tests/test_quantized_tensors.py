# SPDX-License-Identifier: MIT
"""Tensors of quantized numbers: made, read, copied and viewed as on the CPU, number by number."""

import pytest
import torch

TYPES = [torch.qint8, torch.quint8, torch.qint32]

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecat")


@pytest.fixture(autouse=True)
def on_the_device(set_variable):
    set_variable("PYTORCH_OCL_FALLBACK", "error")


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))) * 20


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_one_scale(dtype, device):
    for x in (
        numbers(3, 4, 5),
        numbers(3, 4).t(),
        numbers(0),
        numbers(2, 3, 4, 4).to(memory_format=torch.channels_last),
    ):
        expected = torch.quantize_per_tensor(x, 0.25, 3, dtype)
        got = torch.quantize_per_tensor(x.to(device), 0.25, 3, dtype)
        assert got.is_quantized and got.device.type == "ocl" and got.dtype == dtype
        assert (got.q_scale(), got.q_zero_point(), got.qscheme()) == (0.25, 3, torch.per_tensor_affine)
        assert got.int_repr().cpu().equal(expected.int_repr())
        assert got.dequantize().cpu().equal(expected.dequantize())
        assert got.cpu().equal(expected) and expected.to(device).equal(got)
        assert got.clone().dequantize().equal(got.dequantize())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scales_of_channels(axis, device):
    x = numbers(3, 4, 5)
    n = x.size(axis)
    scales = torch.linspace(0.1, 0.5, n)
    for dtype, zeros in ((torch.qint8, torch.arange(n)), (torch.quint8, torch.linspace(0, 1, n))):
        expected = torch.quantize_per_channel(x, scales, zeros, axis, dtype)
        got = torch.quantize_per_channel(x.to(device), scales.to(device), zeros.to(device), axis, dtype)
        assert got.q_per_channel_axis() == axis
        assert got.q_per_channel_scales().cpu().equal(expected.q_per_channel_scales())
        assert got.q_per_channel_zero_points().cpu().equal(expected.q_per_channel_zero_points())
        assert got.int_repr().cpu().equal(expected.int_repr())
        torch.testing.assert_close(got.dequantize().cpu(), expected.dequantize())
        again = expected.to(device)
        assert again.int_repr().cpu().equal(expected.int_repr()) and again.cpu().equal(expected)


def test_views_and_parts(device):
    x = numbers(4, 6)
    expected, got = (torch.quantize_per_tensor(t, 0.5, 0, torch.qint8) for t in (x, x.to(device)))
    for use in (
        lambda q: q.view(6, 4),
        lambda q: q.t(),
        lambda q: q[1:3, ::2].contiguous(),
        lambda q: q.reshape(-1),
        lambda q: q.unsqueeze(0),
        lambda q: q.unsqueeze(0).squeeze(),
        lambda q: q.flip(0),
        lambda q: q.relu(),
        lambda q: q.index_select(0, torch.tensor([2, 0], device=q.device)),
        lambda q: q.t().contiguous(),
        lambda q: torch.empty_like(q).copy_(q),
        lambda q: torch.empty_like(q).copy_(q.dequantize() + 1),
    ):
        assert use(got).cpu().dequantize().equal(use(expected).dequantize())
    assert str(got[0, 0].item()) == str(expected[0, 0].item())
    made = torch._make_per_tensor_quantized_tensor(got.int_repr(), 0.5, 0)
    assert made.cpu().equal(expected)


def test_dynamic_scale(device):
    x = numbers(5, 5)
    expected = torch.quantize_per_tensor_dynamic(x, torch.quint8, False)
    got = torch.quantize_per_tensor_dynamic(x.to(device), torch.quint8, False)
    assert got.q_scale() == pytest.approx(expected.q_scale()) and got.q_zero_point() == expected.q_zero_point()
    assert got.int_repr().cpu().equal(expected.int_repr())
