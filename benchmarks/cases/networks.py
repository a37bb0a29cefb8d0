# SPDX-License-Identifier: MIT
"""Networks of torchvision with random weights: evaluation, and training steps."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from .common import Case, short

FLOAT32 = (
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
MIXED = ("resnet50", "convnext_small", "vit_b_16", "mobilenet_v2", "efficientnet_v2_s", "densenet121", "swin_t")
# name, batch, size, training
OTHERS = (
    ("resnet50", 1, 224, False),
    ("resnet101", 37, 200, True),
    ("swin_v2_t", 32, 256, False),
    ("maxvit_t", 32, 224, False),
    ("convnext_tiny", 48, 224, True),
)


def create(name, device, **options):
    """A network of torchvision with random weights. Where PyTorch has a device of its own, `ocl` is not loaded beside
    it: PyTorch's autograd serves one accelerator in a process."""
    if device.type == "ocl" or torch.version.cuda is None:
        from pytorch_ocl.models import declare_torchvision

        declare_torchvision()
    import torchvision

    return torchvision.models.get_model(name, weights=None, **options)


def classifier(name, training, batch, size, dtype=torch.float32):
    """make: of 16-bit types by autocast, in channels_last."""

    def make(bench):
        torch.manual_seed(0)
        model = create(name, bench.device)
        layout = {"channels_last": dtype != torch.float32}
        image = bench.image(batch, 3, size, size, **layout)
        options = {"autocast": dtype, "images": True, **layout}
        if not training:
            return bench.evaluation(model, [image], **options)
        label = bench.integers(1000, batch)
        return bench.training(model, [image], lambda scores: F.cross_entropy(scores, label), **options)

    return make


def segmentation(bench):
    model = create("deeplabv3_resnet50", bench.device, weights_backbone=None)
    return bench.evaluation(model, [bench.image(8, 3, 520, 520)], images=True)


def detection(bench):
    model = create("fasterrcnn_resnet50_fpn", bench.device, weights_backbone=None)
    return bench.evaluation(model, [[bench.random(3, 600, 800) for _ in range(4)]])


def video(bench):
    model, label = create("r3d_18", bench.device), bench.integers(400, 8)
    frames = bench.random(8, 3, 16, 112, 112)
    return bench.training(model, [frames], lambda scores: F.cross_entropy(scores, label), autocast=torch.bfloat16)


def generator_and_discriminator(bench):
    """A step of a DCGAN for images of 64 x 64."""
    up, down = (100, 512, 256, 128, 64), (3, 64, 128, 256, 512)
    layers = []
    for i, (inputs, outputs) in enumerate(zip(up, up[1:])):
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, 2 if i else 1, 1 if i else 0, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    generator = nn.Sequential(*layers, nn.ConvTranspose2d(up[-1], 3, 4, 2, 1), nn.Tanh()).to(bench.device)
    layers = []
    for inputs, outputs in zip(down, down[1:]):
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.LeakyReLU(0.2)]
    discriminator = nn.Sequential(*layers, nn.Conv2d(down[-1], 1, 4)).to(bench.device)
    optimizers = [torch.optim.Adam(model.parameters()) for model in (generator, discriminator)]
    real, noise = bench.random(128, 3, 64, 64), bench.random(128, 100, 1, 1)

    def call():
        made = generator(noise)
        optimizers[1].zero_grad()
        (F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(made.detach())).mean()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        F.softplus(-discriminator(made)).mean().backward()
        optimizers[0].step()

    return call


def waveforms(bench):
    """One-dimensional convolutions over sound."""
    layers, inputs = [], 1
    for width, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2)):
        layers += [nn.Conv1d(inputs, 512, width, stride), nn.GELU()]
        inputs = 512
    return bench.training(nn.Sequential(*layers), [bench.random(8, 1, 64000)], lambda y: y.square().mean())


def small_layers(bench):
    """What the host bounds."""
    layers = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8))
    target = bench.random(64, 8)
    return bench.training(layers, [bench.random(64, 64)], lambda y: F.mse_loss(y, target))


def many_rows(bench):
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
    return bench.training(nn.Sequential(*layers), [bench.random(1 << 20, 256)], lambda y: y.mean())


def graph(bench):
    """A convolution over a graph of 200 thousand nodes and 4 million edges."""
    nodes, edges = 200_000, 4_000_000
    source, target = bench.integers(nodes, edges), bench.integers(nodes, edges)
    x, weight = bench.random(nodes, 64), bench.random(64, 64).requires_grad_()

    def call():
        sums = torch.zeros(nodes, 64, device=bench.device).index_add(0, target, (x @ weight)[source])
        torch.autograd.grad(sums.relu().sum(), weight)

    return call


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100_000, 64, mode="sum") for _ in range(26))
        self.top = nn.Sequential(nn.Linear(26 * 64, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, ids):
        return self.top(torch.cat([table(row) for table, row in zip(self.tables, ids)], 1))


def recommender(bench):
    descent = functools.partial(torch.optim.SGD, lr=0.1)
    return bench.training(Recommender(), [bench.integers(100_000, 26, 8192, 4)], lambda y: y.square().mean(), descent)


def cases(batch, size):
    for names, dtype, group in (
        (FLOAT32, torch.float32, "networks"),
        (MIXED, torch.bfloat16, "mixed precision networks"),
    ):
        for name in names:
            for training in (False, True):
                mode = "train" if training else "eval"
                make = classifier(name, training, batch, size, dtype)
                yield Case(f"{name} {mode} {short(dtype)}", group, make, dtype=dtype)
    make = classifier("resnet50", True, 128, 224, torch.float16)
    yield Case("resnet50 b128 train float16", "mixed precision networks", make, dtype=torch.float16)
    for name, batch, size, training in OTHERS:  # noqa: PLR1704  their own sizes
        mode = "train" if training else "eval"
        yield Case(f"{name} b{batch} {mode} float32", "networks", classifier(name, training, batch, size))
    for name, make in (
        ("deeplabv3_resnet50 b8 eval", segmentation),
        ("fasterrcnn_resnet50_fpn b4 eval", detection),
        ("r3d_18 b8 train bfloat16", video),
        ("DCGAN b128 train", generator_and_discriminator),
        ("conv1d stack b8 train", waveforms),
        ("MLP 3 layers b64 train", small_layers),
        ("MLP 8x256 of 1M rows train", many_rows),
        ("graph convolution 200k nodes 4M edges", graph),
        ("embedding bags 26x100k b8192 train", recommender),
    ):
        yield Case(name, "other networks", make)
