# SPDX-License-Identifier: MIT
"""Jobs of test_distributed_messages.py: messages between two ranks, and the collectives that they make up."""

import os
import random
import signal
import time

import torch
import torch.distributed as dist
from distributed_ranks import MOVED, attempt, device, equal, rank, sample, start


def ranks():
    return int(os.environ["WORLD_SIZE"])


def content(key, size, dtype=torch.uint8):
    """Bytes that every rank makes alike."""
    generator = torch.Generator().manual_seed(key)
    bits = torch.randint(0, 2 if dtype == torch.bool else 256, (size * dtype.itemsize,), generator=generator)
    return bits.to(torch.uint8).view(dtype)


def same(ours, expected):
    assert ours.device.type == "ocl"
    ours = ours.cpu().contiguous()
    assert torch.equal(ours.flatten().view(torch.uint8), expected.contiguous().flatten().view(torch.uint8))


def ways():
    """How many messages this process has sent in letters, through Gloo behind them, in the host's memory and in the
    devices'."""
    return torch.ops.pytorch_ocl.sent_messages()


def check_way():
    """Large messages went where the test's environment says, but for the first ones, and those that find no free piece
    where pieces are small."""
    inlined, followed, by_host, by_device = ways()
    way = os.environ["PYTORCH_OCL_SHARED_MEMORY"]
    few = "PYTORCH_OCL_SHARED_PIECE" in os.environ
    if way == "0":
        assert not any(ways()), ways()
    elif way == "windows" and torch.ocl.get_device_properties(device()).type == "cpu":
        assert by_device > (4 if few else by_host + followed) and inlined, ways()
    elif way != "windows":
        assert by_host > (4 if few else followed) and inlined and not by_device, ways()


def meet(group=None):
    """Each rank learns that it reaches the others' memory."""
    others = [i for i in range(ranks()) if i != rank()]
    for size in (1, 70000, 70001):
        received = [torch.empty(size, dtype=torch.uint8, device="ocl") for _ in others]
        works = [dist.irecv(x, i, group=group) for x, i in zip(received, others)]
        works += [dist.isend(torch.full_like(received[0], rank()), i, group=group) for i in others]
        for work in works:
            work.wait()
        assert all((x == i).all() for x, i in zip(received, others))


# Bytes around what letters hold, pieces (of 64 KiB and of 4 MiB) and pools (of 64 small pieces).
SIZES = [0, 1, 3, 65535, 65536, 65537, 131072, 131073, (1 << 20) - 1, (4 << 20) + 65536, (4 << 20) + 65537, 9000001]


def messages():
    """Two ranks: each way round, in other orders than sent, of all dtypes, strided, in several groups."""
    start(seconds=100)
    other = 1 - rank()
    meet()
    for size in SIZES:  # both expect, then both send, then both wait: nobody waits for the other to fetch
        x, out = content(rank(), size).to("ocl"), torch.empty(size, dtype=torch.uint8, device="ocl")
        expected = dist.irecv(out, other)
        dist.send(x, other)
        x.zero_()
        expected.wait()
        same(out, content(other, size))
    for dtype in MOVED:
        for count in (5, 70001):
            out = torch.empty(count, dtype=dtype, device="ocl")
            if rank() == 0:
                dist.send(content(count, count, dtype).to("ocl"), 1, tag=7)
                dist.recv(out, 1, tag=9)
            else:
                dist.recv(out, 0, tag=7)
                dist.send(out, 0, tag=9)
            same(out, content(count, count, dtype))
    wide = content(3, 600 * 500, torch.float32).view(600, 500)
    target = torch.zeros(600, 1000, device="ocl")
    for given, out in ((wide.t(), target[:500, :600]), (wide[:, ::2], target[:, ::4]), (wide[3], target[:, 0][:500])):
        strided = wide.to("ocl").as_strided(given.size(), given.stride(), given.storage_offset())
        for work in [dist.irecv(out, other), dist.isend(strided, other)]:
            work.wait()
        same(out, given)
    assert (target[:, 1::4][500:] == 0).all()

    groups = [None, dist.new_group([0, 1]), dist.new_group([1, 0])]
    for group in groups[1:]:
        meet(group)
    outs, works = [], []
    for number in range(12):
        for at, group in enumerate(groups):
            x = content(100 * number + at, 150000 + number).to("ocl")
            works.append(dist.isend(x, other, group=group, tag=number % 5))
    for number in sorted(range(12), key=lambda n: (-(n % 5), n)):  # those of one tag match in order
        for at, group in enumerate(groups):
            outs.append((torch.empty(150000 + number, dtype=torch.uint8, device="ocl"), 100 * number + at))
            works.append(dist.irecv(outs[-1][0], other, group=group, tag=number % 5))
    for work in reversed(works):
        work.wait()
    for out, key in outs:
        same(out, content(key, out.numel()))
    out = torch.empty(300000, device="ocl")
    swap = [dist.P2POp(dist.isend, torch.full_like(out, rank()), other), dist.P2POp(dist.irecv, out, other)]
    for work in dist.batch_isend_irecv(swap):
        work.wait()
    assert (out == other).all()
    last = (1 << 30) - (1 << 21) - 1
    work = dist.isend(out.clone(), other, tag=last)
    dist.recv(out, other, tag=last), work.wait()
    assert (out == rank()).all()
    for tag in (-1, last + 1):
        assert attempt(lambda tag=tag: dist.send(out, other, tag=tag)).startswith("expected a tag from 0 to 1071644")
    torch.ocl.synchronize()
    check_way()
    dist.barrier()


def any_message():
    """Random messages of all ranks to all, received in another order, some of them from any rank."""
    start(seconds=100)
    meet()
    for round_ in range(int(os.environ.get("TEST_ROUNDS", "6"))):
        plan = random.Random(round_)  # the same on all ranks
        mine = random.Random(1000 * rank() + round_)
        pairs = [(a, b) for a in range(ranks()) for b in range(ranks()) if a != b]
        sent = []
        for _ in range(plan.randrange(1, 30)):
            size, anyone = plan.choice([*SIZES, plan.randrange(300000)]), plan.random() < 0.2
            sent.append((*plan.choice(pairs), plan.randrange(4), size, anyone and size > 0))  # Gloo expects some bytes
        works, received, queues = [], [], {}
        for number, (source, target, tag, size, anyone) in enumerate(sent):
            if target == rank():
                # From anyone: under a tag of its own, as else it is open which message matches.
                queue = (None, 100 + number) if anyone else (source, tag)
                queues.setdefault(queue, []).append((number, source, size))
        order = [queue for queue, all_ in queues.items() for _ in all_]
        mine.shuffle(order)
        outgoing = [entry for entry in enumerate(sent) if entry[1][0] == rank()]
        while order or outgoing:
            if outgoing and (not order or mine.random() < 0.5):
                number, (_, target, tag, size, anyone) = outgoing.pop(0)
                x = content(1000 * round_ + number, size).to("ocl")
                works.append(dist.isend(x, target, tag=100 + number if anyone else tag))
            else:
                queue = order.pop()
                number, source, size = queues[queue].pop(0)
                out = torch.zeros(size, dtype=torch.uint8, device="ocl")
                if mine.random() < 0.3:
                    out = torch.zeros(size, 2, dtype=torch.uint8, device="ocl")[:, 0]
                work = dist.irecv(out, queue[0], tag=queue[1])
                works.append(work)
                received.append((number, source, out, work if queue[0] is None else None))
        mine.shuffle(works)
        for work in works:
            work.wait()
        for number, source, out, work in received:
            same(out, content(1000 * round_ + number, out.numel()))
            assert work is None or work._source_rank() == source
    check_way()
    dist.barrier()


def wrong_ranks():
    """Ranks that are not of the group are errors, which name them."""
    start(seconds=60)
    x = torch.ones(3, device="ocl")
    for wrong in (2, -3, 1000):
        rooted = (dist.broadcast, dist.reduce, lambda x, root: dist.gather(x, None, root))
        for call in (dist.send, dist.isend, dist.recv, dist.irecv, *rooted):
            try:
                call(x, wrong)
            except ValueError as error:
                assert f"from 0 to 1 of the group, but got {wrong}" in str(error), error
            else:
                raise AssertionError("no error")
    dist.barrier()
    print("reported", flush=True)


def wrong_sizes():
    """A message of other bytes than the tensor is an error that names both; later ones are as they should be."""
    start(seconds=60)
    meet()
    for sent, expected in ((10, 12), (70001, 70000), (3, 5000000), (5000000, 3), (70000, 0), (0, 9)):
        if rank() == 0:
            dist.send(torch.ones(sent, dtype=torch.uint8, device="ocl"), 1)
        else:
            try:
                dist.recv(torch.ones(expected, dtype=torch.uint8, device="ocl"), 0)
            except RuntimeError as error:
                assert f"sent {sent} bytes" in str(error) and f"in has {expected}" in str(error), error
            else:
                raise AssertionError("no error")
    for size in (7, 5000000):
        x = torch.full((size,), float(rank()), device="ocl")
        for _ in range(3):
            if rank() == 0:
                dist.send(x, 1)
            else:
                dist.recv(x, 0)
        assert (x == 0).all()
    if rank() == 0:
        check_way()
    dist.barrier()
    print("reported", flush=True)


def killed_sender():
    """A rank that is killed in the midst of a message, or before it: the other gets an error soon."""
    start(seconds=100)
    meet()
    x = torch.ones(20 << 20, dtype=torch.uint8, device="ocl")
    if rank() == 1:
        work = dist.isend(x, 0)
        work.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    expected = dist.irecv(x, 1)
    time.sleep(1.5)
    began = time.monotonic()
    errors = [attempt(expected.wait), attempt(lambda: dist.recv(x, 1)), attempt(lambda: dist.send(x, 1))]
    assert errors[1] and errors[2] and time.monotonic() - began < 30, errors
    if os.environ["PYTORCH_OCL_SHARED_MEMORY"] != "0":
        assert errors[0], "a message of which most was never sent"
    print("reported", flush=True)


def sent_and_gone():
    """A message arrives though its sender ends at once, and its receiver fetches it later."""
    start(seconds=100)
    meet()
    size = 3 << 20
    if rank() == 1:
        dist.send(content(1, size).to("ocl"), 0)
        dist.destroy_process_group()
        print("gone", flush=True)
        os._exit(0)
    out = torch.empty(size, dtype=torch.uint8, device="ocl")
    expected = dist.irecv(out, 1)
    time.sleep(3)
    expected.wait()
    same(out, content(1, size))
    print("arrived", flush=True)
    os._exit(0)


def gathered():
    """Collectives that messages make up, with parts of random sizes, against what every rank knows."""
    start(seconds=100)
    everyone = range(ranks())
    plan = random.Random(5)
    for round_ in range(12):
        dtype = plan.choice(MOVED)
        most = plan.choice((3, 3000, 300000))
        sizes = [[plan.randrange(most) for _ in everyone] for _ in everyone]  # [from][to]

        def part(source, target, dtype=dtype, sizes=sizes, round_=round_):
            return content(source + 10 * target + 100 * round_, 2 * sizes[source][target], dtype).view(-1, 2)

        mine = [part(rank(), i) for i in everyone]
        expected = [part(i, rank()) for i in everyone]
        taken, given = [len(x) for x in expected], [len(x) for x in mine]
        out = torch.zeros(sum(taken), 2, dtype=dtype, device="ocl")
        x = torch.cat([one.view(torch.uint8) for one in mine]).view(dtype).to("ocl")
        work = dist.all_to_all_single(out, x, taken, given, async_op=True)
        work.wait()
        same(out, torch.cat([one.view(torch.uint8) for one in expected]).view(dtype))
        outs = [torch.zeros(2, n, dtype=dtype, device="ocl").t() for n in taken]  # strided
        dist.all_to_all(outs, [one.to("ocl") for one in mine])
        for one, other in zip(outs, expected):
            same(one, other)
        length = plan.randrange(1, most + 1)
        all_ = [content(1000 * round_ + i, length, dtype) for i in everyone]
        for root in everyone:
            outs = [torch.zeros(length, dtype=dtype, device="ocl") for _ in everyone] if rank() == root else None
            dist.gather(all_[rank()].to("ocl"), outs, root)
            for one, other in zip(outs or [], all_):
                same(one, other)
            out = torch.zeros(length, dtype=dtype, device="ocl")
            given = [one.to("ocl") for one in all_] if rank() == root else None
            work = dist.scatter(out, given, root, async_op=True)
            work.wait()
            same(out, all_[rank()])
    for root in everyone:
        for count in (10, 50000):
            kept = sample(rank(), torch.float32, (count,))
            x = kept.to("ocl")
            dist.reduce(x, root)
            total = sum(sample(i, torch.float32, (count,)) for i in everyone)
            equal([x], [total if rank() == root else kept], ("reduce", count))
    x = torch.ones(ranks() * 5, device="ocl")
    error = attempt(lambda: dist.all_to_all_single(x, x.clone(), [1] * ranks(), [5] * ranks()))
    assert error.startswith("Split sizes doesn't match"), error
    dist.barrier()
    check_way()


def unlike_parts():
    """A part that its receiver expects of another size is an error; what follows is as it should be."""
    start(seconds=60)
    other = 1 - rank()
    given = [0, 0]
    given[other] = 70000 + rank()
    for size in (70001 - other, 70000 + other):  # wrong, then right
        taken = [0, 0]
        taken[other] = size
        out, x = torch.zeros(size, device="ocl"), torch.ones(70000 + rank(), device="ocl")
        error = attempt(lambda out=out, x=x, taken=taken: dist.all_to_all_single(out, x, taken, given))
        assert bool(error) == (size != 70000 + other), error
        assert error is None or "of the group sent" in error, error
    assert (out == 1).all()
    dist.barrier()
    print("reported", flush=True)
