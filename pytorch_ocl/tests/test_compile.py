# SPDX-License-Identifier: MIT
"""torch.compile: programs that Inductor generates for ocl give what eager ones give, without a graph that runs eagerly;
what cannot be compiled does run eagerly, and says so; other graphs go to Inductor as they are."""

import contextlib
import copy
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from processes import run_python
from torch.utils._pytree import tree_map

from pytorch_ocl import inductor


@pytest.fixture(autouse=True)
def fresh(request):
    if not inductor.is_tested() and "that_are_not_tested" not in request.node.name:
        pytest.skip("graphs run eagerly with this version of PyTorch")
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    inductor._warned = False
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        yield


@contextlib.contextmanager
def no_eager_graphs():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs? eagerly")
        yield


def moved(values, device):
    return tree_map(lambda v: v.detach().to(device) if isinstance(v, torch.Tensor) else v, values)


def check(function, *inputs, device, rtol=None, atol=None, **options):
    """The compiled function on the device gives what it gives on the CPU; changed inputs are compared, too."""
    arguments = moved(inputs, device)
    inputs = tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, inputs)
    with no_eager_graphs():
        found = torch.compile(function, fullgraph=True, **options)(*arguments)
    torch.testing.assert_close(
        moved((found, arguments), "cpu"), (function(*inputs), inputs), rtol=rtol, atol=atol, equal_nan=True
    )


def check_training(model, *inputs, device, tolerance=1e-4, **options):
    """Result and gradients of a compiled model are those of the model run eagerly on the CPU."""
    compiled = copy.deepcopy(model).to(device)
    expected = model(*inputs)
    expected.square().mean().backward()
    with no_eager_graphs():
        found = torch.compile(compiled, **options)(*moved(inputs, device))
        found.square().mean().backward()
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)
    for (name, wanted), parameter in zip(model.named_parameters(), compiled.parameters()):
        scale = max(1, wanted.grad.abs().max().item())
        torch.testing.assert_close(
            parameter.grad.cpu(),
            wanted.grad,
            rtol=tolerance * 10,
            atol=tolerance * scale,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def floats(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(*shape).to(dtype)


def integers(low, high, *shape, dtype=torch.int64):
    torch.manual_seed(0)
    return torch.randint(low, high, shape).to(dtype)


# Elements


def chain(x):
    return ((((x * 2 + 1).relu() * 0.5 - 3).abs() + x).sigmoid() * x).clamp(-1, 4).tanh().exp()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_chain(device, dtype):
    low = dtype.itemsize == 2
    check(chain, floats(33, 65, dtype=dtype), device=device, rtol=2e-2 if low else None, atol=2e-2 if low else None)


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


def test_forms_of_gpus(device, monkeypatch):
    from pytorch_ocl.inductor import runtime

    monkeypatch.setattr(runtime, "gpu_forms", True)
    check(
        lambda x, w: (normalized(x, w), x.argmax(-1), x.logsumexp(-1), x[:, :70].softmax(1)),
        floats(6, 130),
        floats(130),
        device=device,
        rtol=1e-4,
        atol=1e-5,
    )
    check(
        lambda x: (F.softmax(x, 0), x.argmax(0), torch.var_mean(x, 0), (x > 0).any(0)), floats(130, 70), device=device
    )
    check(lambda x: (chain(x), x.sum()), floats(100, 301), device=device, rtol=1e-4, atol=1e-4)


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


# What is not compiled


def test_what_cannot_be_compiled_runs_eagerly(device, monkeypatch):
    from pytorch_ocl.inductor.overrides import OclOverrides

    def refuse(x):
        raise NotImplementedError("sines of this test")

    monkeypatch.setattr(OclOverrides, "sin", staticmethod(refuse))
    x = floats(8)
    with pytest.warns(UserWarning, match="runs eagerly.*sines of this test"):
        found = torch.compile(lambda x: torch.sin(x * 2) + 1)(x.to(device))
    torch.testing.assert_close(found.cpu(), torch.sin(x * 2) + 1)


@pytest.mark.filterwarnings("ignore:torch.compile. a graph with ocl tensors runs eagerly")  # before PyTorch 2.15
def test_nextafter_of_16_bit_floats(device):
    x = floats(8).bfloat16()
    found = torch.compile(lambda x: torch.nextafter(x * 2, x) + 1)(x.to(device))
    torch.testing.assert_close(found.cpu(), torch.nextafter(x * 2, x) + 1)


def test_kernels_that_do_not_build(device, monkeypatch):
    from pytorch_ocl.inductor.kernel import OclKernel

    original = OclKernel.codegen_kernel
    monkeypatch.setattr(
        OclKernel, "codegen_kernel", lambda self, name=None: original(self).replace("[x0]", "[nothing]")
    )
    x = floats(8).requires_grad_()
    inputs = x.detach().to(device).requires_grad_()
    with pytest.warns(UserWarning, match="runs eagerly.*does not build"):
        torch.compile(lambda x: x.sin() * 2)(inputs).sum().backward()
    (x.sin() * 2).sum().backward()
    torch.testing.assert_close(inputs.grad.cpu(), x.grad)


def test_results_of_another_dtype_are_refused(device):
    from pytorch_ocl.inductor.runtime import with_strides

    x = torch.ones(2, 3, device=device)
    assert with_strides(x, (2, 3), (3, 1), "aten.x", torch.float32) is x
    assert with_strides(x, (2, 3), (1, 2), "aten.x").stride() == (1, 2)
    with pytest.raises(AssertionError, match="aten.x: expected a result of torch.int64, got torch.float32"):
        with_strides(x, (2, 3), (3, 1), "aten.x", torch.int64)


def test_versions_of_inductor_without_what_it_takes(device, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pytorch_ocl.inductor.compile", None)
    function = torch.compile(lambda x: x + 1)
    with pytest.warns(UserWarning, match="run eagerly with torch"):
        assert function(torch.ones(3, device=device)).sum().item() == 6


def test_graphs_on_the_cpu_are_left_to_inductor(device, monkeypatch):
    import torch._inductor.compile_fx as compile_fx

    check(lambda x: x.cos() + 1, floats(5), device=device)
    torch._dynamo.reset()
    graphs, original = [], compile_fx.compile_fx
    monkeypatch.setattr(compile_fx, "compile_fx", lambda graph, *a, **k: graphs.append(k) or original(graph, *a, **k))
    x = floats(64, 64)
    torch.testing.assert_close(torch.compile(lambda x: (x.sin() + 1).sum(0))(x), (x.sin() + 1).sum(0))
    assert len(graphs) == 1 and "inner_compile" not in graphs[0]


def test_the_package_does_not_import_inductor():
    assert run_python("import sys; print('torch._inductor.compile_fx' in sys.modules)") == "False"


def test_a_second_process_compiles_nothing(tmp_path):
    code = """
torch.compile(lambda x: (x.sin() + 1).softmax(1))(torch.ones(4, 70, device='ocl')).cpu()
from torch._dynamo.utils import counters
print(counters['inductor']['fxgraph_cache_hit'])
"""
    folders = {
        "DLPRIM_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "DLPRIM_DEBUG_BUILD": "1",
    }
    first, second = run_python(code, **folders), run_python(code, **folders)
    assert re.sub(r".*\n", "", first) == "0" and re.sub(r".*\n", "", second) == "1"


def test_versions_that_are_not_tested_run_eagerly(device, monkeypatch):
    monkeypatch.setattr(inductor, "TESTED", ("1.0",))
    x = torch.linspace(-1, 1, 10)
    for number in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = torch.compile(lambda v, number=number: F.gelu(v) + number)(x.to(device))
        assert [str(w.message) for w in caught if "not among those tested, 1.0" in str(w.message)] == [
            str(w.message) for w in caught if "run eagerly" in str(w.message)
        ]
        assert sum("run eagerly" in str(w.message) for w in caught) == 1 - number
        torch.testing.assert_close(found.cpu(), F.gelu(x) + number)
