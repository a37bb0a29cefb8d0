# SPDX-License-Identifier: MIT
"""Every operator that takes indices or labels: one out of range is an IndexError that names the operator, and nothing
outside the tensor is read or written."""

import contextlib
import warnings

import pytest
import torch
from torch.nn import functional as F

SIZE = 5


def ones(index, *sizes):
    return torch.ones(*sizes, device=index.device)


def backward(operator):
    def run(x, bad):
        x = x.clone().requires_grad_()
        operator(x, bad).sum().backward()
        return x.grad

    return run


def of_aten(name, *arguments):
    return getattr(torch.ops.aten, name)(*arguments)


# Each gets x (5, 3) and two indices, of which the first is out of range. They write into x where they can.
WRITES = {
    "index_put_": lambda x, bad: x.index_put_((bad,), ones(bad, 2, 3)),
    "index_put_ accumulate": lambda x, bad: x.index_put_((bad,), ones(bad, 2, 3), accumulate=True),
    "index_put_ pairs": lambda x, bad: x.index_put_((bad, torch.zeros_like(bad)), ones(bad, 2), accumulate=True),
    "index_put_ second": lambda x, bad: x.t().index_put_((slice_of(x.t()), bad), ones(bad, 3, 2), accumulate=True),
    "index_add_": lambda x, bad: x.index_add_(0, bad, ones(bad, 2, 3)),
    "index_add_ last": lambda x, bad: x.t().index_add_(1, bad, ones(bad, 3, 2), alpha=2),
    "index_copy_": lambda x, bad: x.index_copy_(0, bad, ones(bad, 2, 3)),
    "index_fill_": lambda x, bad: x.index_fill_(0, bad, 9),
    "index_reduce_ prod": lambda x, bad: x.index_reduce_(0, bad, ones(bad, 2, 3), "prod"),
    "index_reduce_ mean": lambda x, bad: x.index_reduce_(0, bad, ones(bad, 2, 3), "mean"),
    "index_reduce_ amax": lambda x, bad: x.index_reduce_(0, bad, ones(bad, 2, 3), "amax"),
    "scatter": lambda x, bad: x.scatter_(0, bad[:, None].expand(2, 3), ones(bad, 2, 3)),
    "scatter value": lambda x, bad: x.scatter_(0, bad[:, None], 4.0),
    "scatter_add": lambda x, bad: x.scatter_add_(0, bad[:, None].expand(2, 3), ones(bad, 2, 3)),
    "scatter_reduce amin": lambda x, bad: x.scatter_reduce_(0, bad[:, None], ones(bad, 2, 1), "amin"),
    "scatter_reduce prod": lambda x, bad: x.scatter_reduce_(0, bad[:, None], ones(bad, 2, 1), "prod"),
    "put_": lambda x, bad: x.put_(bad * 3, ones(bad, 2)),
    "put_ accumulate": lambda x, bad: x.put_(bad * 3, ones(bad, 2), accumulate=True),
}

READS = {
    "index": lambda x, bad: x[bad],
    "index_select": lambda x, bad: x.index_select(0, bad),
    "gather": lambda x, bad: x.gather(0, bad[:, None]),
    "take": lambda x, bad: x.take(bad * 3),
    "nll_loss": lambda x, bad: F.nll_loss(x[:2, :].contiguous(), bad),
    "nll_loss weighted": lambda x, bad: F.nll_loss(x[:2], bad, weight=x[0].clone(), reduction="sum"),
    "nll_loss 2d": lambda x, bad: F.nll_loss(x[:2, :, None, None], bad[:, None, None]),
    "multi_margin_loss": lambda x, bad: F.multi_margin_loss(x[:2], bad),
    "embedding_bag": lambda x, bad: F.embedding_bag(bad[None], x, mode="max"),
    "embedding_dense_backward": lambda x, bad: of_aten("embedding_dense_backward", x[:2], bad, SIZE, -1, False),
    "embedding_dense_backward scaled": lambda x, bad: of_aten("embedding_dense_backward", x[:2], bad, SIZE, -1, True),
    "index with a gradient": backward(lambda x, bad: x[bad]),
    "index_select by embedding_renorm_": lambda x, bad: F.embedding(bad, x.clone(), max_norm=1.0),
    "multilabel_margin_loss": lambda x, bad: F.multilabel_margin_loss(x[:2], bad[:, None].expand(2, 3)),
    "nll_loss smoothed": lambda x, bad: F.cross_entropy(x[:2], bad, label_smoothing=0.1),
    "max_unpool": lambda x, bad: F.max_unpool1d(x[None, :2, :1], bad[None, :, None], 3),
    "max_pool": lambda x, bad: of_aten(
        "max_pool2d_with_indices_backward",
        x[None, :2, :1, None].contiguous(),
        x[None, :2, :, None].contiguous(),
        [3, 1],
        [3, 1],
        [0, 0],
        [1, 1],
        False,
        bad[None, :, None, None],
    ),
    "ctc_loss": lambda x, bad: F.ctc_loss(x[:, None].log_softmax(-1), bad[None], (SIZE,), (2,)),
}


def slice_of(x):
    return torch.arange(x.shape[0], device=x.device)[:, None]


@contextlib.contextmanager
def deterministic(on):
    fill = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(on)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def poison(device):
    """Memory that is handed out next holds numbers which are no indices."""
    blocks = [torch.full((n,), 2**40, device=device) for n in (3, 64, 1024) for _ in range(20)]
    del blocks


def gathers_pooled(device):
    """Whether gradients of pooling are looked for by the input's elements: an index no element has is of no effect."""
    return torch.ocl.get_device_properties(device).type != "cpu"


def names(name, message):
    return name.split()[0].rstrip("_") in message


BAD = [SIZE, -SIZE - 1, 2**31 + 1, 2**40, -(2**40), -(2**62)]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("ordered", [False, True], ids=["", "deterministic"])
@pytest.mark.parametrize("name", [*WRITES, *READS])
def test_indices_out_of_range(device, name, ordered, value):
    base = torch.full((64, 3), 7.0, device=device)
    x = base[20 : 20 + SIZE]
    bad = torch.tensor([value, 1], device=device)
    poison(device)
    with deterministic(ordered), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if ordered and name in ("put_", "max_unpool"):  # PyTorch has no deterministic ones
            with pytest.raises(RuntimeError, match="deterministic"):
                {**WRITES, **READS}[name](x, bad)
            return
        if name == "max_pool" and gathers_pooled(device):
            assert WRITES.get(name, READS.get(name))(x, bad).isfinite().all()
            return
        with pytest.raises(IndexError) as raised:
            result = {**WRITES, **READS}[name](x, bad)
            torch.ocl.synchronize(device)
            result.sum().item()
    assert names(name, str(raised.value)) and "out" in str(raised.value), raised.value
    around = base.cpu()
    assert (around[:20] == 7).all() and (around[20 + SIZE :] == 7).all()
    changed = (around[20 : 20 + SIZE] != 7).any(1).nonzero().flatten().tolist()
    assert changed in ([], [1]) and (torch.ones(3, device=device) + 1).sum().item() == 6


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.int64, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("ordered", [False, True], ids=["", "deterministic"])
def test_accumulation_out_of_range_of_every_element_size(device, dtype, ordered):
    for name in ("index_put_ accumulate", "index_add_", "scatter_add", "put_ accumulate", "index_copy_"):
        for value in (SIZE, 2**40):
            base = torch.full((64, 3), 1, dtype=dtype, device=device)
            bad, one = torch.tensor([value, 1], device=device), torch.ones(2, 3, dtype=dtype, device=device)
            x = base[20 : 20 + SIZE]
            poison(device)
            with deterministic(ordered), pytest.raises(IndexError):
                if name.startswith("index_put"):
                    x.index_put_((bad,), one, accumulate=True)
                elif name == "index_add_":
                    x.index_add_(0, bad, one)
                elif name == "scatter_add":
                    x.scatter_add_(0, bad[:, None].expand(2, 3), one)
                elif name == "index_copy_":
                    x.index_copy_(0, bad, one)
                else:
                    x.put_(bad[:, None] * 3, one[:, :1], accumulate=True)
                torch.ocl.synchronize(device)
            around = base.cpu()
            assert (around[:21] == 1).all() and (around[22:] == 1).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("ordered", [False, True], ids=["", "deterministic"])
def test_sums_of_short_floats_round_once(device, dtype, ordered):
    n = 1000
    at, one = torch.zeros(n, dtype=torch.int64, device=device), torch.ones(n, dtype=dtype, device=device)
    x = torch.zeros(4, dtype=dtype, device=device)
    with deterministic(ordered):
        for result in (
            x.index_put((at,), one, accumulate=True),
            x.index_add(0, at, one),
            x.scatter_add(0, at, one),
            x.clone().put_(at, one, accumulate=True),
            x.scatter_reduce(0, at, one, "sum"),
            x[:, None].expand(4, 3).clone().index_put((at,), one[:, None], accumulate=True)[:, 1],
            torch.ops.aten.embedding_dense_backward(one[:, None], at, 4, -1, False)[:, 0],
        ):
            assert result.tolist() == [n, 0, 0, 0]


def test_deterministic_writes_are_the_last_ones(device):
    at = torch.tensor([2, 0, 2, 2, 1, 0], device=device)
    given = torch.arange(18.0, device=device).view(6, 3)
    want = given[[5, 4, 3]].tolist()
    with deterministic(True):
        assert torch.zeros(3, 3, device=device).index_put((at,), given).tolist() == want
        assert torch.zeros(3, 3, device=device).index_copy(0, at, given).tolist() == want
        assert torch.zeros(3, 3, device=device).scatter(0, at[:, None].expand(6, 3), given).tolist() == want
        strided = torch.zeros(3, 6, device=device)[:, ::2]
        assert strided.index_put_((at,), given).tolist() == want


def test_index_put_of_every_kind(device):
    """Masks, index tensors that are apart, in front or broadcast, all with repeated positions; both ways."""
    where = torch.tensor([0, 2, 2, 1])
    mask = torch.tensor([True, False, True, True])
    cases = [
        ([None, where], (4, 4, 5)),
        ([where, None, where], (4, 3)),
        ([mask, None, where[:3]], (1,)),
        ([None, None, where], (4, 3, 4)),
        ([where[:, None], where % 3], (4, 4, 5)),
        ([mask], (3, 3, 5)),
        ([None, mask[1:], where[:2].int()], (4, 2)),
        ([where, where[:1] % 3, where], (4,)),
    ]
    for ordered in (False, True):
        for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.int32):
            for indices, shape in cases:
                host = torch.arange(60).view(4, 3, 5).to(dtype)
                values = torch.arange(1, 1 + torch.Size(shape).numel()).view(shape).to(dtype)
                there = [None if i is None else i.to(device) for i in indices]
                with deterministic(ordered):
                    out = of_aten("index_put_", host.to(device), there, values.to(device), True)
                torch.testing.assert_close(out.cpu(), of_aten("index_put_", host, indices, values, True))


def test_products_of_complex_numbers(device):
    at = torch.tensor([1, 0, 1, 1])
    x, given = torch.randn(2, 3, dtype=torch.complex64), torch.randn(4, 3, dtype=torch.complex64)
    expected = x.scatter_reduce(0, at[:, None].expand(4, 3), given, "prod")
    result = x.to(device).scatter_reduce(0, at[:, None].expand(4, 3).to(device), given.to(device), "prod")
    torch.testing.assert_close(result.cpu(), expected)


def test_masked_scatter_with_too_few_elements(device):
    x = torch.zeros(4, device=device)
    with pytest.raises(RuntimeError, match="masked_scatter: expected self and source to have the same number"):
        x.masked_scatter_(torch.ones(4, dtype=torch.bool, device=device), torch.ones(3, device=device))
        torch.ocl.synchronize(device)


@pytest.mark.parametrize("dims", [2, 3])
def test_random_samples_of_another_batch(device, dims):
    """Positions of fractional pooling come from the samples, of which every image of the batch needs its own."""
    pool = getattr(torch.nn.functional, f"fractional_max_pool{dims}d")
    x = torch.randn(1, 4, *[8] * dims, device=device)
    for shape in ((0, 4, dims), (1, 3, dims), (1, 4, dims + 1)):
        with pytest.raises(RuntimeError, match="Expect _random_samples"):
            pool(x, 2, output_size=2, _random_samples=torch.rand(shape, device=device))


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("bfloat16", "float32"), ("complex32", "float32")])
def test_values_of_another_dtype(device, dtypes, accumulate, deterministic):
    x, values = (torch.zeros(3, dtype=getattr(torch, name), device=device) for name in dtypes)
    torch.use_deterministic_algorithms(deterministic)
    try:
        with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match, got"):
            x.index_put_((torch.tensor([0, 0, 1], device=device),), values, accumulate=accumulate)
    finally:
        torch.use_deterministic_algorithms(False)
