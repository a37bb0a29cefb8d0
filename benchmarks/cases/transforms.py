# SPDX-License-Identifier: MIT
"""Linear algebra and Fourier transforms."""

import math

import torch

from .common import Case, function_of

MATRICES = (
    ("cholesky 2048", torch.linalg.cholesky_ex, (2048, 2048), True),
    ("cholesky 256x64x64", torch.linalg.cholesky_ex, (256, 64, 64), True),
    ("solve 256x64x64", lambda a: torch.linalg.solve_ex(a, a), (256, 64, 64), False),
    ("inv 1024", torch.linalg.inv_ex, (1024, 1024), False),
    ("qr 1024x256", torch.linalg.qr, (1024, 256), False),
    ("eigh 512", torch.linalg.eigh, (512, 512), True),
    ("svd 512", torch.linalg.svd, (512, 512), False),
    ("eigh 1000x16x16", torch.linalg.eigh, (1000, 16, 16), True),
    ("svd 1000x16x16", torch.linalg.svd, (1000, 16, 16), False),
)
SPECTRA = (
    ("fft 1024x4096", torch.fft.fft, torch.complex64, (1024, 4096)),
    ("fft 1024x4096 complex128", torch.fft.fft, torch.complex128, (1024, 4096)),
    ("fft 1024x4096 along dim 0", lambda x: torch.fft.fft(x, dim=0), torch.complex64, (1024, 4096)),
    ("rfft2 64x512x512", torch.fft.rfft2, torch.float32, (64, 512, 512)),
    ("fft2 16x1024x1024", torch.fft.fft2, torch.complex64, (16, 1024, 1024)),
    ("fft 1000x1000", torch.fft.fft, torch.complex64, (1000, 1000)),
    ("fft 1x1000", torch.fft.fft, torch.complex64, (1, 1000)),
    ("fft 1000x1021 (prime)", torch.fft.fft, torch.complex64, (1000, 1021)),
    ("fft 1x1021 (prime)", torch.fft.fft, torch.complex64, (1, 1021)),
    ("fft 1x2^20", torch.fft.fft, torch.complex64, (1, 1 << 20)),
    ("fft 64x2^20", torch.fft.fft, torch.complex64, (64, 1 << 20)),
)


def factorization(function, shape, positive):
    """make: `function` of random matrices, positive definite ones if asked for."""

    def make(bench):
        a = torch.randn(*shape)
        if positive:
            a = a @ a.mT / shape[-1] + torch.eye(shape[-1])
        a = a.to(bench.device)
        return lambda: function(a)

    return make


def spectrum(bench):
    """Frames of ten seconds of sound, 16 times."""
    x, window = bench.random(16, 160000), torch.hann_window(400).to(bench.device)
    return lambda: torch.stft(x, 400, 160, window=window, return_complex=True)


def cases():
    for name, function, dtype, shape in SPECTRA:
        # Input and result.
        size = 2 * dtype.itemsize * math.prod(shape)
        yield Case(name, "Fourier transforms", function_of(function, shape, dtype=dtype), size=size)
    yield Case("stft 16x160000", "Fourier transforms", spectrum)
    for name, function, shape, positive in MATRICES:
        yield Case(name, "linear algebra", factorization(function, shape, positive))
