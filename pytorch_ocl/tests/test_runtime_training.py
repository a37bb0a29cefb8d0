# SPDX-License-Identifier: MIT
"""A training step: the host never waits, memory stays flat, data loaders pin."""

import gc

import pytest
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


def network(device, channels=8):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, stride=2, padding=1),
        nn.MaxPool2d(2),
        Block(channels),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.LayerNorm(4 * channels),
        nn.Linear(4 * channels, 4),
    ).to(device)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4),
    "sgd fused": lambda p: torch.optim.SGD(p, lr=0.01, fused=True),
    "adam": lambda p: torch.optim.Adam(p),
    "adam fused": lambda p: torch.optim.Adam(p, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
    "adagrad": lambda p: torch.optim.Adagrad(p),
}


def train_step(model, optimizer, x, y, clip=True):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_never_waits(device, name):
    model = network(device)
    optimizer = OPTIMIZERS[name](model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    x, y = torch.randn(4, 1, 16, 16, device=device), torch.randint(0, 4, (4,), device=device)
    train_step(model, optimizer, x, y)
    torch.ocl.reset_fallbacks()
    torch.ocl.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            loss = train_step(model, optimizer, x, y)
            schedule.step()
        with torch.no_grad():
            correct = (model.eval()(x).argmax(1) == y).sum()
    finally:
        torch.ocl.set_sync_debug_mode("default")
    assert loss.isfinite().item() and 0 <= correct.item() <= 4 and torch.ocl.fallbacks() == {}


def test_a_mixed_precision_step_waits_once(device, recwarn):
    """GradScaler asks whether a gradient was infinite, once a step; nothing else waits."""
    model = network(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("ocl", init_scale=8.0)
    x, y = torch.randn(4, 1, 16, 16, device=device), torch.randint(0, 4, (4,), device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast("ocl", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    step()
    recwarn.clear()
    torch.ocl.set_sync_debug_mode("warn")
    try:
        for _ in range(2):
            step()
    finally:
        torch.ocl.set_sync_debug_mode("default")
    assert 1 <= len([w for w in recwarn if "synchronizing ocl operation" in str(w.message)]) <= 4


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def run_steps(device, steps, settled=100):
    """Device memory held, device memory reserved and resident host memory after `settled` steps and at the
    end."""
    model = network(device)
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(8, 1, 16, 16), torch.randint(0, 4, (8,))
    sizes = []
    for step in range(1, steps + 1):
        train_step(model, optimizer, x.to(device), y.to(device)).item()
        if step in (settled, steps):
            gc.collect()
            torch.ocl.synchronize(device)
            memory = torch.ocl.memory_allocated(device), torch.ocl.memory_reserved(device)
            sizes.append((*memory, resident_bytes()))
    return sizes


@pytest.mark.skipif("not __import__('os').path.exists('/proc/self/statm')", reason="reads /proc")
def test_memory_stays_flat(device):
    settled, end = run_steps(device, 400)
    assert settled[:2] == end[:2]
    assert end[2] - settled[2] < 4 << 20


def test_data_loader_pins(device):
    data = torch.utils.data.TensorDataset(torch.arange(20.0))
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True, num_workers=workers)
        batches = [batch for (batch,) in loader]
        assert all(batch.is_pinned() for batch in batches)
        assert torch.cat([b.to(device, non_blocking=True) for b in batches]).sum().item() == 190
    assert torch.ones(2, device=device).sum().item() == 2  # the workers were forked


def test_checkpointing_repeats_random_numbers(device):
    from torch.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        x = torch.ones(1000, device=device, requires_grad=True)
        y = checkpoint(lambda t: nn.functional.dropout(t, 0.5), x, use_reentrant=reentrant)
        y.sum().backward()
        assert torch.equal(x.grad.cpu(), y.detach().cpu()) and 0 < y.count_nonzero().item() < 1000
