# SPDX-License-Identifier: MIT
"""Bad input: a clear error, never an abort or a wrong number, and work goes on."""

import pytest
import torch
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def work_goes_on(device):
    yield
    assert (torch.ones(3, device=device) + 1).tolist() == [2, 2, 2]
    torch.ocl.synchronize(device)


@pytest.mark.parametrize("index", [99, 120])
def test_a_device_that_does_not_exist(index):
    for use in (
        lambda: torch.ones(1, device=f"ocl:{index}"),
        lambda: torch.ones(1).to(f"ocl:{index}"),
        lambda: torch.ocl.set_device(index),
        lambda: torch.ocl.get_device_properties(index),
        lambda: torch.ocl.synchronize(index),
        lambda: torch.ocl.memory_allocated(index),
        lambda: torch.ocl.Stream(index),
        lambda: torch.Generator(f"ocl:{index}"),
        lambda: torch.ocl.get_rng_state(index),
        lambda: torch.ocl.device(index).__enter__(),
        lambda: torch.nn.Linear(2, 2).to(f"ocl:{index}"),
    ):
        with pytest.raises(RuntimeError, match=f"device.*{index}|{index}.*device"):
            use()
    with pytest.raises(ValueError, match="Expected an ocl device, but got: cpu"):
        torch.ocl.get_device_name("cpu")


def test_wrong_dtypes(device):
    real, whole = torch.ones(2, 2, device=device), torch.ones(2, 2, dtype=torch.int64, device=device)
    for use, message in (
        (lambda: real @ whole, "dtype"),
        (lambda: torch.bitwise_and(real, real), "bitwise_and"),
        (lambda: whole.add_(0.5), "can't be cast"),
        (lambda: F.embedding(real, real), "indices"),
        (lambda: F.cross_entropy(real, real[0].int()), "target dtype|expected scalar type Long"),
        (lambda: F.binary_cross_entropy(real, real.double()), "Found dtype Double but expected Float"),
        (lambda: F.conv2d(real[None, None], whole[None, None]), "type|dtype"),
        (lambda: torch.index_select(real, 0, real[0]), "index"),
        (lambda: torch.zeros(2, dtype=torch.bool, device=device) - True, "bool"),
        (lambda: F.softmax(whole, 0), "softmax"),
        (lambda: torch.mean(whole), "mean"),
    ):
        with pytest.raises((RuntimeError, IndexError), match=message):
            use()


def test_types_without_an_implementation(device):
    mask = torch.ones(1, 1, 2, 2, dtype=torch.bool, device=device)
    for use in (lambda: F.conv2d(mask, mask), lambda: mask[0, 0] @ mask[0, 0]):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            use()


def test_wrong_shapes(device):
    a, b = torch.ones(2, 3, device=device), torch.ones(4, 5, device=device)
    for use, message in (
        (lambda: a @ b, "2x3 and 4x5|mat1 and mat2"),
        (lambda: a + b, "size of tensor"),
        (lambda: torch.cat([a, b]), "Sizes of tensors must match"),
        (lambda: a.view(7), "invalid for input of size 6"),
        (lambda: F.conv2d(a[None, None], b.new_ones(1, 2, 1, 1)), "channels"),
        (lambda: F.conv2d(a[None, None], b.new_ones(1, 1, 9, 9)), "[Kk]ernel size"),
        (lambda: torch.bmm(a[None], b[None]), "expected|Expected"),
        (lambda: torch.embedding_bag(a, b.long()[None], b.long()[0]), "input has to be a 1D or 2D Tensor"),
        (lambda: torch.embedding_bag(a, b.long()[0], b.long()), "offsets has to be a 1D Tensor"),
        (lambda: torch.embedding_bag(a[None], b.long()[0], b.long()[0]), "weight has to be a 2D Tensor"),
        (lambda: F.layer_norm(a, (5,)), "normalized_shape"),
        (lambda: F.batch_norm(a, b[0], b[0], training=True), "running_mean|elements"),
        (lambda: F.max_pool2d(a[None], 9), "[Oo]utput size"),
        (lambda: F.cross_entropy(a, b.new_zeros(3, dtype=torch.int64)), "batch"),
        (lambda: torch.empty(3, device=device).copy_(a[0, :2]), "[Ss]ize of the tensor|size of tensor"),
        (lambda: torch.softmax(a, 5), "Dimension out of range"),
        (lambda: a[5], "out of bounds"),
        (lambda: torch.ones(-1, device=device), "negative"),
    ):
        with pytest.raises((RuntimeError, IndexError, ValueError), match=message):
            use()


INDEXED = {
    "index_select": lambda x, bad: torch.index_select(x, 0, bad),
    "gather": lambda x, bad: torch.gather(x, 0, bad[:, None]),
    "scatter": lambda x, bad: x.scatter(0, bad[:, None], 1.0),
    "index_add": lambda x, bad: x.index_add(0, bad, x[: len(bad)]),
    "embedding": lambda x, bad: F.embedding(bad, x),
    "index": lambda x, bad: x[bad],
    "index_put": lambda x, bad: x.index_put((bad,), torch.ones((), device=x.device)),
    "take": lambda x, bad: torch.take(x, bad * 100),
    "nll_loss": lambda x, bad: F.nll_loss(x[: len(bad)], bad),
    "cross_entropy": lambda x, bad: F.cross_entropy(x[: len(bad)], bad),
    "index_fill": lambda x, bad: x.index_fill(0, bad, 1.0),
    "index_copy": lambda x, bad: x.index_copy(0, bad, x[: len(bad)]),
}


@pytest.mark.parametrize("value", [9, -9])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_and_labels_out_of_range(device, name, value):
    x, bad = torch.ones(4, 4, device=device), torch.tensor([1, value, 2], device=device)
    with pytest.raises(IndexError) as raised:
        result = INDEXED[name](x, bad)  # PyTorch may see it at once; else the next synchronization raises
        torch.ocl.synchronize(device)
        result.sum().item()
    # Embedding and cross entropy are made of these.
    operator = {"embedding": "index_select", "cross_entropy": "nll_loss"}.get(name, name)
    assert operator in str(raised.value) and "out of" in str(raised.value)
    assert x.sum().item() == 16


def test_each_error_is_raised_once_and_by_any_synchronization(device):
    x, bad = torch.ones(4, 4, device=device), torch.tensor([9], device=device)
    for wait in (
        lambda: torch.ocl.synchronize(device),
        lambda: x.sum().item(),
        lambda: x.cpu(),
        torch.ocl.current_stream(device).synchronize,
    ):
        x.index_select(0, bad)
        with pytest.raises(IndexError, match="9"):
            wait()
        wait()


def test_a_device_side_error_does_not_reach_later_results(device):
    table = torch.nn.Embedding(4, 2).to(device)
    table(torch.tensor([7], device=device))
    with pytest.raises(IndexError):
        torch.ocl.synchronize(device)
    later = table(torch.tensor([3], device=device))
    assert torch.equal(later.detach().cpu(), table.weight[3:].detach().cpu())


def test_operators_without_a_kernel(device):
    x = torch.quantize_per_tensor(torch.ones(3, 3, device=device), 0.1, 0, torch.qint8)
    with pytest.raises(NotImplementedError, match="aten::add.out"):
        x + x


def test_names_of_opencl_errors(device):
    kernel = torch.ocl.compile_kernel("__kernel void f(__global float *x) {}", "f")
    message = r"clEnqueueNDRangeKernel\(f\): CL_INVALID_WORK_(GROUP|ITEM)_SIZE \(-\d+\)"
    with pytest.raises(RuntimeError, match=message):
        kernel(torch.ones(4, device=device), global_size=1 << 24, local_size=1 << 24)


def test_tensors_of_the_cpu_among_those_of_the_device_are_named_as_beside_cuda(device):
    """Also by operators that check no devices of their own."""
    x, mask = torch.rand(3, 3), torch.rand(3, 3) > 0.5
    for use in (
        lambda: x.to(device).masked_fill(mask, 0),
        lambda: x.masked_fill(mask.to(device), 0),
        lambda: F.binary_cross_entropy(x.to(device), x),
        lambda: torch.var(x.to(device), 0, out=torch.zeros(3)),
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            use()
