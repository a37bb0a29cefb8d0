# SPDX-License-Identifier: MIT
"""Jobs of test_distributed.py with callbacks of futures, which run in threads of a process group."""

import functools
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import torch
import torch.distributed as dist
from distributed_ranks import close, device, equal, losses, perceptron, start


def waiting_callbacks():
    """Callbacks of futures that wait for another collective, more of them than a group has threads."""
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    start(seconds=60)
    later = []
    first = [dist.all_reduce(torch.full((5,), float(i), device="ocl"), async_op=True).get_future() for i in range(6)]
    called = threading.Event()

    def add(future):
        called.wait()
        return future.value()[0] + later[0].wait()[0]

    with ThreadPoolExecutor(len(first)) as threads:  # then() itself runs the callback of a future that has ended
        sums = [threads.submit(future.then, add) for future in first]
        later.append(dist.all_reduce(torch.full((5,), 10.0, device="ocl"), async_op=True).get_future())
        called.set()
    values = [each.result().wait() for each in sums]
    equal(values, [torch.full((5,), 2.0 * i + 20) for i in range(6)], "waited for")

    class State(PowerSGDState):
        """One that may be referred to weakly."""

    def compressed(where):
        model, state = DistributedDataParallel(perceptron().to(where)), State(None, 2, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook)
        result, kept = losses(model, on=where), weakref.ref(state)
        del model, state
        # Callbacks own the group. PyTorch's Gloo aborts where one that its thread still drops is the last owner.
        end = time.monotonic() + 30
        while kept():
            assert time.monotonic() < end, "callbacks are still there"
            gc.collect()
            time.sleep(0.01)
        return result

    with mock.patch("torch.cuda.is_available", return_value=False):  # the hook would have CUDA wait for any device
        close(compressed(device()), compressed("cpu"))


def group_dropped_by_a_callback():
    """The last owner of a process group is a callback, which runs in one of the group's threads."""
    start(seconds=60)
    for posted in (False, True):
        group, called, ended = dist.new_group(), threading.Event(), threading.Event()
        future = dist.all_reduce(torch.ones(5, device="ocl"), group=group, async_op=True).get_future()
        others = [dist.all_reduce(torch.ones(5, device="ocl"), group=group, async_op=True) for _ in range(3 * posted)]

        class Kept:
            def __init__(self, group):
                self.group = group

            def __del__(self, ended=ended):
                del self.group
                ended.set()

        def wait(future, kept, called=called):
            if threading.current_thread() is not threading.main_thread():  # where it had not ended yet
                called.wait()
            return future.value()

        future.then(functools.partial(wait, kept=Kept(group)))
        for work in others:
            work.wait()
        dist.destroy_process_group(group)
        del future, others, group
        called.set()
        assert ended.wait(30)
    x = torch.ones(5, device="ocl")
    dist.all_reduce(x)
    equal([x], [torch.full((5,), float(dist.get_world_size()))], "afterwards")
