# SPDX-License-Identifier: MIT
"""torch.use_deterministic_algorithms(True): equal bits at every run, or the RuntimeError of PyTorch's CUDA device."""

import pytest
import torch
import torch.nn.functional as F


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def gradient(function, *shape, device):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    y = function(x)
    y = y[0] if isinstance(y, tuple) else y
    return torch.autograd.grad(y, x, torch.linspace(-1, 1, y.numel(), device=device).view(y.shape))[0]


def rows(device):
    """Many indices, each many times."""
    return torch.arange(20_000, device=device).mul_(7919).remainder_(11)


def values(device, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(device)


def images(function):
    return lambda device: gradient(function, 2, 3, 24, 24, device=device)


def volumes(function):
    return lambda device: gradient(function, 2, 3, 8, 8, 8, device=device)


# What PyTorch documents as deterministic in this mode, or as an error of its CUDA device; here most of it is gathered.
SAME_BITS = {
    "index_add": lambda d: torch.zeros(11, 5, device=d).index_add_(0, rows(d), values(d, 20_000, 5)),
    "index_add of float16": lambda d: torch.zeros(11, device=d).half().index_add_(0, rows(d), values(d, 20_000).half()),
    "index_put": lambda d: torch.zeros(11, device=d).index_put_((rows(d),), values(d, 20_000)),
    "index_put, accumulated": lambda d: torch.zeros(11, device=d).index_put_(
        (rows(d),), values(d, 20_000), accumulate=True
    ),
    "index": lambda d: gradient(lambda x: x[rows(d)], 11, 5, device=d),
    "index_select": lambda d: gradient(lambda x: x.index_select(0, rows(d)), 11, 5, device=d),
    "repeat_interleave": lambda d: gradient(lambda x: x.repeat_interleave(500, 0), 11, 5, device=d),
    "gather": lambda d: gradient(lambda x: x.gather(0, rows(d)), 11, device=d),
    "index_copy": lambda d: torch.zeros(11, 5, device=d).index_copy_(0, rows(d), values(d, 20_000, 5)),
    "scatter": lambda d: torch.zeros(11, device=d).scatter_(0, rows(d), values(d, 20_000)),
    "scatter_add": lambda d: torch.zeros(11, device=d).scatter_add_(0, rows(d), values(d, 20_000)),
    "scatter_reduce": lambda d: torch.zeros(11, device=d).scatter_reduce_(0, rows(d), values(d, 20_000), "mean"),
    "embedding": lambda d: gradient(lambda x: F.embedding(rows(d), x), 11, 5, device=d),
    "embedding, padded": lambda d: gradient(lambda x: F.embedding(rows(d), x, padding_idx=3), 11, 5, device=d),
    "embedding_bag": lambda d: gradient(
        lambda x: F.embedding_bag(rows(d).view(100, -1), x, mode="sum"), 11, 5, device=d
    ),
    "bincount": lambda d: torch.bincount(rows(d), values(d, 20_000)),
    "histc": lambda d: torch.histc(values(d, 20_000), 10),
    "cumsum": lambda d: values(d, 20_000).cumsum(0),
    "sum": lambda d: values(d, 200_000).sum(),
    "median": lambda d: values(d, 20, 501).median(1),
    "put_, accumulated": lambda d: torch.zeros(11, device=d).put_(rows(d), values(d, 20_000), accumulate=True),
    "scatter_reduce of products": lambda d: torch.ones(11, device=d).scatter_reduce_(
        0, rows(d), values(d, 20_000), "prod"
    ),
    "kthvalue": lambda d: values(d, 20, 501).kthvalue(7, 1),
    "sort": lambda d: rows(d).sort(),
    "nll_loss of images": lambda d: F.nll_loss(values(d, 4, 11, 50, 100), rows(d).view(4, 50, 100)),
    "ctc_loss": lambda d: gradient(
        lambda x: F.ctc_loss(x.log_softmax(2), rows(d)[:20].view(4, 5) + 1, [9] * 4, [5] * 4), 9, 4, 20, device=d
    ),
    "avg_pool2d": images(lambda x: F.avg_pool2d(x, 3, 1)),
    "max_pool2d": images(lambda x: F.max_pool2d(x, 3, 1)),
    "adaptive_avg_pool2d": images(lambda x: F.adaptive_avg_pool2d(x, 7)),
    "adaptive_max_pool2d": images(lambda x: F.adaptive_max_pool2d(x, 7)),
    "fractional_max_pool2d": images(
        lambda x: F.fractional_max_pool2d(x, 3, 7, _random_samples=torch.full((2, 3, 2), 0.3, device=x.device))
    ),
    "avg_pool3d": volumes(lambda x: F.avg_pool3d(x, 3, 1)),
    "max_pool3d": volumes(lambda x: F.max_pool3d(x, 3, 1)),
    "adaptive_avg_pool3d": volumes(lambda x: F.adaptive_avg_pool3d(x, 3)),
    "bilinear": images(lambda x: F.interpolate(x, scale_factor=2.3, mode="bilinear")),
    "bicubic": images(lambda x: F.interpolate(x, scale_factor=2.3, mode="bicubic")),
    "trilinear": volumes(lambda x: F.interpolate(x, scale_factor=1.7, mode="trilinear")),
    "nearest": images(lambda x: F.interpolate(x, scale_factor=2.3)),
    "reflection_pad2d": images(lambda x: F.pad(x, (5, 6, 7, 8), "reflect")),
    "replication_pad2d": images(lambda x: F.pad(x, (5, 6, 7, 8), "replicate")),
    "replication_pad3d": volumes(lambda x: F.pad(x, (1, 2, 3, 4, 5, 6), "replicate")),
    "conv2d": images(lambda x: F.conv2d(x, values(x.device, 4, 3, 3, 3))),
    "conv_transpose2d": images(lambda x: F.conv_transpose2d(x, values(x.device, 3, 4, 3, 3), stride=2)),
    "matmul": lambda d: values(d, 64, 2000) @ values(d, 2000, 64),
    "cdist": lambda d: gradient(lambda x: torch.cdist(x, x.detach() + 1), 50, 7, device=d),
    "layer_norm": lambda d: gradient(lambda x: F.layer_norm(x, (64,)), 100, 64, device=d),
    "attention": lambda d: gradient(lambda x: F.scaled_dot_product_attention(x, x, x), 1, 2, 50, 16, device=d),
}

RAISES = {
    "grid_sample": images(lambda x: F.grid_sample(x, torch.zeros(2, 5, 5, 2, device=x.device), align_corners=False)),
    "max_unpool2d": lambda d: F.max_unpool2d(values(d, 1, 2, 2), torch.zeros(1, 2, 2, dtype=torch.long, device=d), 2),
    "max_unpool3d": lambda d: F.max_unpool3d(
        values(d, 1, 2, 2, 2), torch.zeros(1, 2, 2, 2, dtype=torch.long, device=d), 2
    ),
    "put_": lambda d: torch.zeros(11, device=d).put_(rows(d), values(d, 20_000)),
}


@pytest.mark.parametrize("name", SAME_BITS)
def test_same_bits(name, device):
    def bits():
        result = SAME_BITS[name](device)
        return [part.cpu() for part in (result if isinstance(result, tuple) else (result,))]

    first = bits()
    for _ in range(3):
        assert all(map(torch.equal, first, bits()))


def test_the_last_of_equal_indices_stays(device):
    expected = torch.zeros(11, 5).index_copy_(0, rows("cpu"), values("cpu", 20_000, 5))
    assert (
        torch.zeros(11, 5, device=device).index_copy_(0, rows(device), values(device, 20_000, 5)).cpu().equal(expected)
    )


@pytest.mark.parametrize("name", RAISES)
def test_raises(name, device):
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        RAISES[name](device)
