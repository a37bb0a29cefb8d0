# SPDX-License-Identifier: MIT
"""torch.nn.parallel over ocl devices; with one device, that one stands for two."""

import copy

import pytest
import torch
from torch.nn import parallel

SECOND = 1 if torch.ocl.device_count() > 1 else 0
DEVICES = [0, SECOND]
ALONE = pytest.mark.skipif(torch.cuda.is_available(), reason="DataParallel takes CUDA's devices where there are some")
DISTINCT = pytest.mark.skipif(not SECOND, reason="needs two ocl devices")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("origin", ["cpu", "ocl:0"])
def test_scatter_and_gather(origin, dim, dtype):
    if dtype.is_complex and dim == -1:
        pytest.skip("torch.nn.parallel.comm counts dimensions of the real view: CUDA fails, too")
    x = torch.arange(30).view(5, 6).to(dtype).to(origin)
    pieces = parallel.scatter(x, DEVICES, dim)
    assert [p.device for p in pieces] == [torch.device("ocl", i) for i in DEVICES]
    for piece, expected in zip(pieces, x.chunk(2, dim)):
        torch.testing.assert_close(piece.cpu(), expected.cpu())
    for target in (SECOND, "cpu"):
        whole = parallel.gather(pieces, target, dim)
        assert whole.device == torch.device("cpu" if target == "cpu" else f"ocl:{target}")
        torch.testing.assert_close(whole.cpu(), x.cpu())


def test_gradients_travel_back():
    x = torch.arange(6.0, requires_grad=True)
    pieces = parallel.scatter(x, DEVICES)
    parallel.gather([p * (i + 2) for i, p in enumerate(pieces)], 0).sum().backward()
    assert x.grad.tolist() == [2, 2, 2, 3, 3, 3]


@DISTINCT
def test_gradients_through_a_model_on_two_devices():
    first, second = torch.nn.Linear(4, 8).to("ocl:0"), torch.nn.Linear(8, 1).to("ocl:1")
    x = torch.linspace(-1, 1, 8).view(2, 4)
    second(first(x.to("ocl:0")).to("ocl:1")).sum().backward()
    reference = torch.nn.Sequential(copy.deepcopy(first).cpu(), copy.deepcopy(second).cpu())
    reference.zero_grad()
    reference(x).sum().backward()
    torch.testing.assert_close(first.weight.grad.cpu(), reference[0].weight.grad)
    torch.testing.assert_close(second.weight.grad.cpu(), reference[1].weight.grad)


@DISTINCT
def test_a_stream_waits_for_another_devices_event():
    x = torch.ones(1000, device="ocl:0")
    for _ in range(20):
        x = x * 1.0 + 1
    event = torch.Event(device="ocl:0")
    event.record(torch.ocl.current_stream(0))
    torch.ocl.current_stream(1).wait_event(event)
    assert event.query() and x[0].item() == 21


def test_broadcast_and_sums():
    x = torch.arange(3.0, device="ocl:0")
    assert [t.tolist() for t in parallel.comm.broadcast(x, DEVICES)] == [[0, 1, 2]] * 2
    out = [torch.empty(3, device=f"ocl:{i}") for i in DEVICES]
    assert [t.tolist() for t in parallel.comm.broadcast(x, out=out)] == [[0, 1, 2]] * 2
    with pytest.raises(RuntimeError, match="chunk_sizes"):
        parallel.comm.scatter(x, [0], [1, 2])


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


@ALONE
@pytest.mark.parametrize("devices", [[0], pytest.param(DEVICES, marks=DISTINCT)])
def test_data_parallel_equals_one_device(devices):
    reference = network().eval()
    model = torch.nn.DataParallel(copy.deepcopy(reference).to("ocl:0"), device_ids=devices)
    x = torch.linspace(-1, 1, 24).view(6, 4)
    expected = reference(x)
    expected.square().sum().backward()
    result = model(x)
    assert result.device == torch.device("ocl:0")
    result.square().sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    for ours, theirs in zip(model.module.parameters(), reference.parameters()):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@ALONE
def test_the_default_is_devices_of_one_name():
    ids = torch.nn.DataParallel(network().to("ocl:0")).device_ids
    assert ids[0] == 0 and {torch.ocl.get_device_name(i) for i in ids} == {torch.ocl.get_device_name(0)}
    assert torch.nn.DataParallel(network()).device_ids == []


@DISTINCT
def test_replicate():
    model = network().to("ocl:0")
    replicas = parallel.replicate(model, DEVICES)
    for index, replica in zip(DEVICES, replicas):
        assert replica[0].weight.device == torch.device("ocl", index)
        torch.testing.assert_close(replica[0].weight.cpu(), model[0].weight.cpu())
    sum(replica[0].weight.cpu().sum() for replica in replicas).backward()
    assert (model[0].weight.grad == 2).all()
