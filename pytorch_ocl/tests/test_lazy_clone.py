# SPDX-License-Identifier: MIT
"""Tensor._lazy_clone: memory is shared until one of the tensors is written."""

import copy
import gc

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map


def is_shared(tensor):
    return torch._C._is_cow_tensor(tensor)


def pair(size=1000):
    x = torch.arange(float(size)).to("ocl")
    return x, x._lazy_clone()


WRITES = {
    "in place": lambda x: x.add_(1),
    "out": lambda x: torch.add(torch.ones_like(x), 1, out=x),
    "structured out": lambda x: torch.cumsum(torch.ones_like(x), 0, out=x),
    "fill": lambda x: x.fill_(7),
    "zero": lambda x: x.zero_(),
    "copy": lambda x: x.copy_(torch.ones(x.shape)),
    "through a view": lambda x: x[3:9].mul_(2),
    "index": lambda x: x.index_fill_(0, torch.tensor([1, 5], device=x.device), -1),
    "masked": lambda x: x.masked_fill_(x > 5, 0),
    "random": lambda x: x.uniform_(),
    "list": lambda x: torch._foreach_mul_([x], 3),
    "set item": lambda x: x.__setitem__(4, 100.0),
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_seen_by_one_alone(write, which):
    tensors, before = pair(), torch.arange(1000.0)
    assert all(is_shared(x) for x in tensors)
    WRITES[write](tensors[which])
    assert not is_shared(tensors[which])
    assert torch.equal(tensors[1 - which].cpu(), before)
    assert not torch.equal(tensors[which].cpu(), before)


def test_reading_shares():
    x, y = pair()
    address = torch._C._data_address(x)
    assert torch.equal(x, y) and (x + y).sum().item() == 999000 and torch.equal(y.cpu(), torch.arange(1000.0))
    (x @ y).item(), x.sort(), torch.stack([x, y]), y[5:].clone(), torch.nn.functional.softmax(y, 0), x.to(torch.int64)
    assert is_shared(x) and is_shared(y) and torch._C._data_address(y) == address


def test_the_last_one_writes_where_it_is():
    x, y = pair()
    address = torch._C._data_address(x)
    del x
    y.add_(1)
    assert not is_shared(y) and torch._C._data_address(y) == address
    assert torch.equal(y.cpu(), torch.arange(1000.0) + 1)


@pytest.mark.parametrize("first", [0, 1])
def test_memory_goes_back(first):
    gc.collect()
    before = torch.ocl.memory_allocated()
    tensors = list(pair(1 << 20))
    shared = torch.ocl.memory_allocated() - before
    assert shared == 4 << 20
    tensors[0].add_(1)
    assert torch.ocl.memory_allocated() - before == 2 * shared
    del tensors[first]
    assert torch.ocl.memory_allocated() - before == shared
    tensors.clear()
    assert torch.ocl.memory_allocated() == before


def test_clones_of_clones_views_and_nothing():
    x = torch.arange(12.0, device="ocl").view(3, 4).t()
    y = x._lazy_clone()._lazy_clone()
    assert y.stride() == x.stride() and torch.equal(x, y)
    x.mul_(2)
    assert torch.equal(y.cpu(), torch.arange(12.0).view(3, 4).t())
    assert torch.empty(0, device="ocl")._lazy_clone().add_(1).numel() == 0


def test_gradients_training_and_copies():
    weight = torch.ones(5, device="ocl", requires_grad=True)
    (weight._lazy_clone() * torch.arange(5.0, device="ocl")).sum().backward()
    assert torch.equal(weight.grad.cpu(), torch.arange(5.0))
    kept = weight.detach()._lazy_clone()
    torch.optim.AdamW([weight], lr=0.1).step()
    assert torch.equal(kept.cpu(), torch.ones(5)) and not torch.equal(weight.detach().cpu(), torch.ones(5))
    deep = copy.deepcopy(kept)
    kept.zero_()
    assert torch.equal(deep.cpu(), torch.ones(5))


def test_running_statistics():
    norm = torch.nn.BatchNorm1d(4).to("ocl")
    kept = norm.running_mean._lazy_clone()
    norm(torch.randn(8, 4, device="ocl") + 3)
    assert torch.equal(kept.cpu(), torch.zeros(4)) and norm.running_mean.abs().min() > 0


def test_resize_keeps_the_other():
    x, y = pair(8)
    x.resize_(100_000).fill_(1)
    assert torch.equal(y.cpu(), torch.arange(8.0))


def test_streams_hold_shared_memory():
    x, y = pair()
    stream = torch.ocl.Stream()
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        z = y * 2
    y.record_stream(stream)
    del x, y
    stream.synchronize()
    assert torch.equal(z.cpu(), torch.arange(1000.0) * 2)


# Every twelfth operator, of those that take tensors of the device as they are.
OPERATORS = [
    op
    for op in sorted(op_db, key=lambda op: (op.name, op.variant_test_name))[::12]
    if torch.float32 in op.supported_dtypes("cpu") and not op.name.startswith(("jiterator", "sparse."))
]


def cloned(arguments):
    """The arguments on the device, lazily cloned, and (clone, original, given) of each tensor."""
    tensors = []

    def clone(value):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            original = value.to("ocl")
            tensors.append((original._lazy_clone(), original, value))
            return tensors[-1][0]
        return "ocl" if value == "cpu" or isinstance(value, torch.device) else value

    return tree_map(clone, arguments), tensors


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.formatted_name)
def test_operators_leave_what_they_read_shared(op):
    for sample in list(op.sample_inputs("cpu", torch.float32))[:2]:
        (first, args, kwargs), tensors = cloned((sample.input, sample.args, sample.kwargs))
        op.op(first, *args, **kwargs)
        for clone, original, given in tensors:
            assert torch.equal(original.cpu().nan_to_num(), given.nan_to_num())
            assert is_shared(clone) or given.numel() == 0 or op.allow_cow_input_materialize_forward
