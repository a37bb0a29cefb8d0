# SPDX-License-Identifier: MIT
"""Data-parallel training the way the tutorials do it: a process a GPU by mp.spawn, NCCL, device_ids, SyncBatchNorm,
no_sync, GradScaler, reduced metrics, rank 0's checkpoint read by all; then FSDP with device_id and mixed precision."""

import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def setup(rank, world_size, url):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    backend = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    assert backend == "nccl"
    dist.init_process_group(backend, init_method=url, rank=rank, world_size=world_size)


def network():
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))


def reduce_mean(value):
    value = value.detach().clone()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value / dist.get_world_size()


def train(rank, world_size, args):
    setup(rank, world_size, args.dist_url)
    gpu = torch.cuda.current_device()
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    data = TensorDataset(x, x[:, :4].argmax(1))
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)
    loader = DataLoader(data, batch_size=8, sampler=sampler, pin_memory=True)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(network()).cuda(gpu)
    model = DDP(model, device_ids=[gpu], output_device=gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scaler = GradScaler()
    losses = []
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(2, device=gpu)
        for i, (inputs, target) in enumerate(loader):
            inputs, target = inputs.cuda(gpu, non_blocking=True), target.cuda(gpu, non_blocking=True)
            with contextlib.nullcontext() if i % 2 else model.no_sync():
                with autocast():
                    loss = F.cross_entropy(model(inputs), target)
                scaler.scale(loss).backward()
            if i % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
            total += torch.stack([loss.detach(), torch.ones_like(loss)])
        losses.append(reduce_mean(total[0] / total[1]).item())
    if rank == 0:
        torch.save(model.state_dict(), args.checkpoint)
    dist.barrier(device_ids=[gpu])
    model.load_state_dict(torch.load(args.checkpoint, map_location={"cuda:0": f"cuda:{gpu}"}))
    gathered = [None] * world_size
    dist.all_gather_object(gathered, losses)
    assert all(each == losses for each in gathered), gathered

    sharded = FSDP(
        nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)),
        device_id=torch.cuda.current_device(),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        sync_module_states=True,
    )
    adam = torch.optim.AdamW(sharded.parameters(), lr=0.01)
    for inputs, target in loader:
        loss = F.cross_entropy(sharded(inputs.to(gpu)), target.to(gpu))
        loss.backward()
        sharded.clip_grad_norm_(1.0)
        adam.step()
        adam.zero_grad()
    group = dist.new_group(ranks=[0], backend="nccl")
    if rank == 0:
        dist.broadcast(torch.ones(2, device="cuda"), 0, group=group)
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, sharded {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--dist-url", default="tcp://localhost:29511")
    mp.spawn(train, args=(2, parser.parse_args()), nprocs=2, join=True)
