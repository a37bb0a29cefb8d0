# SPDX-License-Identifier: MIT
"""What the ranks of test_distributed.py run: each function is one rank's part of a job, in a process of its own."""

import os
import signal
import time

import distributed_callbacks
import distributed_messages
import distributed_training
import torch
import torch.distributed as dist
from distributed_ranks import (
    MOVED,
    REDUCED,
    attempt,
    close,
    device,
    equal,
    has_windows,
    losses,
    perceptron,
    rank,
    sample,
    start,
)
from torch import nn

OPERATIONS = ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"]


def reductions():
    start()
    for dtype in REDUCED:
        for name in OPERATIONS:
            operation, expected = getattr(dist.ReduceOp, name), sample(rank(), dtype)
            ours = expected.to("ocl")
            errors = [attempt(dist.all_reduce, x, operation) for x in (expected, ours)]
            assert errors[0] == errors[1], (dtype, name, errors)
            if not errors[0]:
                equal([ours], [expected], (dtype, name))
        expected = sample(rank(), dtype)
        ours = expected.to("ocl")
        dist.reduce(expected, 1), dist.reduce(ours, 1)
        if rank() == 1:
            equal([ours], [expected], (dtype, "reduce"))
        total = sample(0, dtype, (4,)).to(torch.complex128) + sample(1, dtype, (4,)).to(torch.complex128)
        mine = (total != 0 if dtype == torch.bool else total).to(dtype).chunk(2)[rank()]
        x, out = sample(rank(), dtype, (4,)).to("ocl"), torch.empty(2, dtype=dtype, device="ocl")
        dist.reduce_scatter_tensor(out, x)
        equal([out], [mine], (dtype, "reduce_scatter_tensor"))
        dist.reduce_scatter(out.zero_(), list(x.chunk(2)))
        equal([out], [mine], (dtype, "reduce_scatter"))
    error = attempt(lambda: dist.reduce_scatter_tensor(torch.empty(3, device="ocl"), x.float()))
    assert error.startswith("ocl_gloo:reduce_scatter"), error


def moves():
    start("gloo")
    for dtype in MOVED:
        everyone = [sample(i, dtype) for i in range(2)]
        x = everyone[rank()].to("ocl")
        out = x.clone()
        dist.broadcast(out, 1)
        equal([out], everyone[1:], "broadcast")
        outs = [torch.empty_like(x) for _ in everyone]
        dist.all_gather(outs, x)
        equal(outs, everyone, "all_gather")
        out = torch.empty(8, 3, dtype=dtype, device="ocl")
        dist.all_gather_into_tensor(out, x)
        equal([out], [torch.cat(everyone)], "all_gather_into_tensor")
        outs = [torch.empty_like(x) for _ in everyone] if rank() == 0 else None
        dist.gather(x, outs, 0)
        equal(outs or [], everyone if outs else [], "gather")
        out = torch.empty_like(x)
        dist.scatter(out, [one.to("ocl") for one in everyone] if rank() == 1 else None, 1)
        equal([out], [everyone[rank()]], "scatter")
        mine = [one.chunk(2)[rank()] for one in everyone]
        dist.all_to_all_single(out, x)
        equal([out], [torch.cat(mine)], "all_to_all_single")
        outs = list(torch.empty_like(x).chunk(2))
        dist.all_to_all(outs, list(x.chunk(2)))
        equal(outs, mine, "all_to_all")
        out = torch.empty_like(x)
        if rank() == 0:
            dist.send(x, 1), dist.recv(out, 1, tag=3)
        else:
            assert dist.recv(out) == 0
            dist.send(x, 0, tag=3)
        equal([out], [everyone[1 - rank()]], "send")
    sizes = [[1, 3], [2, 2]]  # [from][to]
    out = torch.empty(sum(row[rank()] for row in sizes), device="ocl")
    x = torch.full((4,), float(rank()), device="ocl")
    dist.all_to_all_single(out, x, [row[rank()] for row in sizes], sizes[rank()])
    assert out.tolist() == [0.0] * sizes[0][rank()] + [1.0] * sizes[1][rank()]
    out = torch.empty(2, device="ocl")
    swap = [dist.P2POp(dist.isend, torch.full_like(out, rank()), 1 - rank()), dist.P2POp(dist.irecv, out, 1 - rank())]
    for work in dist.batch_isend_irecv(swap):
        work.wait()
    assert out.tolist() == [1 - rank()] * 2


def forms():
    """Large, strided and empty tensors, futures, coalesced calls, several groups, functional collectives, objects."""
    import torch.distributed._functional_collectives as functional

    start("cpu:gloo,ocl:gloo")
    large = torch.full((1500001, 3), rank() + 1.0, device="ocl")
    for x in (large, large.clone().view(3, -1).t()):
        work = dist.all_reduce(x, async_op=True)
        assert work.wait() and (x == 3).all() and work.get_future().value()[0].data_ptr() == x.data_ptr()
        x.fill_(rank())
        dist.broadcast(x, 1)
        assert (x == 1).all()
    gapped = torch.zeros(4, 6, device="ocl")
    dist.all_reduce(gapped[:, ::2].add_(rank() + 1))
    assert gapped.sum(0).tolist() == [12, 0, 12, 0, 12, 0] and not dist.all_reduce(torch.empty(0, device="ocl"))
    parameter = nn.Parameter(torch.full((3,), float(rank()), device="ocl"))
    dist.broadcast(parameter, 1)
    assert parameter.tolist() == [1, 1, 1]

    future = dist.all_reduce(torch.ones(3, device="ocl"), async_op=True).get_future()
    assert future.then(lambda done: done.value()[0] * 2).wait().tolist() == [4, 4, 4]
    xs = [torch.full((3,), float(i), device="ocl") for i in range(3)]
    with dist._coalescing_manager():
        for x in xs:
            dist.all_reduce(x)
    assert [x[0].item() for x in xs] == [0, 2, 4]
    outs = [torch.empty(4, device="ocl") for _ in xs]
    with dist._coalescing_manager():
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((2,), float(rank() + i), device="ocl"))
    assert outs[2].tolist() == [2, 2, 3, 3]
    with dist._coalescing_manager():
        for i, x in enumerate(xs):
            dist.reduce_scatter_tensor(x, torch.full((6,), i + 1.0, device="ocl"))
    assert xs[2].tolist() == [6, 6, 6]

    groups = [dist.new_group([0, 1]) for _ in range(3)]
    works = [dist.all_reduce(x, group=group, async_op=True) for x, group in zip(xs, groups)]
    for work in reversed(works):
        work.wait()
    assert [x[0].item() for x in xs] == [4, 8, 12]
    alone = dist.new_group([1])
    if rank() == 1:
        dist.all_reduce(xs[0], group=alone)
    dist.all_reduce(host := torch.ones(3))
    assert host.tolist() == [2, 2, 2]
    assert functional.all_reduce(torch.ones(2, device="ocl"), "sum", dist.group.WORLD).tolist() == [2, 2]
    names = [None, None]
    dist.all_gather_object(names, rank())
    things = [xs[0] if rank() == 0 else None]
    dist.broadcast_object_list(things, 0)
    assert names == [0, 1] and things[0].device.type == "ocl"
    dist.barrier(), dist.barrier(device_ids=[0])


SHARED = [(5003,), (37, 41), (1,)]  # elements: many pieces and an odd rest, fewer than a piece, fewer than ranks


def shared():
    """What goes through shared memory, in small pieces, against the same on the CPU of this process."""
    start(seconds=60)
    ranks = int(os.environ["WORLD_SIZE"])
    for dtype in REDUCED:
        for shape in SHARED:
            everyone = [sample(i, dtype, shape) for i in range(ranks)]
            stacked = torch.stack(everyone)
            wide = stacked if dtype.is_complex else stacked.double()
            expected = {
                "SUM": wide.sum(0),
                "PRODUCT": None if dtype.is_complex else wide.prod(0),
                "MIN": None if dtype.is_complex else wide.amin(0),
                "MAX": None if dtype.is_complex else wide.amax(0),
                "AVG": wide.mean(0) if dtype.is_floating_point else None,
            }
            for name, result in expected.items():
                if result is None:
                    continue
                operation = getattr(dist.ReduceOp, name)
                result = result != 0 if dtype == torch.bool else result.to(dtype)
                x = everyone[rank()].to("ocl")
                dist.all_reduce(x, operation)
                equal([x], [result], (dtype, shape, name))
                if dtype.is_complex and name != "SUM":
                    continue
                flat = torch.cat([result.reshape(-1)] * ranks).to("ocl")
                own = everyone[rank()].reshape(-1).to("ocl")
                out = torch.empty_like(own)
                dist.reduce_scatter_tensor(out, own.repeat(ranks), operation)
                equal([out], [flat[: out.numel()]], (dtype, shape, name, "reduce_scatter"))
                dist.reduce_scatter(out.zero_(), [own] * ranks, operation)
                equal([out], [flat[: out.numel()]], (dtype, shape, name, "reduce_scatter"))
    for dtype in MOVED:
        for shape in SHARED:
            everyone = [sample(i, dtype, shape) for i in range(ranks)]
            x = everyone[rank()].to("ocl")
            out = torch.empty(ranks * x.numel(), dtype=dtype, device="ocl")
            dist.all_gather_into_tensor(out, x)
            equal([out.view(torch.uint8)], [torch.cat([one.reshape(-1) for one in everyone]).view(torch.uint8)], dtype)
            outs = [torch.empty_like(x) for _ in everyone]
            dist.all_gather(outs, x)
            equal([one.view(torch.uint8) for one in outs], [one.view(torch.uint8) for one in everyone], dtype)
            swapped = torch.cat([torch.arange(ranks) + 10 * i for i in range(ranks)]).view(ranks, ranks)
            parts = swapped.to(dtype).unsqueeze(-1).expand(-1, -1, x.numel())  # by giver and taker
            out = torch.empty(ranks, x.numel(), dtype=dtype, device="ocl")
            dist.all_to_all_single(out, parts[rank()].to("ocl"))
            equal([out.view(torch.uint8)], [parts[:, rank()].contiguous().view(torch.uint8)], (dtype, "all_to_all"))
            for root in range(ranks):
                out = x.clone()
                dist.broadcast(out, root)
                equal([out.view(torch.uint8)], [everyone[root].view(torch.uint8)], (dtype, shape, root))
    for root in range(ranks):
        large = sample(root, torch.uint8, ((3 << 20) + 5,))
        out = large.to("ocl") if rank() == root else torch.zeros(len(large) + 1, dtype=torch.uint8, device="ocl")[1:]
        dist.broadcast(out, root)
        equal([out], [large], ("broadcast", root))
    shared_numerics(ranks)
    shared_orders(ranks)
    assert has_windows() in (os.environ["PYTORCH_OCL_SHARED_MEMORY"] == "windows", None)


def shared_numerics(ranks):
    """Sums of 16 bits are rounded once; NaN spreads; all ranks get the same bits."""
    for dtype, large in ((torch.bfloat16, 256.0), (torch.float16, 2048.0)):
        x = torch.full((5000,), large if rank() == 0 else 1.0, dtype=dtype, device="ocl")
        dist.all_reduce(x)
        assert (x == large + ranks - 1).all() if ranks == 3 else True, x[0]
    x = torch.full((9,), 60000.0, dtype=torch.float16, device="ocl")
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert (x == 60000).all()
    for operation in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for where in range(ranks):
            x = torch.tensor([1.0, float("nan") if rank() == where else 2.0], device="ocl")
            dist.all_reduce(x, operation)
            assert x[0] == 1 and x[1].isnan()
    x = torch.randn(30001, generator=torch.Generator().manual_seed(rank())).to("ocl")
    dist.all_reduce(x)
    everyone = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(everyone, x)
    assert all(torch.equal(one, x) for one in everyone)


def shared_orders(ranks):
    """Many calls at once, of several groups and sizes, on tensors whose producers have not run yet."""
    groups = [None, dist.new_group(list(range(ranks))), dist.new_group([ranks - 1, 0])]
    for round_ in range(5):
        works, results = [], []
        for i, group in enumerate(groups):
            if group is dist.GroupMember.NON_GROUP_MEMBER or (i == 2 and rank() not in (0, ranks - 1)):
                continue
            members = 2 if i == 2 else ranks
            for size in (20001, 3, 4096):
                x = torch.full((size,), float(round_), device="ocl").mul_(2).add_(1)
                works.append(dist.all_reduce(x, group=group, async_op=True))
                results.append((x, (2.0 * round_ + 1) * members))
        for work in works:
            work.wait()
        for x, value in results:
            assert (x == value).all(), (round_, x, value)


def unlike_calls():
    """Ranks whose calls differ get an error, not a wrong result; later calls get one, too."""
    start(seconds=30)
    x = torch.ones(50000, device="ocl")
    dist.all_reduce(x)
    error = attempt(lambda: dist.all_reduce(x) if rank() == 0 else dist.broadcast(x, 0))
    assert error, error
    assert attempt(lambda: dist.all_reduce(x))
    print("reported", flush=True)


def sockets_after_all():
    """Ranks that cannot share memory go through Gloo."""
    os.environ["PYTORCH_OCL_SHARED_PIECE"] = str(4096 * (1 + rank()))
    start(seconds=60)
    xs = [torch.full((size + i,), i + rank(), device="ocl") for i, size in enumerate((5000, 5000, 1 << 23, 5000))]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for i, work in enumerate(works):
        work.wait()
        assert (xs[i] == 2 * i + 1).all()
    out = torch.empty(2 * 300, device="ocl")
    dist.all_gather_into_tensor(out, torch.full((300,), float(rank()), device="ocl"))
    assert out.tolist() == [0.0] * 300 + [1.0] * 300
    print("summed", flush=True)


def without_windows():
    """Where one rank wants no windows, all share the host's memory."""
    os.environ["PYTORCH_OCL_SHARED_MEMORY"] = "windows" if rank() == 0 else "host"
    start(seconds=60)
    x = torch.full((5000,), rank() + 1, device="ocl")
    dist.all_reduce(x)
    assert (x == 3).all()
    assert not has_windows()
    print("summed", flush=True)


def small_first():
    """Small collectives are kernels where those of all ranks reach the others', and go through Gloo else."""
    ways = os.environ["TEST_WAYS"].split()
    os.environ["PYTORCH_OCL_SHARED_MEMORY"] = ways[rank()]
    start(seconds=60)
    x = torch.ones(5, device="ocl")
    dist.all_reduce(x)
    assert (x == 2).all()
    dist.all_reduce(x[:0])
    assert has_windows() in (ways == ["windows", "windows"], None), ways
    print("summed", flush=True)


def small_after_large():
    """Small collectives go through shared memory once a large one does; ranks of a GPU and of a CPU agree on pieces."""
    if rank() == 0:
        os.environ["DLPRIM_SIMULATE"] = "gpu=1"
    start(seconds=60)
    for size in (10, 1 << 20, 10, 3 << 21, 1):
        x = torch.full((size,), 1.0 + rank(), device="ocl")
        dist.all_reduce(x)
        assert (x == 3).all()
        dist.broadcast(x.fill_(rank()), 1)
        assert (x == 1).all()
    print("reduced", flush=True)


def two_gpus():
    """Two GPUs add the other's numbers to their own, in pieces; what is no sum goes through the hosts."""
    os.environ["DLPRIM_SIMULATE"] = "gpu=1"
    start(seconds=100)
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for size in (1, 1000, (1 << 20) + 17, (20 << 20) // dtype.itemsize + 3):
            given = torch.randn(2, size).to(dtype)
            x = given[rank()].to("ocl")
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            assert torch.equal(x.cpu(), given[0] + given[1]), (dtype, size)
            both = torch.randn(2, 2 * size).to(dtype)
            part = torch.empty(size, dtype=dtype, device="ocl")
            dist.reduce_scatter_tensor(part, both[rank()].to("ocl"))
            assert torch.equal(part.cpu(), (both[0] + both[1]).view(2, size)[rank()]), (dtype, size)
    given = torch.randn(2, 300, 200)
    x = given[rank()].to("ocl").t()
    dist.all_reduce(x)
    assert torch.equal(x.cpu(), given.sum(0).t())
    for operation, expected in ((dist.ReduceOp.MAX, given.amax(0)), (dist.ReduceOp.AVG, given.mean(0))):
        x = given[rank()].to("ocl")
        dist.all_reduce(x, operation)
        assert torch.equal(x.cpu(), expected)
    counts = torch.full((1 << 20,), 3 - rank(), device="ocl")
    dist.all_reduce(counts)
    assert (counts == 5).all()
    xs = [torch.full((1 << k,), float(rank() + k), device="ocl") for k in (20, 3, 22)]
    for work in [dist.all_reduce(x, async_op=True) for x in xs]:
        work.wait()
    assert all((x == 2 * k + 1).all() for x, k in zip(xs, (20, 3, 22)))
    print("added", flush=True)


def coalesced():
    """Many tensors of several dtypes that a rank broadcasts together, as DistributedDataParallel does with buffers."""
    start(seconds=60)
    torch.manual_seed(rank())
    given = [
        torch.randn(7, 5),
        torch.randint(0, 9, (3,)),
        torch.tensor(float(rank())),
        torch.empty(0),
        torch.randn(6, 4),
        torch.randn(100).to(torch.bfloat16),
        torch.rand(5) > 0.5,
        torch.randn(3, dtype=torch.complex64),
    ]
    group = dist.group.WORLD
    for src in (0, 1):
        for size in (64, 1 << 20):
            xs, ys = [x.to("ocl") for x in given], [x.clone() for x in given]
            xs[4], ys[4] = xs[4].t(), ys[4].t()
            for _ in range(2):
                dist._broadcast_coalesced(group, xs, size, src)
            dist._broadcast_coalesced(group, ys, size, src)
            assert all(torch.equal(x.cpu(), y) for x, y in zip(xs, ys)), (src, size)
    # Memory that is kept for tensors of one shape does not serve others.
    xs = [torch.full((5,), float(rank()), device="ocl") for _ in range(3)]
    dist._broadcast_coalesced(group, xs, 1 << 20, 1)
    for x in xs:
        x.data = torch.full((9,), 3.0 + rank(), device="ocl")
    dist._broadcast_coalesced(group, xs, 1 << 20, 1)
    assert all((x == 4).all() and x.shape == (9,) for x in xs)
    # A module's parameters are not kept a second time.
    held = torch.ocl.memory_allocated()
    large = [torch.full((1 << 20,), float(rank()), device="ocl") for _ in range(6)]
    dist._broadcast_coalesced(group, large, 250 << 20, 1)
    torch.ocl.synchronize()
    assert all((x == 1).all() for x in large)
    del large
    end = time.monotonic() + 10
    while torch.ocl.memory_allocated() > held and time.monotonic() < end:  # other threads let go of them
        time.sleep(0.05)
    assert torch.ocl.memory_allocated() <= held
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).to("ocl")
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    for _ in range(3):
        ddp(torch.randn(2, 3, 8, 8, device="ocl")).sum().backward()
    before = model[1].running_mean.clone()
    dist.broadcast(before, 0)
    model.eval()
    ddp.train(False), ddp(torch.randn(2, 3, 8, 8, device="ocl"))
    assert torch.equal(model[1].running_mean, before) and model[1].num_batches_tracked == 3
    print("broadcast", flush=True)


def dropped():
    """What only collectives hold is dropped while the main thread has the interpreter and its queue is full."""
    start(seconds=100)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    # DTensor's operators keep the interpreter while they run.
    spread = distribute_tensor(torch.ones(2, device="ocl"), init_device_mesh("ocl", (2,)))
    for _ in range(2):
        if rank() == 1:
            time.sleep(2)  # the other's queue fills meanwhile
        for _ in range(20):
            dist.all_reduce(torch.ones(1 << 20, device="ocl"))
        for _ in range(4000):
            zeros = torch.zeros_like(spread)
    assert zeros.full_tensor().tolist() == [0, 0]
    dist.all_reduce(torch.ones(1 << 20, device="ocl"), async_op=True)
    dist.destroy_process_group()
    print("dropped", flush=True)


def killed():
    """A rank that is killed in the midst of collectives: the others hear of it long before the timeout."""
    start(seconds=100)
    x = torch.ones(1 << 20, device="ocl")
    dist.all_reduce(x)
    torch.ocl.synchronize()
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    error = attempt(lambda: [dist.all_reduce(x) for _ in range(100)])
    assert error and time.monotonic() - began < 30, error
    print(error, flush=True)


def leaves():
    """The interpreter shuts down while collectives that nobody waits for let go of what Python knows."""
    start(seconds=100)
    for _ in range(40):
        dist.all_reduce(torch.ones(1 << 16, device="ocl"), async_op=True)


def aborted():
    """abort() ends what waits, with an error."""
    start(seconds=100)
    x = torch.ones(1 << 20, device="ocl")
    dist.all_reduce(x)
    torch.ocl.synchronize()
    if rank() == 0:
        work = dist.all_reduce(x, async_op=True)
        dist.distributed_c10d._abort_process_group()
        assert attempt(work.wait) == "The process group was aborted"
    else:
        time.sleep(8)
    print("reported", flush=True)
    os._exit(0)


def fifty_steps():
    """Losses of DistributedDataParallel and FSDP2 are those of one process over 50 steps."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    start()
    expected = losses(perceptron().to(device()), 1, 0, steps=50)
    close(losses(DistributedDataParallel(perceptron().to(device())), steps=50), expected)
    model = perceptron().to(device())
    mesh = init_device_mesh("ocl", (2,))
    for layer in model[::2]:
        fully_shard(layer, mesh=mesh)
    close(losses(fully_shard(model, mesh=mesh), steps=50), expected)


def backends():
    """Every way to name the backend serves both kinds of tensors; groups leave no thread and no descriptor."""

    def held():
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    def use(name, number):
        start(name, name=f"store{number}")
        for kind in ("cpu", "ocl"):
            dist.all_reduce(x := torch.ones(3, device=kind))
            assert x.tolist() == [2, 2, 2]
        dist.destroy_process_group()

    for number, name in enumerate([None, "gloo", "cpu:gloo,ocl:gloo", "ocl_gloo", "cpu:gloo,ocl:ocl_gloo"]):
        use(name, number)
    before = held()
    for number in range(10, 16):
        use("gloo", number)
    for _ in range(100):
        if held() <= before:
            return
        time.sleep(0.05)
    raise AssertionError((before, held()))


def failures():
    """Time-outs, and a rank that is killed."""
    start(seconds=4)
    x = torch.ones(3, device="ocl")
    dist.all_reduce(x)
    if rank() == 1:
        time.sleep(5)
        os.kill(os.getpid(), signal.SIGKILL)
    for collective in (lambda: dist.all_reduce(x), lambda: dist.recv(x, 1), lambda: dist.all_reduce(x)):
        began = time.monotonic()
        assert attempt(collective) and time.monotonic() - began < 20
    print("reported", flush=True)


def left_behind():
    """A process that ends with its group, and with a collective under way."""
    start(seconds=10)
    dist.all_reduce(torch.ones(3, device="ocl"))
    works.append(dist.all_reduce(torch.ones(3, device="ocl"), async_op=True))
    print("end", flush=True)


works = []


def captured():
    """What a group does is refused in a graph, before the other ranks hear of it."""
    start()
    x, parts = torch.ones(70000, device=device()), [torch.empty(70000, device=device()) for _ in range(2)]
    other = 1 - rank()
    calls = [
        (dist.all_reduce, x), (dist.broadcast, x, 0), (dist.all_gather, parts, x), (dist.reduce_scatter, x, parts),
        (dist.all_to_all, parts, parts[::-1]), (dist.gather, x, parts if rank() == 0 else None),
        (dist.send, x, other), (dist.recv, x, other),
    ]  # fmt: skip
    for call, *arguments in calls:
        for _ in range(2):  # before the group's first call of this kind, and after it
            try:
                with torch.ocl.graph(torch.ocl.OCLGraph()):
                    call(*arguments)
            except RuntimeError as error:
                assert "not permitted when stream is capturing" in str(error), (call, error)
            else:
                raise AssertionError(call)
            if call not in (dist.send, dist.recv):
                call(*arguments)
    (dist.send if rank() == 0 else dist.recv)(x, other)
    x.fill_(rank() + 1)
    dist.all_reduce(x)
    equal([x], [torch.full((70000,), 3.0)], "after graphs")


def run(job):
    """Of a rank; some jobs leave their groups behind."""
    {**globals(), **vars(distributed_callbacks), **vars(distributed_messages), **vars(distributed_training)}[job]()
    if dist.is_initialized() and job not in ("left_behind", "failures", "killed", "killed_sender", "unlike_calls"):
        dist.destroy_process_group()
