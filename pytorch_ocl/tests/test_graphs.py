# SPDX-License-Identifier: MIT
"""Graphs: torch.ocl.OCLGraph, torch.ocl.graph, make_graphed_callables; torch.accelerator.Graph where there is one."""

import contextlib
import gc
import threading

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from pytorch_ocl import inductor


def captured(work, **options):
    graph = torch.ocl.OCLGraph()
    with torch.ocl.graph(graph, **options):
        results = work()
    return graph, results


def network(device):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.GELU(), torch.nn.Dropout(0.2),
        torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5),
    ).to(device)  # fmt: skip


def test_nothing_runs_before_the_replay(device):
    x = torch.zeros(100, device=device)
    graph, y = captured(lambda: x.add_(1) * 2)
    assert x.cpu().eq(0).all()
    for time in range(1, 4):
        graph.replay()
        assert x.cpu().eq(time).all() and y.cpu().eq(2 * time).all()


def test_results_keep_their_memory_and_the_rest_is_nobody_elses(device):
    x = torch.full((1000,), 3.0, device=device)
    graph, y = captured(lambda: (x.square() + 1).sqrt())
    del y
    gc.collect()
    others = [torch.zeros(1000, device=device) for _ in range(20)]
    graph.replay()
    assert all(other.cpu().eq(0).all() for other in others)


@pytest.mark.parametrize("draw", [
    lambda x: F.dropout(x, 0.5), lambda x: torch.rand_like(x), lambda x: x.clone().normal_(),
    lambda x: torch.randn(7, device=x.device), lambda x: torch.randperm(50, device=x.device),
    lambda x: torch.randint(0, 9, (40,), device=x.device), lambda x: torch.multinomial(x.view(10, 10), 3),
    lambda x: x.clone().exponential_(), lambda x: torch.bernoulli(x * 0.3),
])  # fmt: skip
def test_random_numbers_are_those_of_the_work_itself(device, draw):
    x = torch.ones(100, device=device)
    draw(x)
    graph, y = captured(lambda: (draw(x), draw(x)))
    found, wanted = [], []
    torch.manual_seed(3)
    for _ in range(2):
        graph.replay()
        found += [each.cpu() for each in y]
    torch.manual_seed(3)
    for _ in range(2):
        wanted += [each.cpu() for each in (draw(x), draw(x))]
    for a, b in zip(found, wanted):
        assert torch.equal(a, b)


def test_dropout_of_attention(device):
    q = torch.randn(1, 2, 64, 32, device=device, requires_grad=True)

    def step():
        return torch.autograd.grad(F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).square().sum(), q)[0]

    step()
    graph, gradient = captured(step)
    torch.manual_seed(3)
    graph.replay()
    first = gradient.clone()
    graph.replay()
    second = gradient.clone()
    torch.manual_seed(3)
    torch.testing.assert_close(first, step())
    torch.testing.assert_close(second, step())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("captures_backward", [True, False])
def test_dropout_of_attention_with_gradients_of_their_own(device, captures_backward):
    q = torch.randn(1, 2, 64, 32, device=device, requires_grad=True)

    def forward():
        return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    def backward(out):
        return torch.autograd.grad(out, q, torch.ones_like(out), retain_graph=True)[0]

    backward(forward())
    graph, out = captured(forward)
    with pytest.raises(RuntimeError, match="not replayed yet"):
        backward(out)
    if captures_backward:
        graph_of_gradients, gradient = captured(lambda: backward(out))
    found = []
    torch.manual_seed(3)
    for _ in range(2):
        graph.replay()
        if captures_backward:
            graph_of_gradients.replay()
        else:
            gradient = backward(out)
        found.append(gradient.clone())
    torch.manual_seed(3)
    for each in found:
        torch.testing.assert_close(each, backward(forward()))
    graph.reset()
    if captures_backward:
        graph_of_gradients.reset()
    with pytest.raises(RuntimeError, match="is gone"):
        backward(out)


@pytest.mark.parametrize("graphed", ["step", "module"])
def test_checkpoints_draw_the_same_numbers_again(device, graphed):
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Dropout(0.3))
    inner.to(device)

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    x, model = torch.randn(16, 32, device=device, requires_grad=True), Checkpointed()

    def step(f):
        out = f(x)
        return (out, *torch.autograd.grad(out.sum(), [x, *inner.parameters()]))

    step(model)
    if graphed == "step":
        graph, results = captured(lambda: step(model))

        def replay():
            graph.replay()
            return results
    else:
        module = torch.ocl.make_graphed_callables(Checkpointed(), (x,))

        def replay():
            return step(module)

    for number in range(2):
        torch.manual_seed(number)
        found = [r.detach().clone() for _ in range(2) for r in replay()]
        torch.manual_seed(number)
        wanted = [r for _ in range(2) for r in (step(model))]
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b)


def test_states_of_generators(device):
    generator = torch.Generator(device).manual_seed(1)
    before = generator.get_state()

    def work():
        own = generator.get_state()
        first = torch.rand(5, device=device, generator=generator)
        generator.set_state(own)
        second = torch.rand(5, device=device, generator=generator)
        generator.set_state(before)
        third = torch.rand(5, device=device, generator=generator)
        generator.manual_seed(7)
        assert generator.initial_seed() == 7
        fourth = torch.rand(5, device=device, generator=generator)
        generator.set_state(own)
        last = torch.rand(5, device=device, generator=generator)
        with pytest.raises(RuntimeError, match="not known while the stream is capturing"):
            generator.initial_seed()
        return own, first, second, third, fourth, last

    torch.rand(5, device=device, generator=generator)
    graph, (own, *found) = captured(work)
    graph.replay()
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[4])
    assert not torch.equal(found[0], found[2])
    after = torch.rand(5, device=device, generator=generator)
    generator.manual_seed(1)
    numbers = [torch.rand(5, device=device, generator=generator) for _ in range(3)]
    assert torch.equal(found[2], numbers[0]) and torch.equal(found[0], numbers[1]) and torch.equal(after, numbers[2])
    assert torch.equal(found[3], torch.rand(5, device=device, generator=generator.manual_seed(7)))
    generator.set_state(own)  # of the last replay
    assert torch.equal(torch.rand(5, device=device, generator=generator), numbers[1])


def test_errors_of_the_work(device):
    x, graph = torch.zeros(3, device=device), torch.ocl.OCLGraph()
    with pytest.raises(KeyError), torch.ocl.graph(graph):
        x += 1
        raise KeyError("work")
    with torch.ocl.graph(graph):
        x += 2
    graph.replay()
    assert x.cpu().eq(2).all()


def test_graphs_of_one_pool_share_memory(device):
    x, pool = torch.ones(1 << 22, device=device), torch.ocl.graph_pool_handle()

    def work():
        for _ in range(3):
            x.copy_(x.sin().cos() + 1)

    gc.collect()
    torch.ocl.empty_cache()
    graphs, reserved = [], []
    for _ in range(3):
        graphs.append(captured(work, pool=pool)[0])
        reserved.append(torch.ocl.memory_reserved())
    assert reserved[0] == reserved[1] == reserved[2]
    wanted = x.clone()
    for _ in range(9):
        wanted = wanted.sin().cos() + 1
    for graph in graphs:
        graph.replay()
    torch.testing.assert_close(x, wanted)
    del graphs, graph
    del wanted
    gc.collect()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() < reserved[0]


def test_generators_of_ones_own(device):
    generator = torch.Generator(device).manual_seed(5)
    graph, y = captured(lambda: torch.rand(10, device=device, generator=generator))
    graph.replay()
    first = y.clone()
    graph.replay()
    generator.manual_seed(5)
    assert torch.equal(first, torch.rand(10, device=device, generator=generator))
    assert torch.equal(y, torch.rand(10, device=device, generator=generator))


def test_a_training_step(device):
    torch.manual_seed(0)
    images, labels = torch.randn(8, 4, 3, 8, 8), torch.randint(0, 5, (8, 4))

    def train(with_graph):
        model = network(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
        x, y = images[0].to(device), labels[0].to(device)

        def step():
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        torch.manual_seed(4)
        losses = []
        for number in range(8):
            x.copy_(images[number]), y.copy_(labels[number])
            optimizer.zero_grad(set_to_none=True)
            if with_graph and number >= 3:
                if number == 3:
                    graph, loss = captured(step)
                graph.replay()
            else:
                loss = step()
            losses.append(loss.item())
        return losses, [p.detach().cpu() for p in (*model.parameters(), *model.buffers())]

    (losses, values), (graphed_losses, graphed_values) = train(False), train(True)
    assert losses == pytest.approx(graphed_losses, rel=1e-5)
    for a, b in zip(values, graphed_values):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("host", [
    lambda x: x.sum().item(), lambda x: x.nonzero(), lambda x: x.cpu(), lambda x: torch.tensor([1.0], device=x.device),
])  # fmt: skip
def test_what_needs_the_host_is_refused(device, host):
    x = torch.ones(10, device=device)
    graph = torch.ocl.OCLGraph()
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"), torch.ocl.graph(graph):
        host(x)
    assert not torch.ocl.is_current_stream_capturing()
    assert x.sum().item() == 10
    with torch.ocl.graph(graph):  # may be used again
        x += 1
    graph.replay()
    assert x.sum().item() == 20


def test_calls_out_of_turn(device):
    graph = torch.ocl.OCLGraph()
    for call in (graph.replay, graph.capture_end, graph.pool, graph.instantiate):
        with pytest.raises(RuntimeError, match="without a preceding"):
            call()
    graph, _ = captured(lambda: torch.ones(3, device=device))
    with pytest.raises(RuntimeError, match="already owns"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="keep_graph"):
        graph.instantiate()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding"):
        graph.replay()
    with pytest.raises(RuntimeError, match="capture error mode"), torch.ocl.graph(graph, capture_error_mode="strict"):
        pass
    kept = torch.ocl.OCLGraph(keep_graph=True)
    with torch.ocl.graph(kept, pool=torch.ocl.graph_pool_handle()):
        pass
    kept.instantiate()
    kept.replay()
    assert not torch.ocl.is_current_stream_capturing()


def test_streams(device):
    x, stream, other = torch.zeros(10, device=device), torch.ocl.Stream(), torch.ocl.Stream()
    graph, _ = captured(lambda: x.add_(1), stream=stream)
    graph.replay()  # in the order of the current stream, whichever was captured
    x.mul_(3)
    with torch.ocl.stream(other):
        other.wait_stream(torch.ocl.default_stream())
        graph.replay()
        x.mul_(2)
    other.synchronize()
    assert x.cpu().eq(8).all()
    with pytest.raises(RuntimeError, match="waits for another stream"), torch.ocl.graph(torch.ocl.OCLGraph()):
        torch.ocl.current_stream().wait_stream(other)


def test_streams_that_fork_and_join(device):
    x, side = torch.zeros(1000, device=device), torch.ocl.Stream()
    event = torch.ocl.Event()

    def work():
        here = torch.ocl.current_stream()
        x.add_(1)
        event.record()
        with torch.ocl.stream(side):
            event.wait()
            assert torch.ocl.is_current_stream_capturing()
            y = x * 10 + torch.rand_like(x)
        here.wait_stream(side)
        for call in (event.query, event.synchronize):
            with pytest.raises(RuntimeError, match="event last recorded in a capturing stream"):
                call()
        return y - 1

    graph, y = captured(work)
    with torch.ocl.stream(side):
        assert not torch.ocl.is_current_stream_capturing()
    assert x.cpu().eq(0).all()
    for time in range(1, 4):
        graph.replay()
        assert (y.cpu() - time * 10 + 1).abs().le(1).all()
    with pytest.raises(RuntimeError, match="event last recorded in a capturing stream"):
        event.wait()


def test_other_threads_use_the_stream_meanwhile(device):
    x, ended = torch.zeros(1000, device=device), threading.Event()

    def work():
        while not ended.is_set():
            try:
                y = torch.ones(1000, device=device).sin() * 2
                z = torch.rand(100, device=device)
            except RuntimeError:  # random numbers, where the capture failed or ended before
                continue
            del y, z

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(60):
        graph = torch.ocl.OCLGraph()
        graph.capture_begin()
        y = x + 1
        if number % 3 == 0:
            with contextlib.suppress(RuntimeError):
                x.sum().item()
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
            graph.replay()
        del graph, y
    ended.set()
    for thread in threads:
        thread.join()
    graph, y = captured(lambda: x + 1)
    graph.replay()
    assert y.cpu().eq(1).all()


def test_others_keep_their_streams(device):
    x, results = torch.full((100,), 3.0, device=device), []
    with torch.ocl.graph(torch.ocl.OCLGraph()):
        x + 1
        thread = threading.Thread(target=lambda: results.append((x * 5).cpu()))
        thread.start()
        thread.join()
    assert results[0].eq(15).all()


def test_a_graph_within_another_is_kept(device):
    x, outer = torch.zeros(1000, device=device), torch.ocl.OCLGraph()
    inner, _ = captured(lambda: x.copy_((x + 1).sin() + 1))
    with torch.ocl.graph(outer):
        inner.replay()
    del inner
    gc.collect()
    torch.ocl.empty_cache()
    others = [torch.zeros(1000, device=device) for _ in range(50)]
    outer.replay()
    assert all(other.cpu().eq(0).all() for other in others) and x.cpu().ne(0).all()


def test_memory_that_another_stream_uses(device):
    side, large = torch.ocl.Stream(), torch.ones(1 << 22, device=device)
    torch.ocl.synchronize()
    graph, y = captured(lambda: large * 1)
    graph.replay()
    torch.ocl.synchronize()
    with torch.ocl.stream(side):
        for _ in range(10):
            large = large.sin().cos()
        z = y + 0
        y.record_stream(side)
        second = torch.ocl.OCLGraph()
        second.capture_begin()
        del y
        second.capture_end()
    del graph
    others = [torch.full((1 << 22,), 7.0, device=device) for _ in range(3)]
    torch.ocl.synchronize()
    assert z.cpu().eq(1).all() and others[0].cpu().eq(7).all()


@pytest.mark.skipif(not inductor.is_tested(), reason="graphs run eagerly with this version of PyTorch")
def test_recordings_of_compiled_functions_are_not_captured(device):
    torch._dynamo.reset()
    x = torch.randn(64, 64, device=device)

    def compile_and_capture():
        function = torch.compile(lambda x: (x.sin() @ x).softmax(-1).sum(0) + 1, mode="reduce-overhead")
        for _ in range(5):
            function(x)
        return captured(lambda: function(x))

    graph, y = compile_and_capture()
    torch._dynamo.reset()
    gc.collect()
    others = [torch.zeros(64 * 64, device=device) for _ in range(200)]
    graph.replay()
    torch.testing.assert_close(y, (x.sin() @ x).softmax(-1).sum(0) + 1)
    assert all(other.cpu().eq(0).all() for other in others)


def test_a_bad_index_is_reported(device):
    x, i = torch.zeros(10, device=device), torch.zeros(1, dtype=torch.long, device=device)
    graph, _ = captured(lambda: x[i])
    graph.replay()
    torch.ocl.synchronize()
    i.fill_(99)
    graph.replay()
    with pytest.raises(IndexError, match="99"):
        torch.ocl.synchronize()
    with torch.ocl.stream(torch.ocl.Stream()):
        graph.replay()
        with pytest.raises(IndexError, match="99"):
            torch.ocl.current_stream().synchronize()


def test_dump(device, tmp_path):
    x = torch.zeros(10, device=device)
    graph = torch.ocl.OCLGraph()
    graph.enable_debug_mode()
    with torch.ocl.graph(graph):
        x.add_(1).relu_()
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert "digraph" in (tmp_path / "graph.dot").read_text()
    with pytest.raises(RuntimeError, match="cannot write"):
        graph.debug_dump(str(tmp_path / "none" / "graph.dot"))


@pytest.mark.skipif(not inductor.is_tested(), reason="graphs run eagerly with this version of PyTorch")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_functions(device, mode):
    torch._dynamo.reset()
    function = torch.compile(lambda x: (x * 2).softmax(-1).sum(0), mode=mode)
    x = torch.randn(6, 7, device=device)
    for _ in range(4):
        function(x)
    graph, y = captured(lambda: function(x))
    x.normal_()
    graph.replay()
    torch.testing.assert_close(y, (x * 2).softmax(-1).sum(0))


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="this version of PyTorch has no torch.accelerator.Graph"
)
def test_accelerator_graph(device, tmp_path):
    x, stream, graph = torch.zeros(100, device=device), torch.Stream(device=device), torch.accelerator.Graph()
    with stream, graph:
        x += 1
    assert x.cpu().eq(0).all()
    graph.replay(), graph.replay()
    assert x.cpu().eq(2).all() and graph.pool() != (0, 0)
    graph.reset()
    graph.enable_debug_mode()
    with graph:
        x -= 1
    graph.debug_dump(str(tmp_path / "graph.dot"))
    graph.replay()
    assert x.cpu().eq(1).all()
    with (
        pytest.raises(RuntimeError, match="not permitted when stream is capturing|failed before"),
        torch.accelerator.Graph(),
    ):
        x.sum().item()
