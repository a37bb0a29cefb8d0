# SPDX-License-Identifier: MIT
"""Compiles a network for OpenCL devices into a package, for batches of 2 to 64 images; an input and its result on the
CPU lie beside it.   export.py <package.pt2> [device]"""

import sys

import torch
from torch import nn

import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, stride=2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.LayerNorm(32 * 3 * 3), nn.GELU(), nn.Linear(32 * 3 * 3, 10))

    def forward(self, x):
        return torch.softmax(self.head(self.images(x)), 1)


def main(path, device="ocl:0"):
    torch.manual_seed(0)
    network = Network().eval()
    x = torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        expected = network(x)
        network.to(device)
        batch = torch.export.Dim("batch", min=2, max=64)
        program = torch.export.export(
            network, (torch.randn(8, 3, 16, 16, device=device),), dynamic_shapes=({0: batch},)
        )
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    torch.save((x, expected), f"{path}.tensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
