#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a network on handwritten digits on an OpenCL device (or any other).

The digits are MNIST's IDX files when --data names their folder, otherwise the 1,797 scans of 8x8 pixels that
scikit-learn ships. Prints the test accuracy after every epoch, writes a plot of the loss, saves a checkpoint, loads it
back and checks that the reloaded network gives the same answers.
"""

import argparse
import gzip
import pathlib
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl", help="device to train on: ocl, ocl:1, cpu, cuda (default: ocl)")
    parser.add_argument("--data", type=pathlib.Path, help="folder with MNIST's IDX files, gzipped or not")
    parser.add_argument("--model", choices=("conv", "vit"), default="conv", help="kind of network (default: conv)")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="training batch (default: 64)")
    parser.add_argument("--test-batch-size", type=int, default=1000, metavar="N", help="test batch (default: 1000)")
    parser.add_argument("--epochs", type=int, metavar="N", help="epochs (default: 15; 40 for vit on the small digits)")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate of Adam (default: 0.002)")
    parser.add_argument("--gamma", type=float, default=0.85, help="learning rate factor an epoch (default: 0.85)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--dry-run", action="store_true", help="stop after one batch")
    parser.add_argument("--log-interval", type=int, default=10, metavar="N", help="batches between loss readings")
    parser.add_argument("--save-model", type=pathlib.Path, default=pathlib.Path("mnist_checkpoint.pt"))
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("mnist_loss.png"))
    return parser.parse_args()


def read_idx(folder, stem):
    """The array of an IDX file, as a uint8 tensor."""
    for name in (stem, stem + ".gz", stem.replace("-idx", ".idx"), stem.replace("-idx", ".idx") + ".gz"):
        path = folder / name
        if path.exists():
            data = (gzip.open if name.endswith(".gz") else open)(path, "rb").read()
            dims = data[3]
            shape = struct.unpack(f">{dims}I", data[4 : 4 + 4 * dims])
            return torch.frombuffer(bytearray(data[4 + 4 * dims :]), dtype=torch.uint8).reshape(shape)
    sys.exit(f"{folder} has no {stem} (or {stem}.gz)")


def load_digits(folder):
    """(train images, train labels, test images, test labels); images are float N,1,H,W with mean 0 and deviation 1."""
    if folder:
        train, test = read_idx(folder, "train-images-idx3-ubyte"), read_idx(folder, "t10k-images-idx3-ubyte")
        labels = [read_idx(folder, f"{part}-labels-idx1-ubyte").long() for part in ("train", "t10k")]
    else:
        import sklearn.datasets

        digits = sklearn.datasets.load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
        images, targets = torch.tensor(digits.images)[order], torch.tensor(digits.target)[order]
        train, test, labels = images[:1437], images[1437:], [targets[:1437].long(), targets[1437:].long()]
    mean, deviation = train.float().mean(), train.float().std()
    train, test = ((part.float() - mean) / deviation for part in (train, test))
    return train.unsqueeze(1), labels[0], test.unsqueeze(1), labels[1]


class ConvNet(nn.Module):
    """Two convolutions and two dense layers; returns log-probabilities."""

    def __init__(self, size):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.norm = nn.BatchNorm2d(64)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.dense1, self.dense2 = nn.Linear(64 * (size // 2) ** 2, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.conv2(F.relu(self.conv1(x)))))
        x = self.dropout1(F.max_pool2d(x, 2)).flatten(1)
        x = self.dropout2(F.relu(self.dense1(x)))
        return F.log_softmax(self.dense2(x), dim=1)


class VisionTransformer(nn.Module):
    """A small transformer over square patches; returns log-probabilities."""

    def __init__(self, size, width=64, heads=4, depth=4):
        super().__init__()
        patch = 2 if size <= 8 else 4
        self.embed = nn.Conv2d(1, width, patch, stride=patch)
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.position
        return F.log_softmax(self.head(self.norm(self.encoder(x).mean(1))), dim=1)


def train_epoch(model, optimizer, images, labels, options, progress, task):
    """One pass over shuffled data; the loss of every --log-interval-th batch."""
    model.train()
    losses = []
    order = torch.randperm(len(images)).split(options.batch_size)
    for step, batch in enumerate(order):
        x, y = images[batch].to(options.device), labels[batch].to(options.device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if step % options.log_interval == 0:
            losses.append(loss.item())
            progress.update(task, description=f"loss {losses[-1]:.4f}")
        progress.advance(task)
        if options.dry_run:
            break
    return losses


@torch.no_grad()
def evaluate(model, images, labels, options):
    """(accuracy in percent, log-probabilities on the CPU) over the test set."""
    model.eval()
    outputs = [model(x.to(options.device)).cpu() for x in images.split(options.test_batch_size)]
    outputs = torch.cat(outputs)
    return 100 * (outputs.argmax(1) == labels).float().mean().item(), outputs


def save_plot(path, losses, accuracies):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, left = plt.subplots(figsize=(7, 4))
    left.plot([i * len(accuracies) / len(losses) for i in range(len(losses))], losses, color="tab:blue", lw=1)
    left.set(xlabel="epoch", ylabel="training loss", yscale="log")
    right = left.twinx()
    right.plot(range(1, len(accuracies) + 1), accuracies, "o-", color="tab:orange", ms=3)
    right.set_ylabel("test accuracy, %")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    options = parse_arguments()
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    if options.device.startswith("ocl"):
        import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only

    torch.manual_seed(options.seed)
    train_x, train_y, test_x, test_y = load_digits(options.data)
    size = train_x.shape[-1]
    epochs = options.epochs or (40 if options.model == "vit" and not options.data else 15)
    if options.model == "vit":
        options.gamma = max(options.gamma, 0.95)
    build = {"conv": ConvNet, "vit": VisionTransformer}[options.model]
    model = build(size).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, options.gamma)
    device = torch.device(options.device)
    where = torch.ocl.get_device_name(device) if device.type == "ocl" else options.device
    print(f"training {build.__name__} on {len(train_x)} digits of {size}x{size} pixels, device: {where}", flush=True)

    losses, accuracies, start = [], [], time.time()
    columns = TextColumn("{task.fields[epoch]}"), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    for epoch in range(1, 2 if options.dry_run else epochs + 1):
        with Progress(*columns, transient=True) as progress:
            batches = (len(train_x) + options.batch_size - 1) // options.batch_size
            task = progress.add_task("", total=batches, epoch=f"epoch {epoch}/{epochs}")
            losses += train_epoch(model, optimizer, train_x, train_y, options, progress, task)
        schedule.step()
        accuracy, outputs = evaluate(model, test_x, test_y, options)
        accuracies.append(accuracy)
        print(
            f"epoch {epoch:2d}  loss {losses[-1]:.4f}  test accuracy {accuracy:.2f} %  {time.time() - start:.1f} s",
            flush=True,
        )

    save_plot(options.plot, losses, accuracies)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epochs}, options.save_model)
    restored = build(size).to(options.device)
    restored.load_state_dict(torch.load(options.save_model, map_location=options.device)["model"])
    _, again = evaluate(restored, test_x, test_y, options)
    torch.testing.assert_close(again, outputs)
    print(f"checkpoint {options.save_model} reloaded: same answers; loss plot: {options.plot}")
    print(f"final test accuracy: {accuracies[-1]:.2f} %")


if __name__ == "__main__":
    main()
