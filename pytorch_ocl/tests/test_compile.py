# SPDX-License-Identifier: MIT
"""torch.compile: generated programs give what eager ones give; no graph of theirs runs eagerly."""

import pytest
import torch
import torch.nn.functional as F
from compiling import check, check_training, floats, fresh, integers, moved, no_eager_graphs  # noqa: F401

# Elements


def chain(x):
    return ((((x * 2 + 1).relu() * 0.5 - 3).abs() + x).sigmoid() * x).clamp(-1, 4).tanh().exp()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_chain(device, dtype):
    low = dtype.itemsize == 2
    check(chain, floats(33, 65, dtype=dtype), device=device, rtol=2e-2 if low else None, atol=2e-2 if low else None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_steps_that_round_as_eager_ones(device, dtype):
    with torch._inductor.config.patch(emulate_precision_casts=True):
        check(lambda x: (x * x + x) * x - x * 3, floats(33, 65, dtype=dtype), device=device, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_integers(device, dtype):
    x = integers(0 if dtype == torch.uint8 else -50, 50, 7, 9, dtype=dtype)
    check(
        lambda x: (
            x // 3,
            x % 7,
            -x,
            x * x,
            x ^ 3,
            ~x,
            x << 2,
            x >> 1,
            x.abs(),
            x.sign(),
            x > 3,
            x.to(torch.float32) / 3,
            x.bool(),
            x.sum(1),
            x.amax(0),
            x.argmin(1),
            x.clamp(1, 5),
        ),
        x,
        device=device,
    )


def test_conditions_become_numbers(device):
    for rows, columns in ((1, 1), (3, 2)):
        ones = torch.ones(rows, columns, dtype=torch.int32)
        check(lambda x: torch.eye(*x.shape, dtype=x.dtype, device=x.device) * 3 + x, ones, device=device)
        check(lambda x: (x > 0).int() + torch.eye(*x.shape, device=x.device).long(), ones, device=device)


def test_remainders_of_differences_of_positions(device):
    def remainders(x):
        place = torch.arange(9, device=x.device)
        distance = place - place[:, None]
        return torch.fmod(distance, 4) + x, torch.remainder(distance, 4) + x, distance // 4 + x, distance % -3 + x

    check(remainders, torch.zeros(9, 9, dtype=torch.int64), device=device)


def test_division_by_zero_ends_no_process(device):
    with no_eager_graphs():
        torch.compile(lambda x, y: (x // y, x % y))(
            torch.ones(9, dtype=torch.int32, device=device), torch.zeros(9, dtype=torch.int32, device=device)
        )[0].cpu()


def test_not_numbers(device):
    x = floats(5, 9)
    x[0, 3], x[1, 2], x[2, :] = float("nan"), float("inf"), -float("inf")
    check(
        lambda x: (
            x.amax(1),
            x.argmax(1),
            x.argmin(1),
            x.clamp(-1, 1),
            x.isnan(),
            x.isinf(),
            torch.maximum(x, x.flip(1)),
            x.nan_to_num(),
            x.min(1),
            x.sum(1),
            x.isfinite().all(),
        ),
        x,
        device=device,
    )


def test_functions(device):
    x = floats(4, 9).tanh()
    check(
        lambda x: (
            torch.special.erfinv(x),
            torch.special.i0(x),
            torch.special.bessel_j0(x),
            torch.digamma(x + 2),
            torch.erfc(x),
            torch.expm1(x),
            torch.log1p(x),
            torch.atan2(x, x + 2),
            torch.hypot(x, x + 1),
            torch.copysign(x, -x),
            x.frexp(),
            torch.fmod(x, 0.3),
            torch.remainder(x, -0.3),
            x.round(decimals=1),
            (x + 2) ** 2.5,
            torch.lgamma(x + 3),
            x.view(torch.int32) >> 3,
        ),
        x,
        device=device,
        rtol=1e-4,
        atol=1e-5,
    )


def test_sines_of_sines(device):
    check(lambda x: x.cos().sin() + x.cos().cos() + x.sin(), floats(20), device=device)  # ended Intel's compiler


def test_functions_of_doubles(device):
    def function(x):
        y = x + 2
        return torch.lgamma(y), torch.atan2(x, y), torch.erf(x), torch.exp(x), torch.tanh(x), torch.igamma(y, y * y)

    check(function, floats(4, 9).double().tanh(), device=device, rtol=1e-14, atol=1e-15)


# Reductions


@pytest.mark.parametrize(
    "shape, dims", [((33, 65), 1), ((33, 65), 0), ((5, 7, 300), (0, 2)), ((40000,), 0), ((0, 4), 0)]
)
def test_reductions(device, shape, dims):
    def function(x):
        extremes = (x.amax(dims), x.amin(dims)) if x.numel() else ()
        return (
            x.sum(dims),
            x.mean(dims),
            torch.var_mean(x, dims),
            (x > 0).any(dims),
            (x > 0).sum(dims),
            *extremes,
            (x - x.mean(dims, keepdim=True)).square().sum(dims),
        )

    check(function, floats(*shape), device=device, rtol=1e-4, atol=1e-4)


def normalized(x, w):
    y = F.layer_norm(x, x.shape[-1:], w) + x
    return F.softmax(y.masked_fill(y > 1, -float("inf")), -1) * F.gelu(y)


def test_rows_with_several_passes(device):
    check(
        lambda x, w: (normalized(x, w), x.argmax(-1), x.logsumexp(-1)),
        floats(6, 130),
        floats(130),
        device=device,
        rtol=1e-4,
        atol=1e-5,
    )
    check(
        normalized,
        floats(6, 130, dtype=torch.bfloat16),
        floats(130, dtype=torch.bfloat16),
        device=device,
        rtol=5e-2,
        atol=5e-2,
    )


def test_columns_with_several_passes(device):
    check(
        lambda x: (F.softmax(x, 0), x.argmax(0), x[x.argmax(0), torch.arange(x.shape[1], device=x.device)]),
        floats(130, 70),
        device=device,
    )


# Memory


def test_gather_and_scatter(device):
    def function(table, index, x):
        zeros = torch.zeros_like(table)
        return (
            F.embedding(index, table) * 2,
            table.gather(0, index),
            table[index[0], index[1] % 4],
            zeros.scatter_add(0, index, x),
            zeros.index_put((index[:, 0],), x, accumulate=True),
        )

    check(function, floats(10, 4), integers(0, 10, 4, 4), floats(4, 4), device=device)


def test_16_bit_floats_are_added_atomically(device):
    check(
        lambda x, index: torch.zeros(3, 5, device=x.device, dtype=x.dtype).index_put((index,), x, accumulate=True),
        torch.ones(40, 5, dtype=torch.bfloat16),
        integers(0, 3, 40),
        device=device,
    )


def test_views_and_shapes(device):
    check(
        lambda x: (
            torch.cat([x, x * 2, x[:, :3]], 1) + 1,
            F.pad(x, (1, 2, 3, 4)) * 2,
            x.t().reshape(-1) + 1,
            x.flip(0) * 2,
            x.roll(3, 1),
            x.tril() + x.triu(1),
            x.unfold(1, 5, 3).sum(-1),
            torch.stack([x, -x], 1).sum(0),
            F.max_pool2d(x[None], 2),
            F.interpolate(x[None, None], scale_factor=2),
            x.cumsum(1) * 2,
            x.sort(1)[0] + 1,
            x.repeat_interleave(2, 0),
        ),
        floats(8, 18),
        device=device,
    )


def test_inputs_are_changed(device):
    def function(x, y):
        x.add_(1)
        y[2:4] = 7
        flat = x.view(-1)
        flat.mul_(2)
        return x + y.sum(), flat

    check(function, floats(4, 6), floats(6), device=device)


def test_inputs_that_start_within_memory(device):
    base = floats(1000)
    arguments = base.to(device)
    function = torch.compile(lambda x: (x * 2).sum() + x.sin())
    for start in (1, 3, 64):
        part = base[start : start + 500]
        torch.testing.assert_close(function(arguments[start : start + 500]).cpu(), (part * 2).sum() + part.sin())


def test_numbers_on_the_host(device):
    check_inputs = torch.ones(5, device=device), torch.tensor(3.0), 2.5
    with no_eager_graphs():
        found = torch.compile(lambda x, scale, y: x * scale + y)(*check_inputs)
    torch.testing.assert_close(found.cpu(), torch.full((5,), 5.5))


def test_index_out_of_range(device):
    function = torch.compile(lambda table, index: table[index] * 2)
    table = torch.ones(10, 3, device=device)
    with no_eager_graphs():
        function(table, torch.tensor([1, -10], device=device)).cpu()
        with pytest.raises(IndexError, match="index 11 is out of bounds for dimension with size 10"):
            function(table, torch.tensor([1, 11], device=device)).cpu()
        assert function(table, torch.tensor([1, 9], device=device)).cpu().sum() == 12


# Random numbers


def test_dropout(device):
    x = torch.ones(300, 100, device=device, requires_grad=True)
    function = torch.compile(lambda x: F.dropout(x, 0.25))
    with no_eager_graphs():
        first, second = function(x), function(x)
        first.sum().backward()
    assert abs((first != 0).float().mean().item() - 0.75) < 0.02
    assert not torch.equal(first, second)
    torch.testing.assert_close(x.grad, first.detach())


def test_random_numbers(device):
    function = torch.compile(
        lambda: (
            torch.rand(10000, device=device),
            torch.randn(10000, device=device),
            torch.randint(-3, 5, (10000,), device=device),
        )
    )
    with no_eager_graphs():
        torch.manual_seed(1)
        uniform, normal, whole = function()
        torch.manual_seed(1)
        assert all(torch.equal(a, b) for a, b in zip(function(), (uniform, normal, whole)))
    assert 0 <= uniform.min() < 0.01 and 0.99 < uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    assert whole.unique().tolist() == list(range(-3, 5))


# Graphs


def test_sizes_that_change(device):
    torch._dynamo.utils.counters.clear()
    function = torch.compile(lambda x, y: torch.softmax(x * 2, -1).sum(0) + y.mean() + x.shape[0], dynamic=True)
    with no_eager_graphs():
        for rows, length in [(3, 5), (7, 33), (50, 257)]:
            x, y = floats(rows, length), floats(length)
            torch.testing.assert_close(
                function(x.to(device), y.to(device)).cpu(), torch.softmax(x * 2, -1).sum(0) + y.mean() + rows
            )
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_fractions_of_sizes(device):
    """A size's reciprocal is no whole number (1 / N in the gradient of a batch norm)."""
    function = torch.compile(lambda x: x * (1 / x.shape[0]) + x.sum(0) / (x.shape[0] * x.shape[1] / 4), dynamic=True)
    with no_eager_graphs():
        for rows, length in [(3, 5), (7, 33)]:
            x = floats(rows, length)
            torch.testing.assert_close(function(x.to(device)).cpu(), x / rows + x.sum(0) * 4 / (rows * length))


def test_graph_breaks(device):
    def function(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    with no_eager_graphs():
        for sign in (1, -1):
            x = torch.full((5,), float(sign))
            torch.testing.assert_close(torch.compile(function)(x.to(device)).cpu(), function(x))


@pytest.mark.parametrize("options", [{"mode": "reduce-overhead"}, {"options": {"max_autotune": True}}])
def test_modes(device, options):
    check(lambda x: (x @ x).relu() + 1, floats(8, 8), device=device, **options)


def test_other_operators_run_as_they_are(device):
    check(
        lambda q, x, w: (
            F.scaled_dot_product_attention(q, q, q, is_causal=True) * 2,
            F.conv2d(x, w, padding=1).relu(),
            torch.linalg.norm(q),
        ),
        floats(2, 4, 6, 8),
        floats(1, 3, 8, 8),
        floats(4, 3, 3, 3),
        device=device,
        rtol=1e-4,
        atol=1e-5,
    )


def test_control_flow_and_transforms(device):
    check(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), torch.ones(3), device=device)
    check(torch.func.vmap(torch.func.grad(lambda x: (x.sin() ** 2).sum())), floats(4, 3), device=device)


def test_graphs_on_several_devices(device):
    def function(x):
        return (x.to(device) * 2).cpu() + x.sin()

    x = floats(64)
    with no_eager_graphs():
        torch.testing.assert_close(torch.compile(function)(x), x * 2 + x.sin())


@pytest.mark.skipif(torch.ocl.device_count() < 2, reason="needs two devices")
def test_another_device():
    check(lambda x: F.softmax(chain(x), 1), floats(5, 70), device="ocl:1")


# Training


def test_small_networks_train(device):
    torch.manual_seed(0)
    nn = torch.nn
    check_training(
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)),
        torch.randn(6, 4),
        device=device,
    )
    check_training(
        nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        torch.randn(2, 3, 12, 12),
        device=device,
    )


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(20, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True, activation="gelu")
        self.head = torch.nn.Linear(16, 20)

    def forward(self, tokens, target):
        return F.cross_entropy(self.head(self.layer(self.table(tokens))).flatten(0, 1), target.flatten())


def test_a_transformer_trains(device):
    torch.manual_seed(0)
    target = integers(0, 20, 2, 7)
    target[0, 0] = -100
    check_training(Transformer(), integers(0, 20, 2, 7), target, device=device)


class Distances(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.points = torch.nn.Parameter(torch.randn(3, 5))

    def forward(self, x):
        return torch.cdist(self.points, x, p=1.5).sum() + self.points.sum()


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 4, 5), (2, 0, 5)])
def test_distances_train(device, shape):
    check_training(Distances(), torch.randn(shape), device=device, fullgraph=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_rows_train(device, mode):
    bags = torch.nn.EmbeddingBag(20, 4, mode=mode, include_last_offset=True)
    check_training(bags, integers(0, 20, 9), torch.tensor([0, 2, 2, 7, 9]), device=device, fullgraph=True)


def test_an_optimizer_step(device):
    parameters = [torch.nn.Parameter(floats(5, 3).to(device)) for _ in range(3)]
    plain = [p.detach().cpu().clone().requires_grad_() for p in parameters]
    for group in (parameters, plain):
        for parameter in group:
            parameter.grad = torch.ones_like(parameter)
    optimizer, expected = torch.optim.AdamW(parameters, lr=0.1), torch.optim.AdamW(plain, lr=0.1)
    with no_eager_graphs():
        step = torch.compile(optimizer.step)
        for _ in range(2):
            step()
            expected.step()
    for found, wanted in zip(parameters, plain):
        torch.testing.assert_close(found.detach().cpu(), wanted.detach())


@pytest.mark.parametrize("channels_last", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("stride, transposed, groups", [(1, False, 1), (2, False, 4), (2, True, 1)])
def test_layouts_of_convolutions_are_foretold(device, channels_last, stride, transposed, groups):
    """Fake tensors say how results and gradients are stored, whichever of input and weight is channels-last."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    settings = [[stride] * 2, [1, 1], [1, 1], transposed, [0, 0], groups]
    tensors = [torch.randn(2, 8, 6, 6, device=device), torch.randn(8, 8 // groups, 3, 3, device=device)]
    for number in channels_last:
        tensors[number] = tensors[number].contiguous(memory_format=torch.channels_last)

    def strides(x, w):
        result = torch.ops.aten.convolution(x, w, None, *settings)
        grads = torch.ops.aten.convolution_backward(result * 2, x, w, None, *settings, [True, True, False])
        return result.stride(), grads[0].stride()

    with FakeTensorMode() as mode:
        foretold = strides(*map(mode.from_tensor, tensors))
    assert foretold == strides(*tensors)


def test_channels_last_networks_stay_so(device):
    layers = [
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 8, 1),
    ]
    model = torch.nn.Sequential(*layers).to(device).to(memory_format=torch.channels_last)
    x = torch.randn(2, 8, 12, 12, device=device).contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(model)
    compiled(x).sum().backward()
    with torch.ocl.profile() as profile, no_eager_graphs():
        result = compiled(x)
        result.sum().backward()
        torch.ocl.synchronize()
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert not [row for row in profile.table() if row[0] == "transpose"]


def test_what_devices_there_are_is_a_constant(device):
    def function(x):
        return x + torch.ocl.device_count() if torch.ocl.is_available() and torch.ocl.is_bf16_supported() else x

    compiled = torch.compile(function, fullgraph=True)
    assert compiled(torch.zeros(3, device=device)).tolist() == [torch.ocl.device_count()] * 3
