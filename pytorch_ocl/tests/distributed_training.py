# SPDX-License-Identifier: MIT
"""Jobs of test_distributed.py that train: replicas, sharded and tensor-parallel networks, a pipeline, checkpoints."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from distributed_ranks import close, device, losses, network, perceptron, rank, start
from torch import nn


def data_parallel():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    start()
    expected = losses(network().to(device()), 1, 0)
    for options in (
        {},
        {"gradient_as_bucket_view": True, "device_ids": [device()]},
        {"bucket_cap_mb": 0.001, "static_graph": True},
    ):
        model = nn.SyncBatchNorm.convert_sync_batchnorm(network()).to(device())
        close(losses(DistributedDataParallel(model, **options)), expected)
    if os.environ.get("TEST_SPREAD"):
        return
    model = DistributedDataParallel(perceptron().to("ocl"))
    sharded = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
    close(losses(model, optimizer=sharded), losses(perceptron().to("ocl"), 1, 0))

    model.zero_grad()
    with model.no_sync():
        model(torch.full((2, 16), rank() + 1.0, device="ocl")).sum().backward()
    own = model.module[0].weight.grad.clone()
    model(torch.full((2, 16), rank() + 1.0, device="ocl")).sum().backward()
    dist.broadcast(own, 0)
    both = model.module[0].weight.grad.clone()
    dist.broadcast(both, 0)
    torch.testing.assert_close(model.module[0].weight.grad, both)
    with model.join():
        for _ in range(2 + rank()):
            model(torch.ones(2, 16, device="ocl")).sum().backward()

    class Partial(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(x)

    model = DistributedDataParallel(Partial().to("ocl"), find_unused_parameters=True)
    for _ in range(2):
        model(torch.ones(2, 4, device="ocl")).sum().backward()
    assert model.module.unused.weight.grad is None


def sharded():
    """FSDP2 and FSDP1, tensor parallel and a pipeline, checkpoints."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (
        CPUOffloadPolicy,
        FullyShardedDataParallel,
        MixedPrecision,
        MixedPrecisionPolicy,
        fully_shard,
    )
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    start()
    expected = losses(perceptron().to("ocl"), 1, 0)
    mesh = init_device_mesh("ocl", (2,))

    def shard(**options):
        model = perceptron() if "offload_policy" in options else perceptron().to("ocl")
        for layer in model[::2]:
            fully_shard(layer, mesh=mesh, **options)
        return fully_shard(model, mesh=mesh, **options)

    close(losses(shard()), expected)
    close(losses(shard(offload_policy=CPUOffloadPolicy())), expected)
    close(losses(shard(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))), expected, 0.1)
    for options, tolerance in (({}, 1e-3), ({"mixed_precision": MixedPrecision(torch.bfloat16)}, 0.1)):
        model = FullyShardedDataParallel(
            perceptron(), device_id=device(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), **options
        )
        close(losses(model), expected, tolerance)

    model = parallelize_module(perceptron().to("ocl"), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    close(losses(model, 1, 0, torch.optim.Adam(model.parameters(), 1e-2, foreach=False)), expected)
    x = torch.arange(24.0).view(6, 4)
    whole = distribute_tensor(x.to("ocl"), mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).full_tensor()
    assert torch.equal(whole.cpu(), x)

    half = perceptron().to("ocl")[:2] if rank() == 0 else perceptron().to("ocl")[2:]
    schedule = Schedule1F1B(PipelineStage(half, rank(), 2, device()), 4, loss_fn=F.mse_loss)
    batch, parts = torch.ones(8, 16, device="ocl"), []
    schedule.step(batch) if rank() == 0 else schedule.step(target=torch.zeros(8, 8, device="ocl"), losses=parts)
    whole = perceptron().to("ocl")(batch).square().mean().item()
    assert rank() == 0 or abs(sum(part.item() for part in parts) / 4 - whole) < 1e-5

    first, path = shard(), f"{os.environ['TEST_FOLDER']}/checkpoint"
    optimizer = torch.optim.Adam(first.parameters(), 1e-2)
    losses(first, optimizer=optimizer, steps=3)
    model_state, optimizer_state = get_state_dict(first, optimizer)
    checkpoint.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=path)
    second = shard()
    other = torch.optim.Adam(second.parameters(), 1e-2)
    model_state, optimizer_state = get_state_dict(second, other)
    checkpoint.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=path)
    set_state_dict(second, other, model_state_dict=model_state, optim_state_dict=optimizer_state)
    close(losses(second, optimizer=other, steps=3), losses(first, optimizer=optimizer, steps=3), 1e-6)
    plain = perceptron().to("ocl").state_dict()  # the same checkpoint, not sharded
    checkpoint.load({"model": plain}, checkpoint_id=path)
    assert plain["0.weight"].shape == (32, 16) and plain["0.weight"].device.type == "ocl"
