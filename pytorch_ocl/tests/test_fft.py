# SPDX-License-Identifier: MIT
"""torch.fft, stft and istft against the CPU, with no operator left to the CPU."""

import pytest
import torch


def random(*sizes, dtype=torch.complex64):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(len(sizes)))


def assert_follows_cpu(device, function, x, gradients=True):
    """`function` of x, and the gradient of a weighted sum of it, on the device and on the CPU."""
    torch.ocl.reset_fallbacks()
    results = []
    for place in (device, "cpu"):
        leaf = x.detach().to(place).requires_grad_(gradients)
        y = function(leaf).resolve_conj()
        results.append([y.detach().cpu()])
        if gradients:
            weights = torch.linspace(-1, 1, y.numel(), dtype=y.real.dtype).view(y.shape).to(y.device)
            (torch.view_as_real(y).sum(-1) if y.is_complex() else y).mul(weights).sum().backward()
            results[-1].append(leaf.grad.cpu())
    precise = x.dtype in (torch.float64, torch.complex128)
    for actual, expected in zip(*results, strict=True):
        bound = (1e-13 if precise else 1e-5) * max(1.0, expected.abs().max().item() if expected.numel() else 0)
        torch.testing.assert_close(actual, expected, rtol=0, atol=bound)
    assert not torch.ocl.fallbacks()


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "hfft", "irfft", "fft2", "ifft2", "irfft2", "hfft2", "fftn", "irfftn"])
def test_of_complex_numbers(device, name, norm):
    assert_follows_cpu(device, lambda x: getattr(torch.fft, name)(x, norm=norm), random(3, 10, 12))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "rfft", "ihfft", "rfft2", "ihfft2", "rfftn", "ihfftn", "fft2"])
def test_of_real_numbers(device, name, norm):
    assert_follows_cpu(device, lambda x: getattr(torch.fft, name)(x, norm=norm), random(3, 10, 9, dtype=torch.float32))


@pytest.mark.parametrize("length", [1, 2, 17, 60, 251, 1021, 8192, 10007])
def test_lengths(device, length):
    assert_follows_cpu(device, torch.fft.fft, random(2, length))
    assert_follows_cpu(device, torch.fft.rfft, random(2, length, dtype=torch.float32))
    assert_follows_cpu(device, lambda x: torch.fft.irfft(x, n=length), random(2, length // 2 + 1))


@pytest.mark.parametrize("length", [30, 97, 2048])
def test_double(device, length):
    assert_follows_cpu(device, torch.fft.fft, random(3, length, dtype=torch.complex128))
    assert_follows_cpu(device, torch.fft.rfft, random(3, length, dtype=torch.float64))
    assert_follows_cpu(device, torch.fft.irfft, random(3, length, dtype=torch.complex128))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.fft(x, dim=0),
        lambda x: torch.fft.fft(x, dim=-2),
        lambda x: torch.fft.fftn(x, dim=(0, -1)),
        lambda x: torch.fft.fftn(x, dim=(2, 0, 1)),
        lambda x: torch.fft.fft(x.permute(2, 0, 1)),
        lambda x: torch.fft.fft2(x.transpose(0, 2)[:, ::2]),
        lambda x: torch.fft.fft(x.conj()),
        lambda x: torch.fft.fft(x.expand(3, *x.shape)),
        lambda x: torch.fft.rfft2(x.imag, dim=(0, 2)),
        lambda x: torch.fft.irfftn(x.mT, dim=(1, 0)),
        lambda x: torch.fft.fft(x, n=5),
        lambda x: torch.fft.fft(x, n=50),
        lambda x: torch.fft.irfft(x, n=7),
        lambda x: torch.fft.fftn(x, s=(4, 40), dim=(0, 2)),
    ],
)
def test_dims_and_strides(device, function):
    assert_follows_cpu(device, function, random(6, 14, 9))


@pytest.mark.parametrize("sizes", [(0, 8), (3, 0, 8)])
def test_no_elements(device, sizes):
    x = random(*sizes).to(device)
    assert torch.fft.fft(x).shape == sizes and torch.fft.rfft(x.real).shape == (*sizes[:-1], 5)
    result = torch.fft.irfft(x, norm="forward")
    assert result.shape == (*sizes[:-1], 14) and result.dtype == torch.float32


def test_no_dims(device):
    x = random(3, 4)
    y = torch.ops.aten._fft_c2c(x.to(device), [], 0, True)
    torch.testing.assert_close(y.cpu(), x, rtol=0, atol=0)


def test_all_numbers_of_real_input_and_negative_dims(device):
    x = random(4, 6, dtype=torch.float32)
    y = torch.ops.aten._fft_r2c(x.to(device), [-2, -1], 0, False)
    torch.testing.assert_close(y.cpu(), torch.fft.fft2(x), rtol=1e-5, atol=1e-5)


def test_input_is_kept(device):
    x = random(4, 8, 9).to(device)
    before = x.clone()
    torch.fft.irfftn(x), torch.fft.fftn(x), torch.fft.irfft(x)
    assert torch.equal(torch.view_as_real(x), torch.view_as_real(before))


def test_out(device):
    x = random(4, 12)
    expected, on_device = torch.fft.fft(x), x.to(device)
    for out in (
        torch.empty(4, 12, dtype=torch.complex64, device=device),
        torch.empty(12, 4, dtype=torch.complex64, device=device).mT,
        torch.empty(0, dtype=torch.complex64, device=device),
        on_device,
    ):
        result = torch.fft.fft(on_device, out=out)
        assert result.data_ptr() == out.data_ptr()
        torch.testing.assert_close(out.cpu(), expected, rtol=0, atol=1e-5)
    real = torch.empty(4, 22, device=device)
    torch.fft.irfft(x.to(device), out=real)
    torch.testing.assert_close(real.cpu(), torch.fft.irfft(x), rtol=0, atol=1e-5)


def test_second_derivatives_and_forward_mode(device):
    x = random(5, 6, dtype=torch.complex128).to(device).requires_grad_()
    r = random(5, 6, dtype=torch.float64).to(device).requires_grad_()
    for function, argument in ((torch.fft.fft, x), (torch.fft.irfft, x), (torch.fft.rfft, r)):
        assert torch.autograd.gradcheck(function, (argument,), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(function, (argument,))


@pytest.mark.parametrize("options", [{}, {"center": False}, {"onesided": False}, {"normalized": True}])
def test_stft(device, options):
    def there_and_back(x):
        window = torch.hann_window(256, device=x.device) + 0.1
        bins = torch.stft(x, 256, 100, window=window, return_complex=True, **options)
        return torch.istft(bins * 2, 256, 100, window=window, **options)

    assert_follows_cpu(device, there_and_back, random(2, 4000, dtype=torch.float32))


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda x: torch.fft.fft(x, n=0), r"Invalid number of data points \(0\) specified"),
        (lambda x: torch.fft.fft(x, dim=3), "Dimension out of range"),
        (lambda x: torch.fft.fft(x, norm="none"), "Invalid normalization mode"),
        (lambda x: torch.fft.rfft(x), "rfft expects a real input tensor, but got ComplexFloat"),
        (lambda x: torch.fft.fft2(x, dim=(0, 0)), "FFT dims must be unique"),
        (lambda x: torch.fft.fft(x.real.half()), "Unsupported dtype Half"),
        (lambda x: torch.fft.fft(x, out=x.real), "but found result type Float|doesn't match|can't be cast|output"),
        (lambda x: torch.ops.aten._fft_r2c(x, [0], 0, True), "Expected a floating point tensor"),
        (lambda x: torch.ops.aten._fft_c2c(x.real, [0], 0, True), "Expected a complex tensor"),
        (
            lambda x: torch.ops.aten._fft_c2r(x, [0], 0, 9),
            "Expected 5 complex numbers for a real signal of 9, but got 4",
        ),
    ],
)
def test_errors(device, call, message):
    with pytest.raises((RuntimeError, IndexError), match=message):
        call(random(4, 5).to(device))


def test_memory_of_tables_is_not_the_programs(device):
    x = random(1009).to(device)
    torch.ocl.synchronize()
    before = torch.ocl.memory_allocated()
    torch.fft.fft(x)
    assert torch.ocl.memory_allocated() == before
