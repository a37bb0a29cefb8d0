# SPDX-License-Identifier: MIT
"""Errors of float32 against float64: long sums, data far from zero, and some elements much larger than most."""

import math

import pytest
import torch
from torch.nn import functional as F


def normal(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(3))


def far_from_zero(*sizes):
    return 100 + 1e-2 * normal(*sizes)


def heavy_tailed(*sizes):
    return normal(*sizes) * torch.exp(3 * torch.randn(sizes, generator=torch.Generator().manual_seed(4)))


def weight_gradient(x, w, gy):
    return torch.ops.aten.convolution_backward(
        gy, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
    )[1]


PRODUCTS = {
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (1, 512, 7, 7), (256, 512, 3, 3)),
    "gradient of weights": (weight_gradient, (1, 32, 200, 200), (32, 32, 3, 3), (1, 32, 200, 200)),
    "product": (torch.matmul, (64, 20000), (20000, 64)),
    "one row": (torch.matmul, (1, 8192), (8192, 128)),
    "three rows": (torch.matmul, (3, 8192), (8192, 128)),
}
MOMENTS = {
    "rows": (lambda x: x.var(1), (64, 5000)),
    "columns": (lambda x: x.std(0), (5000, 64)),
    "all": (torch.var, (1_000_000,)),
}
NORMS = {
    "layer": (lambda x: F.layer_norm(x, x.shape[1:]), (4, 50000)),
    "group": (lambda x: F.group_norm(x, 8), (4, 64, 32, 32)),
    "batch": (lambda x: F.batch_norm(x, None, None, training=True), (16, 32, 28, 28)),
    "batch of vectors": (lambda x: F.batch_norm(x, None, None, training=True), (4096, 64)),
}


def error(device, function, *inputs):
    expected = function(*(x.double() for x in inputs))
    return ((function(*(x.to(device) for x in inputs)).cpu() - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("name", PRODUCTS)
def test_long_products(device, name):
    function, *sizes = PRODUCTS[name]
    assert error(device, function, *(normal(*size) for size in sizes)) < 1e-6


@pytest.mark.parametrize("name", MOMENTS)
def test_variances_far_from_zero(device, name):
    function, size = MOMENTS[name]
    assert error(device, function, far_from_zero(*size)) < 2e-7


def test_means_beside_variances_are_rounded_once(device):
    x = far_from_zero(64, 5000)
    got = torch.var_mean(x.to(device), 1)[1].cpu().double()
    torch.testing.assert_close(got, x.double().mean(1), rtol=0, atol=4e-6)


@pytest.mark.parametrize("name", NORMS)
def test_norms_far_from_zero(device, name):
    """What is left is the rounding of a mean that is stored as a float: 2.2e-4 of the deviation."""
    function, size = NORMS[name]
    assert error(device, function, far_from_zero(*size)) < 3e-4


@pytest.mark.parametrize("name", ["layer", "group"])
def test_norms_of_heavy_tails(device, name):
    function, size = NORMS[name]
    assert error(device, function, heavy_tailed(*size)) < 4e-7


@pytest.mark.parametrize(
    "values", [[1e20, 1e20 + 1e14], [1.0, 2.0, math.inf], [-4e19] * 300], ids=["two", "inf", "all"]
)
def test_variance_of_huge_numbers(values):
    """Work-items without elements do not make them NaN."""
    x = torch.tensor(values)
    for found, expected in zip(torch.var_mean(x.to("ocl")), torch.var_mean(x), strict=True):
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=0, equal_nan=True)
