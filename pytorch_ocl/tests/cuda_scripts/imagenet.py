# SPDX-License-Identifier: MIT
"""A classifier trained the way PyTorch's ImageNet example does it: arguments, DataParallel, cudnn, meters, resuming."""

import argparse
import os
import random
import warnings

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.utils.data
from torch.optim.lr_scheduler import StepLR

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int)
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--seed", default=None, type=int)
parser.add_argument("--gpu", default=None, type=int)
parser.add_argument("--resume", default="", type=str)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)) for k in topk]


def main():
    args = parser.parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        torch.cuda.manual_seed_all(args.seed)
        cudnn.deterministic = True
    if args.gpu is not None:
        warnings.warn("You have chosen a specific GPU. This will completely disable data parallelism.")
    model = network()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device")
    if args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
        device = torch.device(f"cuda:{args.gpu}")
    else:
        model = torch.nn.DataParallel(model).cuda()
        device = torch.device("cuda")
    assert device.type == "cuda" and next(model.parameters()).is_cuda
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    start_epoch, best_acc1 = 0, torch.tensor(0.0)
    if args.resume:
        loc = f"cuda:{args.gpu or 0}"
        checkpoint = torch.load(args.resume, map_location=loc)
        start_epoch, best_acc1 = checkpoint["epoch"], checkpoint["best_acc1"].to(loc)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print(f"=> loaded checkpoint (epoch {start_epoch})")
    labels = torch.arange(64) % 4
    images = torch.randn(64, 3, 16, 16) * 0.3
    images[torch.arange(64), labels % 3] += labels.view(-1, 1, 1).float() - 1.5
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=1,
        pin_memory=True,
    )
    first = last = None
    for epoch in range(start_epoch, start_epoch + args.epochs):
        model.train()
        for i, (image, target) in enumerate(loader):
            image = image.to(device, non_blocking=True)
            target = target.cuda(device, non_blocking=True)
            output = model(image)
            loss = criterion(output, target)
            acc1, acc2 = accuracy(output, target, topk=(1, 2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            last = loss.item()
            first = last if first is None else first
        scheduler.step()
        best_acc1 = max(acc1.sum(), best_acc1.to(device))
        torch.save(
            {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
            },
            os.path.join(args.folder, "checkpoint.pth.tar"),
        )
    print(f"Epoch: [{epoch}] Loss {first:.4f} -> {last:.4f} Acc@1 {acc1.item():6.2f} Acc@2 {acc2.item():6.2f}")
    assert last < first or args.resume


if __name__ == "__main__":
    main()
