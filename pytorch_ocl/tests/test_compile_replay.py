# SPDX-License-Identifier: MIT
"""torch.compile(mode="reduce-overhead"): replayed programs give what the programs give, with other inputs, sizes and
changed weights; results of one call outlive the next; what cannot be replayed says why and runs."""

import copy
import gc
import logging

import pytest
import torch
import torch.nn.functional as F
from pytorch_ocl.inductor import replay

from pytorch_ocl import inductor

pytestmark = pytest.mark.skipif(not inductor.is_tested(), reason="graphs run eagerly with this version of PyTorch")


@pytest.fixture
def runs(monkeypatch):
    """The numbers of programs that were replayed, and the reasons why others were not."""
    torch._dynamo.reset()
    seen = {"replayed": 0, "refused": []}
    original, recorded = replay._Recording.replay, replay._Recording.__init__

    def count(self, tensors):
        results = original(self, tensors)
        seen["replayed"] += results is not None
        return results

    def note(self, *arguments):
        recorded(self, *arguments)
        if self.refusal:
            seen["refused"].append(self.refusal)

    monkeypatch.setattr(replay._Recording, "replay", count)
    monkeypatch.setattr(replay._Recording, "__init__", note)
    return seen


def compiled(function, **options):
    return torch.compile(function, mode="reduce-overhead", **options)


def test_other_inputs_and_results_that_stay(device, runs):
    def function(x, w):
        y = F.gelu(x @ w) + 1
        return y.softmax(-1), y.sum(0), (y @ w.t()).view(-1)

    fast, kept = compiled(function), []
    for number in range(6):
        torch.manual_seed(number)
        x, w = torch.randn(8, 16), torch.randn(16, 16)
        kept.append((fast(x.to(device), w.to(device)), function(x, w)))
    for found, wanted in kept:
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)
    assert runs == {"replayed": 3, "refused": []}


def test_weights_are_trained(device, runs):
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    plain, model = model, copy.deepcopy(model).to(device)
    fast = compiled(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (plain, model)]
    for _ in range(7):
        x = torch.randn(4, 3, 8, 8)
        losses = [plain(x).square().mean(), fast(x.to(device)).square().mean()]
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[1].detach().cpu(), losses[0].detach(), rtol=1e-4, atol=1e-5)
    assert runs["replayed"] == 8 and not runs["refused"]
    torch.testing.assert_close(model[1].running_var.cpu(), plain[1].running_var, rtol=1e-4, atol=1e-5)


def test_inputs_are_changed(device, runs):
    def function(cache, x, at):
        cache.index_copy_(0, at, x)
        return cache.sum(0) + x

    fast, cache, plain = compiled(function), torch.zeros(10, 4, device=device), torch.zeros(10, 4)
    for number in range(7):
        x, at = torch.full((1, 4), float(number)), torch.tensor([number])
        torch.testing.assert_close(fast(cache, x.to(device), at.to(device)).cpu(), function(plain, x, at))
    torch.testing.assert_close(cache.cpu(), plain)
    assert runs["replayed"] == 4


def test_sizes_that_change(device, runs):
    fast = compiled(lambda x: (x * 2).softmax(-1) + x.shape[0], dynamic=True)
    for _ in range(5):
        for rows in (3, 7):
            x = torch.randn(rows, 33)
            torch.testing.assert_close(fast(x.to(device)).cpu(), (x * 2).softmax(-1) + rows)
    assert runs["replayed"] == 4


def test_inputs_of_another_alignment_run_as_they_are(device, runs):
    fast, base = compiled(lambda x: x.sin() + 1), torch.randn(1000)
    there = base.to(device)
    for _ in range(4):
        fast(there[:500])
    for start in (1, 32, 7):
        torch.testing.assert_close(fast(there[start : start + 500]).cpu(), base[start : start + 500].sin() + 1)
    assert runs["replayed"] == 2  # the fourth call, and the one that starts 128 bytes in


def test_what_cannot_be_replayed_runs(device, runs, caplog):
    fast = compiled(lambda x: F.dropout(x, 0.5))
    x = torch.ones(4096, device=device)
    torch._logging.set_logs(perf_hints=True)
    try:
        with caplog.at_level(logging.DEBUG):
            results = [fast(x) for _ in range(6)]
    finally:
        torch._logging.set_logs()
    assert not any(torch.equal(a, b) for a, b in zip(results, results[1:]))
    assert runs == {"replayed": 0, "refused": ["it draws random numbers"]}


def test_an_index_out_of_range_is_reported(device, runs):
    fast, table = compiled(lambda table, at: table[at] * 2), torch.ones(10, 3, device=device)
    for _ in range(4):
        fast(table, torch.tensor([1, 3], device=device)).cpu()
    with pytest.raises(IndexError, match="index 11 is out of bounds"):
        fast(table, torch.tensor([1, 11], device=device)).cpu()
    assert runs["replayed"] == 2


def test_memory_is_given_back(device, runs):
    def use():
        fast = compiled(lambda x: (x @ x).relu() @ x)
        for _ in range(5):
            fast(torch.ones(300, 300, device=device))

    use()
    torch._dynamo.reset()
    gc.collect()
    before = torch.ocl.memory_allocated()
    use()
    assert torch.ocl.memory_allocated() > before
    torch._dynamo.reset()
    gc.collect()
    assert torch.ocl.memory_allocated() == before
