#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a network on handwritten digits on several OpenCL devices, with a process for each:

    torchrun --nproc-per-node 2 examples/ddp.py

    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 \\
        torchrun --nproc-per-node 2 --max-restarts 3 examples/ddp.py --checkpoint ddp.pt

With --checkpoint, the state is saved after every epoch; where the file exists, training goes on from there. So a job
whose process is killed is started again by torchrun, and loses an epoch at most.

Rank i of a host takes its device ocl:i; where there are more ranks than devices, several share one. Prints the loss
and the test accuracy after every epoch.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from mnist import ConvNet, load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="batch of a rank (default: 32)")
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="epochs (default: 5)")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate of Adam (default: 0.002)")
    parser.add_argument("--checkpoint", metavar="FILE", help="where the state is saved, and read if it exists")
    return parser.parse_args()


def save(path, epoch, model, optimizer):
    """Rank 0 writes a file of its own first: whoever is killed leaves a whole checkpoint behind."""
    if path and dist.get_rank() == 0:
        state = {"epoch": epoch, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, f"{path}.part")
        os.replace(f"{path}.part", path)


def load(path, device, model, optimizer):
    """The epoch of the checkpoint, 0 where there is none. Rank 0 decides: a file may have been written since."""
    there = torch.tensor(int(bool(path) and os.path.exists(path)), device=device)
    dist.broadcast(there, 0)
    if not there:
        return 0
    state = torch.load(path, map_location=device, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]


def accuracy(model, images, labels):
    """Share of right answers over all ranks, each of which tests a part."""
    part = slice(dist.get_rank(), None, dist.get_world_size())
    with torch.no_grad():
        right = (model(images[part]).argmax(1) == labels[part]).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


def main():
    arguments = parse_arguments()
    dist.init_process_group()
    device = torch.device("ocl", int(os.environ["LOCAL_RANK"]) % torch.ocl.device_count())
    torch.ocl.set_device(device)
    train, train_labels, test, test_labels = load_digits(None)
    test, test_labels = test.to(device), test_labels.to(device)
    torch.manual_seed(1)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(ConvNet(train.shape[-1])).to(device)
    model = DistributedDataParallel(model)
    data = TensorDataset(train, train_labels)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, arguments.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), arguments.lr)
    done = load(arguments.checkpoint, device, model, optimizer)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {torch.ocl.get_device_name(device)}", flush=True)
    if done and dist.get_rank() == 0:
        print(f"goes on after epoch {done}", flush=True)

    start = time.monotonic()
    for epoch in range(done + 1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            loss = F.nll_loss(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        save(arguments.checkpoint, epoch, model, optimizer)
        model.eval()
        share = accuracy(model.module, test, test_labels)
        if dist.get_rank() == 0:
            print(
                f"epoch {epoch}  loss {loss.item():.4f}  test accuracy {share:.2%}  {time.monotonic() - start:.1f} s",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
