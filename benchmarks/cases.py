# SPDX-License-Identifier: MIT
"""The cases of the benchmark: what is timed, and how much work it is."""

import collections
import contextlib
import math

import torch
import torch.nn.functional as F

# make(device) -> callable. Of one call: flop counts additions and multiplications, size the bytes that must move.
Case = collections.namedtuple("Case", "name group make flop size", defaults=[0, 0])

NETWORKS = (
    "alexnet",
    "resnet18",
    "resnet50",
    "vgg16",
    "mobilenet_v2",
    "squeezenet1_0",
    "efficientnet_b0",
    "resnext50_32x4d",
    "wide_resnet50_2",
    "shufflenet_v2_x1_0",
)
MIXED = ("resnet50", "convnext_small", "vit_b_16", "mobilenet_v2")
ELEMENTS = 1 << 26


def create(name, device):
    """A network of torchvision with random weights. Where PyTorch has a device of its own, `ocl` is not loaded beside
    it: PyTorch's autograd serves one accelerator in a process."""
    if device.type == "ocl" or torch.version.cuda is None:
        from pytorch_ocl import models

        return models.create(name)
    import torchvision

    return torchvision.models.get_model(name, weights=None)


def network(name, training, mixed, batch, size):
    """Evaluation or a training step with Adam; `mixed`: bfloat16 autocast and channels_last."""

    def make(device):
        torch.manual_seed(0)
        model = create(name, device).to(device).train(training)
        image = torch.randn(batch, 3, size, size).to(device)
        label = torch.randint(0, 1000, (batch,)).to(device)
        if mixed:
            model = model.to(memory_format=torch.channels_last)
            image = image.contiguous(memory_format=torch.channels_last)

        def precision():
            return torch.autocast(device.type, torch.bfloat16) if mixed else contextlib.nullcontext()

        def evaluate():
            with torch.no_grad(), precision():
                model(image)

        def train():
            optimizer.zero_grad()
            with precision():
                loss = F.cross_entropy(model(image), label)
            loss.backward()
            optimizer.step()

        optimizer = torch.optim.Adam(model.parameters()) if training else None
        return train if training else evaluate

    return make


def matmul(n, dtype):
    def make(device):
        a, b = (torch.randn(n, n).to(device, dtype) for _ in range(2))
        return lambda: a @ b

    return make


def vectors(function, elements=ELEMENTS):
    """`function` of two float32 vectors."""

    def make(device):
        x, y = (torch.randn(elements).to(device) for _ in range(2))
        return lambda: function(x, y)

    return make


def rows(x):
    return x.view(-1, 1024)


def adam_step(device):
    parameters = list(create("resnet50", device).to(device).parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return torch.optim.Adam(parameters).step


def factorization(function, *shape, positive=False):
    """`function` of random float32 matrices, positive definite ones if asked for."""

    def make(device):
        a = torch.randn(*shape)
        if positive:
            a = a @ a.mT / shape[-1] + torch.eye(shape[-1])
        a = a.to(device)
        return lambda: function(a)

    return make


def linalg_cases():
    """Linear algebra: large matrices, and batches of small ones."""
    for name, function, shape, positive in (
        ("cholesky 2048", torch.linalg.cholesky_ex, (2048, 2048), True),
        ("cholesky 256x64x64", torch.linalg.cholesky_ex, (256, 64, 64), True),
        ("solve 256x64x64", lambda a: torch.linalg.solve_ex(a, a), (256, 64, 64), False),
        ("inv 1024", torch.linalg.inv_ex, (1024, 1024), False),
        ("qr 1024x256", torch.linalg.qr, (1024, 256), False),
        ("eigh 512", torch.linalg.eigh, (512, 512), True),
        ("svd 512", torch.linalg.svd, (512, 512), False),
        ("eigh 1000x16x16", torch.linalg.eigh, (1000, 16, 16), True),
        ("svd 1000x16x16", torch.linalg.svd, (1000, 16, 16), False),
    ):
        yield Case(name, "linear algebra", factorization(function, *shape, positive=positive))


def bandwidth_cases():
    """One operator each, on 2^26 elements of float32; the last number is how many elements move."""
    for name, function, moved in (
        ("copy", lambda x, y: x.copy_(y), 2),
        ("add", lambda x, y: x + y, 3),
        ("gelu", lambda x, y: F.gelu(x), 2),
        ("sum", lambda x, y: x.sum(), 1),
        ("sum dim0", lambda x, y: rows(x).sum(0), 1),
        ("softmax", lambda x, y: torch.softmax(rows(x), 1), 2),
        ("layer_norm", lambda x, y: F.layer_norm(rows(x), (1024,)), 2),
        ("transpose copy", lambda x, y: x.view(8192, -1).t().contiguous(), 2),
        ("cumsum", lambda x, y: rows(x).cumsum(1), 2),
        ("randn", lambda x, y: x.normal_(), 1),
    ):
        yield Case(name, "operators", vectors(function), size=4 * moved * ELEMENTS)
    yield Case("tiny add", "operators", vectors(lambda x, y: x.add_(1), 1))
    yield Case("Adam step resnet50", "operators", adam_step)


def transform(function, dtype, *sizes):
    """`function` of random numbers."""

    def make(device):
        x = torch.randn(*sizes, dtype=dtype).to(device)
        return lambda: function(x)

    return make


def spectrum(device):
    """Frames of ten seconds of sound, 16 times."""
    x, window = torch.randn(16, 160000).to(device), torch.hann_window(400).to(device)
    return lambda: torch.stft(x, 400, 160, window=window, return_complex=True)


def fourier_cases():
    """Fourier transforms; the bytes are those of input and result."""
    for name, function, dtype, sizes, size in (
        ("fft 1024x4096", torch.fft.fft, torch.complex64, (1024, 4096), 16),
        ("fft 1024x4096 complex128", torch.fft.fft, torch.complex128, (1024, 4096), 32),
        ("fft 1024x4096 along dim 0", lambda x: torch.fft.fft(x, dim=0), torch.complex64, (1024, 4096), 16),
        ("rfft2 64x512x512", torch.fft.rfft2, torch.float32, (64, 512, 512), 8),
        ("fft2 16x1024x1024", torch.fft.fft2, torch.complex64, (16, 1024, 1024), 16),
        ("fft 1000x1000", torch.fft.fft, torch.complex64, (1000, 1000), 16),
        ("fft 1x1000", torch.fft.fft, torch.complex64, (1, 1000), 16),
        ("fft 1000x1021 (prime)", torch.fft.fft, torch.complex64, (1000, 1021), 16),
        ("fft 1x1021 (prime)", torch.fft.fft, torch.complex64, (1, 1021), 16),
        ("fft 1x2^20", torch.fft.fft, torch.complex64, (1, 1 << 20), 16),
        ("fft 64x2^20", torch.fft.fft, torch.complex64, (64, 1 << 20), 16),
    ):
        yield Case(name, "Fourier transforms", transform(function, dtype, *sizes), size=size * math.prod(sizes))
    yield Case("stft 16x160000", "Fourier transforms", spectrum)


def cases(batch, size):
    """Every case; `batch` and `size` (height and width) are those of the networks."""
    for name in NETWORKS:
        for training in (False, True):
            yield Case(
                f"{name} {'train' if training else 'eval'} float32",
                "networks",
                network(name, training, False, batch, size),
            )
    for name in MIXED:
        for training in (False, True):
            yield Case(
                f"{name} {'train' if training else 'eval'} bfloat16",
                "mixed precision networks",
                network(name, training, True, batch, size),
            )
    for dtype in (torch.float32, torch.bfloat16):
        for n in (256, 1024, 2048, 4096, 8192):
            bits = torch.finfo(dtype).bits
            yield Case(
                f"matmul {n} {str(dtype)[6:]}",
                f"matmul {str(dtype)[6:]}",
                matmul(n, dtype),
                2 * n**3,
                3 * n * n * bits // 8,
            )
    yield from bandwidth_cases()
    yield from fourier_cases()
    yield from linalg_cases()
