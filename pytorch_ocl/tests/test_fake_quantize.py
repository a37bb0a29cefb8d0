# SPDX-License-Identifier: MIT
"""Fake quantization and training through it, against the CPU."""

import pytest
import torch


def both(function, *tensors):
    """Results and gradients of the floating tensors, on the CPU and on the device."""
    found = []
    for device in ("cpu", "ocl"):
        given = [t.detach().to(device).requires_grad_(t.requires_grad) for t in tensors]
        out = function(*given)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape).to(device)
        if out.requires_grad:
            (out * weights).sum().backward()
        found.append([out.detach().cpu(), *(t.grad.cpu() for t in given if t.grad is not None)])
    for cpu, device in zip(*found):
        torch.testing.assert_close(device, cpu)
    assert not torch.ocl.fallbacks()
    return found[1]


@pytest.fixture(autouse=True)
def fresh():
    torch.ocl.reset_fallbacks()
    torch.manual_seed(0)


# No values half way between two steps, where the last bit decides.
X = (torch.randint(-400, 400, (4, 3, 5, 6), generator=torch.Generator().manual_seed(0)) * 0.1 + 0.013).requires_grad_()
AXIS = 1
SCALES, ZEROS = torch.tensor([0.1, 0.25, 0.03125]), torch.tensor([0, -3, 10], dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_per_tensor(dtype):
    x = X.detach().to(dtype).requires_grad_()
    out, grad = both(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.125, 3, -128, 127), x)
    assert grad.count_nonzero() < grad.numel()  # what is clamped has no gradient
    scale, zero = torch.tensor([0.125]), torch.tensor([3], dtype=torch.int32)
    both(lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -128, 127), x, scale, zero)


@pytest.mark.parametrize("zeros", [ZEROS, ZEROS.float()])
def test_per_channel(zeros):
    both(lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, AXIS, -128, 127), X, SCALES, zeros)


def test_learnable():
    scale, zero = torch.tensor([0.125], requires_grad=True), torch.tensor([3.0], requires_grad=True)
    both(lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, -128, 127, 0.5), X, scale, zero)
    scales, zeros = SCALES.clone().requires_grad_(), ZEROS.float().requires_grad_()
    both(
        lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, AXIS, -128, 127, 0.5),
        X,
        scales,
        zeros,
    )


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_fused_observer(per_channel, symmetric):
    states = {}
    for device in ("cpu", "ocl"):
        n = 3 if per_channel else 1
        low, high = torch.full((n,), float("inf"), device=device), torch.full((n,), -float("inf"), device=device)
        scale, zero = torch.ones(n, device=device), torch.zeros(n, dtype=torch.int32, device=device)
        on, off = torch.ones(1, dtype=torch.long, device=device), torch.zeros(1, dtype=torch.long, device=device)
        results = []
        for step, (observe, fake) in enumerate(((on, on), (on, on), (off, on), (on, off))):
            x = (X.detach().transpose(0, 1) * (1 + step) + 1).to(device)
            y = torch.fused_moving_avg_obs_fake_quant(
                x, observe, fake, low, high, scale, zero, 0.1, -128, 127, 0, per_channel, symmetric
            )
            results += [t.clone().cpu() for t in (y, low, high, scale, zero)]
        states[device] = results
    for i, (cpu, device) in enumerate(zip(states["cpu"], states["ocl"])):
        # One step of rounding where the quotients differ in the last bit.
        torch.testing.assert_close(device, cpu, atol=0.6 if i % 5 == 0 else 1e-5, rtol=1e-4)
        if i % 5 == 0:
            assert (device - cpu).abs().gt(1e-3).float().mean() < 0.01


def test_training_of_a_convolutional_net():
    """What prepare_qat makes: observers and fake quantization between the layers."""
    from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, MovingAveragePerChannelMinMaxObserver

    def model():
        torch.manual_seed(1)
        weights = FusedMovingAvgObsFakeQuantize.with_args(
            observer=MovingAveragePerChannelMinMaxObserver,
            quant_min=-128,
            quant_max=127,
            dtype=torch.qint8,
            qscheme=torch.per_channel_symmetric,
        )

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.head = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Linear(8, 2)
                self.norm = torch.nn.BatchNorm2d(8)
                self.weight, self.before, self.after = weights(), *(FusedMovingAvgObsFakeQuantize() for _ in range(2))

            def forward(self, x):
                y = torch.nn.functional.conv2d(self.before(x), self.weight(self.conv.weight), self.conv.bias, padding=1)
                return self.head(self.after(self.norm(y).relu()).mean((2, 3)))

        return Net()

    x = torch.randn(64, 1, 8, 8)
    labels = (x.mean((1, 2, 3)) > 0).long()
    losses = {}
    for device in ("cpu", "ocl"):
        net = model().to(device)
        optimizer = torch.optim.Adam(net.parameters(), 0.02)
        losses[device] = []
        for _ in range(25):
            loss = torch.nn.functional.cross_entropy(net(x.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["ocl"][-1] < 0.7 * losses["ocl"][0]
    assert abs(losses["ocl"][0] - losses["cpu"][0]) < 1e-3 and abs(losses["ocl"][-1] - losses["cpu"][-1]) < 0.1
    assert not torch.ocl.fallbacks()
