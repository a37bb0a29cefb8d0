#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains torchvision's Faster R-CNN to find shapes in drawings made on the way:

    python examples/detection.py --steps 150

Prints the loss, then how many of the shapes of 20 new drawings are found (the class right, intersection over union
above one half) and how many of the boxes are right, and writes a picture of four drawings with the boxes found.
"""

import argparse
import time

import torch

try:
    import pytorch_ocl  # noqa: F401  lets torchvision be imported beside a PyTorch without CUDA
except ImportError:
    pass
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn
from torchvision.ops import box_iou

CLASSES = ("background", "square", "disk", "cross")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl", help="device to train on: ocl, ocl:1, cpu (default: ocl)")
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="training steps (default: 150)")
    parser.add_argument("--batch-size", type=int, default=4, metavar="N", help="drawings in a batch (default: 4)")
    parser.add_argument("--size", type=int, default=160, metavar="N", help="height and width (default: 160)")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of AdamW (default: 0.001)")
    parser.add_argument("--plot", default="detection.png", metavar="FILE", help="(default: detection.png)")
    return parser.parse_args()


def outline(kind, size):
    """Which pixels of a box of `size` belong to a shape."""
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, size)] * 2, indexing="ij")
    if kind == 1:
        return torch.ones(size, size, dtype=torch.bool)
    if kind == 2:
        return x * x + y * y <= 1
    return (x.abs() < 0.3) | (y.abs() < 0.3)


def draw(size, generator):
    """(drawing [3, size, size], {"boxes": [n, 4], "labels": [n]}) with one to three shapes that do not meet."""
    image = 0.1 * torch.rand(3, size, size, generator=generator)
    boxes, labels = [], []
    for _ in range(int(torch.randint(1, 4, (1,), generator=generator))):
        width = int(torch.randint(size // 8, size // 3, (1,), generator=generator))
        x, y = torch.randint(0, size - width, (2,), generator=generator).tolist()
        box = torch.tensor([x, y, x + width, y + width], dtype=torch.float32)
        if boxes and box_iou(box[None], torch.stack(boxes)).max() > 0:
            continue
        kind = int(torch.randint(1, len(CLASSES), (1,), generator=generator))
        color = 0.4 + 0.6 * torch.rand(3, 1, generator=generator)
        image[:, y : y + width, x : x + width][:, outline(kind, width)] = color
        boxes.append(box)
        labels.append(kind)
    return image, {"boxes": torch.stack(boxes), "labels": torch.tensor(labels)}


def train(model, options):
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], options.lr)
    model.train()
    start = time.monotonic()
    for step in range(1, options.steps + 1):
        images, targets = zip(*[draw(options.size, generator) for _ in range(options.batch_size)])
        targets = [{key: value.to(options.device) for key, value in target.items()} for target in targets]
        losses = model([image.to(options.device) for image in images], targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == options.steps:
            print(f"step {step:4}  loss {loss.item():.3f}  {time.monotonic() - start:.1f} s", flush=True)


@torch.no_grad()
def find(model, image, device, least=0.5):
    """{"boxes", "labels", "scores"} on the CPU."""
    result = model([image.to(device)])[0]
    return {key: value[result["scores"] > least].cpu() for key, value in result.items()}


def right(found, target):
    """How many boxes match a shape of their class that no other box took."""
    count, left = 0, list(range(len(target["labels"])))
    for box, label in zip(found["boxes"], found["labels"]):
        for i in left:
            if label == target["labels"][i] and box_iou(box[None], target["boxes"][i][None]).item() > 0.5:
                left.remove(i)
                count += 1
                break
    return count


def save_plot(path, drawings):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(drawings), figsize=(3 * len(drawings), 3))
    for axis, (image, found) in zip(axes, drawings):
        axis.imshow(image.permute(1, 2, 0))
        axis.axis("off")
        for (x0, y0, x1, y1), label, score in zip(found["boxes"].tolist(), found["labels"], found["scores"]):
            axis.add_patch(plt.Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, color="tab:red", lw=2))
            axis.text(x0, y0 - 2, f"{CLASSES[label]} {score:.2f}", color="white", fontsize=8)
    figure.savefig(path, dpi=100, bbox_inches="tight")


def main():
    options = parse_arguments()
    torch.manual_seed(1)
    sizes = {"min_size": options.size, "max_size": options.size}  # drawings as they are
    model = fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=len(CLASSES), **sizes
    )
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.1  # the network's own, 0.01, is for thousands of steps
    model.to(options.device)
    train(model, options)
    model.eval()
    generator = torch.Generator().manual_seed(2)
    shapes = boxes = matches = 0
    drawings = []
    for _ in range(20):
        image, target = draw(options.size, generator)
        found = find(model, image, options.device)
        shapes, boxes = shapes + len(target["labels"]), boxes + len(found["labels"])
        matches += right(found, target)
        drawings.append((image, found))
    print(f"{matches} of {shapes} shapes found, {matches} of {boxes} boxes right")
    save_plot(options.plot, drawings[:4])
    print(f"picture: {options.plot}")


if __name__ == "__main__":
    main()
