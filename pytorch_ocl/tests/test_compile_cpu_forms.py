# SPDX-License-Identifier: MIT
"""torch.compile: kernels in the form that CPUs get: loops that their compilers make vector code of."""

import copy

import pytest
import torch
import torch.nn.functional as F
from compiling import check, check_training, floats, fresh, integers, no_eager_graphs  # noqa: F401


@pytest.fixture(autouse=True)
def on_cpu(device):
    if torch.ocl.get_device_properties(device).type != "cpu":
        pytest.skip("the device is no CPU")


def source_of(function, *arguments):
    """The program that a compiled function becomes."""
    with no_eager_graphs():
        return "\n".join(torch._inductor.utils.run_and_get_code(torch.compile(function), *arguments)[1])


def normalized(x, scale):
    return F.relu6(x * scale[:, None, None] + 1)


@pytest.mark.parametrize("shape", [(2, 3, 16), (5, 7, 50), (3, 4, 7), (1, 3, 9000)])
def test_runs(device, shape):
    x = floats(*shape)
    check(lambda x, scale: (x * scale[:, None] + 1, x.mT * 2), x, floats(shape[1]), device=device)


def test_runs_are_the_last_dimension(device):
    x, scale = torch.randn(4, 6, 14, 14, device=device), torch.randn(6, device=device)
    assert "FOR_RUNS(int, xnumel, 196)" in source_of(normalized, x, scale)
    few = torch.randn(4, 6, 3, 3, device=device)
    assert "FOR_RUNS" not in source_of(normalized, few, scale)


def test_runs_of_sizes_that_change(device):
    compiled = torch.compile(normalized, dynamic=True)
    with no_eager_graphs():
        for size in (5, 9, 31):
            x, scale = torch.randn(2, 3, size, size, device=device), torch.randn(3, device=device)
            torch.testing.assert_close(compiled(x, scale), normalized(x, scale))


@pytest.mark.parametrize("length", [1, 15, 16, 31, 33, 64, 197, 1030])
def test_rows(device, length):
    x = floats(37, length)
    check(
        lambda x: (
            torch.softmax(x * 0.3, -1),
            x.amax(-1),
            x.amin(-1),
            x.sum(-1),
            (x > 1).any(-1),
            x.var(-1, correction=0),
            F.layer_norm(x, x.shape[-1:]),
        ),
        x,
        device=device,
        rtol=1e-5,
        atol=1e-5,
    )


def test_rows_with_infinities_and_nan(device):
    x = floats(9, 70)
    x[0, 5], x[1, 69], x[2] = torch.nan, torch.inf, -torch.inf
    check(lambda x: (torch.softmax(x, -1), x.amax(-1), x.amin(-1), x.logsumexp(-1)), x, device=device)


def test_rows_of_integers(device):
    x = integers(-100, 100, 11, 77)
    check(lambda x: (x.amax(-1), x.amin(-1), x.sum(-1), (x == 3).any(-1)), x, device=device)


def test_a_row_keeps_what_costs(device):
    x = torch.randn(8, 300, device=device)
    text = source_of(lambda x: torch.softmax(x, -1), x)
    assert text.count("exp_f32(") == 1 and text.count("values0[r0_index]") == 2
    # What an earlier loop wrote over is not what it was.
    y = floats(8, 300)
    check(lambda y: torch.softmax(y.exp_(), -1) + y.exp(), y, device=device, rtol=1e-5, atol=1e-5)


def of_channels(x):
    dims = (0, 2, 3)
    mean = x.mean(dims, keepdim=True)
    return F.silu((x - mean) * x.var(dims, keepdim=True).rsqrt()), x.amax(dims), x.abs().sum(dims)


@pytest.mark.parametrize("shape", [(6, 5, 14, 14), (3, 4, 33, 50), (2, 3, 7, 5), (1, 2, 100, 90), (40, 2, 1, 16)])
def test_rows_of_channels(device, shape):
    check(of_channels, floats(*shape), device=device, rtol=1e-5, atol=1e-4)


def test_rows_lie_in_runs(device):
    text = source_of(of_channels, torch.randn(6, 5, 14, 14, device=device))
    assert "REDUCE_RUNS(int, r0_numel, 196, STRIP)" in text and "RUNS_IN_ROW(int, r0_numel, 196)" in text
    few = source_of(of_channels, torch.randn(6, 5, 3, 3, device=device))
    assert "REDUCE_RUNS" not in few and "RUNS_IN_ROW" not in few


def test_rows_in_runs_of_sizes_that_change(device):
    compiled = torch.compile(of_channels, dynamic=True)
    with no_eager_graphs():
        for size in (9, 31, 6):
            x = torch.randn(4, 3, size, size + 1, device=device)
            torch.testing.assert_close(compiled(x), of_channels(x), rtol=1e-5, atol=1e-4)


def test_an_index_out_of_range_in_runs(device):
    def picked(x, table, places):
        return table[places].square().mean((0, 2)), x + 1

    x, table, places = floats(4, 5, 64), floats(100), integers(-100, 100, 4, 5, 64)
    check(picked, x, table, places, device=device)
    places[3, 2, 60] = 100
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        torch.compile(picked)(x.to(device), table.to(device), places.to(device))
        torch.ocl.synchronize()


@pytest.mark.parametrize("shape", [(6, 5, 14, 14), (8, 3, 3, 3)])
def test_batch_norm_in_training(device, shape):
    model = torch.nn.Sequential(torch.nn.BatchNorm2d(shape[1]), torch.nn.SiLU())
    check_training(model, floats(*shape).requires_grad_(), device=device)
    x, norm = torch.randn(*shape, device=device), copy.deepcopy(model).to(device)
    compiled, eager = torch.compile(norm), copy.deepcopy(norm)
    with no_eager_graphs():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), eager(x), rtol=1e-5, atol=1e-5)
    for found, expected in zip(norm.buffers(), eager.buffers()):
        torch.testing.assert_close(found, expected)
    # Statistics are read and written; nothing else lies where the activations do.
    text = source_of(norm, x)
    assert "IN(float, in_ptr0)" in text and "GLOBAL(float," in text


def scores(x, table, places):
    return torch.softmax(x + table[places], -1)


def test_indices_within_rows(device):
    x, table, places = floats(40, 49), floats(169), integers(-169, 169, 40, 49)
    check(scores, x, table, places, device=device, rtol=1e-5, atol=1e-6)
    text = source_of(scores, x.to(device), table.to(device), places.to(device))
    assert "lowest0 = min(lowest0" in text and text.count("REPORT(") == 2


@pytest.mark.parametrize("wrong", [169, -170, 1 << 40])
def test_an_index_out_of_range_within_a_row(device, wrong):
    x, table, places = floats(40, 49), floats(169), integers(0, 169, 40, 49)
    places[17, 30] = wrong
    compiled = torch.compile(scores)
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        compiled(x.to(device), table.to(device), places.to(device))
        torch.ocl.synchronize()


@pytest.mark.parametrize("shape", [(3, 8, 7, 7), (2, 40, 33, 5), (1, 3, 100, 100)])
def test_columns(device, shape):
    x = floats(*shape)
    check(
        lambda x: (x.amax(1), x.mean(1), F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],)).sum(-1), x.argmax(1)),
        x,
        device=device,
        rtol=1e-5,
        atol=1e-4,
    )


def test_normal_distribution_in_gelu(device):
    x = torch.linspace(-6, 6, 4000)
    check(F.gelu, x, device=device)
    assert "erf_plus_one_f32(" in source_of(F.gelu, x.to(device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_of_masked_rows(device, dtype):
    x, gradient = floats(9, 49, dtype=dtype), floats(9, 49, dtype=dtype)
    x[:, :20] -= 100  # what is left of them is below the normal numbers
    x[3, 7] = torch.nan
    probabilities = torch.softmax(x, -1)
    check(lambda p, g: torch.ops.aten._softmax_backward_data(g, p, -1, g.dtype), probabilities, gradient, device=device)


def test_attention_is_found_in_training(device):
    def attention(q, k, v):
        return ((q @ k.mT) * 0.2).softmax(-1) @ v

    counts = torch._dynamo.utils.counters["inductor"]
    before = counts["fuse_attention"]
    inputs = [torch.randn(2, 4, 64, 32, device=device, requires_grad=True) for _ in range(3)]
    with no_eager_graphs():
        torch.compile(attention)(*inputs).sum().backward()
    assert counts["fuse_attention"] > before


def test_tiny_probabilities_are_skipped(device):
    p, gradient = torch.rand(5, 49, device=device), torch.rand(5, 49, device=device)
    text = source_of(lambda p, g: torch.ops.aten._softmax_backward_data(g, p, -1, p.dtype), p, gradient)
    assert "1.17549" in text


def test_additions_by_index_are_eager(device):
    def rows(x, index, values):
        return x.index_put((index,), values * 2, accumulate=True), x.index_add(0, index, values * 3)

    def elements(x, index, values):
        index = index[:, None].expand_as(values)
        return x.scatter_add(0, index, values * 2), x.scatter_reduce(0, index, values, "sum", include_self=False)

    inputs = floats(30, 8), integers(0, 30, 200), floats(200, 8)
    for function in (rows, elements):
        check(function, *inputs, device=device, rtol=1e-5, atol=1e-5)
        assert "ADD(" not in source_of(function, *(x.to(device) for x in inputs))
    x, index, values = (x.to(device) for x in inputs)
    assert "ADD(" in source_of(rows, x.int(), index, values.int())


ELEMENTARY = {
    name: getattr(torch, name)
    for name in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf "
        "trunc floor ceil round"
    ).split()
}


def of_all_sizes():
    """Floats of all exponents, and those where functions turn."""
    bits = torch.randint(-(1 << 31), 1 << 31, (60000,), generator=torch.Generator().manual_seed(1)).int()
    small = torch.linspace(-9, 9, 20001)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-45, -1e-40, 88.7, 89.5, -87.5, -104.5, 127.9, 128.0, -149.0, 3e38]
    special += [float("inf"), float("-inf"), float("nan")]
    return torch.cat([bits.view(torch.float32), small, torch.tensor(special)])


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(device, name):
    function, x = ELEMENTARY[name], of_all_sizes()
    if name in ("sin", "cos", "tan"):
        x = x[~(x.isfinite() & (x.abs() > 2.0**49))]
    elif name == "sigmoid":
        x = x[~(x < -88)]  # below, the exponential that is divided by overflows, as eagerly
    wanted = function(x.double())
    with no_eager_graphs():
        got = torch.compile(function)(x.to(device)).cpu()
    assert torch.equal(got.isnan(), wanted.isnan())
    rounded = wanted.float()
    whole = rounded.isinf() | (rounded == 0)
    tiny = whole & (got.abs() < 1e-44)  # numbers that are no more than one step from zero
    assert torch.equal(got[whole & ~tiny], rounded[whole & ~tiny])
    zero = (x == 0) & ~wanted.isnan()
    assert torch.equal(got[zero].signbit(), rounded[zero].signbit())
    usual = wanted.isfinite() & ~whole
    step = torch.exp2(torch.frexp(wanted.abs().clamp_min(2.0**-126))[1].double() - 24)
    assert ((got.double() - wanted).abs() / step)[usual].max() < (4.5 if name in ("tan", "sinh") else 3)


def test_powers(device):
    x = of_all_sizes()
    for exponent in (2.3, -1.7, 3.0, -3.0, 0.5, 100.5, 0.0, float("inf"), -float("inf"), float("nan")):
        y = torch.full_like(x, exponent)
        with no_eager_graphs():
            got = torch.compile(torch.pow)(x.to(device), y.to(device)).cpu()
        torch.testing.assert_close(
            got, torch.pow(x.double(), y.double()).float(), rtol=3e-7, atol=2e-45, equal_nan=True
        )


def test_powers_of_ten(device):
    x = torch.tensor([10.0**n for n in range(11)])
    assert torch.compile(torch.log10)(x.to(device)).tolist() == list(range(11))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.int16])
def test_numbers_become_whole(device, dtype):
    x = of_all_sizes()
    x = x[x.isfinite() & (x.abs() < 9e18)]
    with no_eager_graphs():
        assert torch.equal(torch.compile(lambda x: x.to(dtype))(x.to(device)).cpu(), x.long().to(dtype))


def chain(x, scale):
    x = F.mish(x * scale[:, None])
    return torch.sin(x).exp().add_(x), x.log1p(), x * 0.5


@pytest.mark.parametrize("length", [1, 15, 511, 512, 513, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chains_in_stages(device, length, dtype):
    x, scale = torch.rand(3, length, dtype=dtype), torch.rand(3, dtype=dtype) + 0.5
    check(chain, x, scale, device=device)
    if length == 5000:
        assert "EACH_BLOCK" in source_of(chain, x.to(device), scale.to(device))


def test_chains_in_place(device):
    def work(x, y):
        x.copy_(torch.tanh(torch.sin(x) + y))
        return x.exp().log1p()

    x, y = torch.rand(3000), torch.rand(3000)
    results = []
    for where, function in (("cpu", work), (device, torch.compile(work))):
        own = x.clone().to(where)
        results.append((function(own, y.to(where)), own))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b.cpu())


@pytest.mark.parametrize("function", [
    torch.erfc, torch.lgamma, torch.digamma, lambda x: torch.fmod(x, 0.3), lambda x: torch.remainder(x, -0.3),
    lambda x: torch.nextafter(x, x + 1), lambda x: x.double().exp().sin(),
])  # fmt: skip
def test_functions_of_a_library(device, function):
    x = floats(7, 300)
    assert "form='items'" in source_of(function, x.to(device))
    check(function, x, device=device)
    check(lambda x: function(x.mT) + 1, x, device=device)


@pytest.mark.parametrize("function", [torch.erfc, torch.lgamma, lambda x: torch.fmod(x, 0.3)])
def test_chains_with_functions_of_a_library(device, function):
    check(lambda x: function(x.sin().tanh()) + x.exp().log1p() + torch.pow(x, x), floats(3, 700).abs(), device=device)


def test_quotients_of_exponentials(device):
    x = torch.tensor([-3.0, -100.0, -200.0])
    y = torch.tensor([1e-39, 1e-40, 1e-39])
    check(lambda x, y: (x.exp() / y, x.exp() / y.amin()), x, y, device=device)
