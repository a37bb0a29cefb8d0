#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tries an installed wheel of pytorch_ocl: an addition without any import but torch's, and a network that must learn.

Exits with 1, and says why, when something is missing or wrong."""

import sys

import torch


def train(steps=20):
    """First and last loss of a small convolutional network that learns one batch by heart."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)]
    model = torch.nn.Sequential(*layers).to("ocl")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = torch.randn(16, 1, 8, 8).to("ocl"), torch.randint(10, (16,)).to("ocl")
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def main():
    if not hasattr(torch, "ocl") or not torch.ocl.is_available():
        import pytorch_ocl

        sys.exit(f"no device with torch {torch.__version__}: {pytorch_ocl.unavailable_reason()}")
    total = (torch.ones(3, device="ocl") + 1).tolist()
    first, last = train()
    print(f"torch {torch.__version__} on {torch.ocl.get_device_name()}: {total}, loss {first:.3f} to {last:.3f}")
    if total != [2, 2, 2] or not last < first / 2 or torch.ocl.fallbacks():
        sys.exit(f"wrong results, or operators on the CPU: {torch.ocl.fallbacks()}")


if __name__ == "__main__":
    main()
