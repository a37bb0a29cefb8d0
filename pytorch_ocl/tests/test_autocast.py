# SPDX-License-Identifier: MIT
import pytest
import torch

LOWER = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", LOWER)
def test_policies(device, dtype):
    x = torch.randn(4, 4, device=device)
    with torch.autocast("ocl", dtype=dtype):
        product = x @ x
        assert product.dtype == dtype
        assert torch.nn.functional.linear(x, x, x[0]).dtype == dtype
        assert product.softmax(-1).dtype == torch.float32
        assert product.exp().dtype == torch.float32
        assert product.norm().dtype == torch.float32
        assert torch.cat([product, x]).dtype == torch.float32
        assert (product + product).dtype == dtype
        with torch.autocast("ocl", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32
    torch.testing.assert_close(product.float().cpu(), x.cpu() @ x.cpu(), rtol=3e-2, atol=3e-2)


def test_default_dtype_is_float16(device):
    x = torch.ones(2, 2, device=device)
    with torch.autocast("ocl"):
        assert torch.is_autocast_enabled("ocl") and (x @ x).dtype == torch.float16
    assert not torch.is_autocast_enabled("ocl")


def test_unsafe_loss_is_refused(device):
    x = torch.full((3,), 0.5, device=device)
    with torch.autocast("ocl"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        torch.nn.functional.binary_cross_entropy(x, x)


@pytest.mark.parametrize("dtype", LOWER)
def test_training_with_gradient_scaler(device, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), torch.amp.GradScaler("ocl", init_scale=256.0)
    x = torch.randn(32, 8, device=device)
    y, losses = x[:, :1] - x[:, 1:2], []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("ocl", dtype=dtype):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2 and all(p.grad.dtype == torch.float32 for p in model.parameters())


def test_overflow_skips_the_step(device):
    w = torch.nn.Parameter(torch.ones(2, device=device))
    optimizer, scaler = torch.optim.SGD([w], lr=1.0), torch.amp.GradScaler("ocl", init_scale=4.0)
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [1, 1] and scaler.get_scale() == 2
