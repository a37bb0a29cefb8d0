# SPDX-License-Identifier: MIT
"""Programs of operators that meet in one graph by chance, as random ones do."""

import types

import pytest
import sympy
import torch
import torch.nn.functional as F
from compiling import check, floats, fresh, integers, no_eager_graphs  # noqa: F401
from pytorch_ocl.inductor import runtime
from torch._higher_order_ops import map as over_rows
from torch._higher_order_ops import scan


def test_constants_of_several_types(device):
    """The number 0 of an integer type is another constant than False."""
    check(lambda x: (x > 0).all(0).half().view(torch.int16).unsqueeze(1).nansum(1), floats(5, 3), device=device)
    check(
        lambda x: (x.byte() + 200, x.short() + 200, x.int() + 200, x.bool() ^ True, x ^ 1, ~torch.ones_like(x) + x),
        integers(0, 6, 40),
        device=device,
    )


def test_divisions_in_a_loops_length(device):
    check(
        lambda x, index: F.embedding_bag(index[None], x, mode="mean").bool(),
        floats(3, 33),
        integers(0, 3, 4),
        device=device,
        dynamic=True,
    )


def test_bernoulli_keeps_the_dtype(device):
    function = torch.compile(lambda x: (x.bernoulli(0.25), 1 - torch.bernoulli(x, 0.25), x.bernoulli()), fullgraph=True)
    for dtype in (torch.float32, torch.float16, torch.float64):
        with no_eager_graphs():
            found = function(torch.full((50, 40), 0.75, dtype=dtype, device=device))
        assert [result.dtype for result in found] == [dtype] * 3
        for result, mean in zip(found, (0.25, 0.75, 0.75)):
            assert set(result.unique().tolist()) == {0, 1} and abs(result.double().mean().item() - mean) < 0.05


def test_loops_over_a_dimension(device):
    """scan and map, in graphs that may be broken, too."""
    rows, start = floats(7, 4), floats(4)
    inputs = [value.clone().to(device).requires_grad_() for value in (start, rows)]
    step = lambda carry, row: (carry * 0.5 + row.sin(), carry * row)  # noqa: E731
    with no_eager_graphs():
        results = torch.compile(lambda start, rows: scan(step, start, rows))(*inputs)
        sum(result.sum() for result in results).backward()
        mapped = torch.compile(lambda rows, start: over_rows(lambda row, y: row.sin() + y, rows, start))(*inputs[::-1])
    start.requires_grad_(), rows.requires_grad_()
    carry, kept = start, []
    for row in rows:
        carry, result = step(carry, row)
        kept.append(result)
    expected = carry, torch.stack(kept)
    sum(result.sum() for result in expected).backward()
    torch.testing.assert_close([result.cpu() for result in results], list(expected))
    torch.testing.assert_close([value.grad.cpu() for value in inputs], [start.grad, rows.grad])
    torch.testing.assert_close(mapped.cpu(), rows.sin() + start)


@pytest.mark.parametrize("options", [{}, {"cpp_wrapper": True}])
def test_results_without_nan(device, options):
    """config.nan_asserts, of a kernel of its own and of a combined one."""
    options = {"nan_asserts": True, **options}
    for function in (lambda x: x.log().sum(1), lambda x: (x.log(), x[:2].exp())):
        torch._dynamo.reset()
        compiled = torch.compile(function, options=options)
        with no_eager_graphs():
            compiled(torch.ones(5, 4, device=device))
            with pytest.raises((AssertionError, RuntimeError)):
                compiled(torch.zeros(5, 4, device=device))


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_that_int_does_not_hold(device, dynamic):
    """Of loops, of sizes and of numbers that the caller gives."""

    def function(x, number):
        places = torch.arange(70000, device=x.device)
        few = torch.arange(len(x), device=x.device)
        return (
            places * 50000,
            places**2,
            places * 100000 % 7777,
            places * 100000 / 3,
            few * len(x) * 1000000,
            few + number,
            few * number + len(x),
            x * number,
            F.pad(x, (3, 4)),
            torch.full((3,), number, device=x.device),
        )

    check(function, floats(64), 5_000_000_000, device=device, dynamic=dynamic)


def test_fractions_of_sizes_are_as_precise_as_pythons(device):
    """Where the device has double: wanted as double, and before they become whole numbers."""
    if not torch.ocl.get_device_properties(device).has_fp64:
        pytest.skip("no double")

    def function(x, number):
        return (
            x * (len(x) / 3),
            x + 1 / len(x),
            torch.linspace(0, len(x), 50, dtype=torch.float64, device=x.device),
            torch.arange(len(x), device=x.device) + int(len(x) * 0.29),  # 28.999999999999996
            x.long() + int(number / 3),
        )

    check(function, floats(100).double(), 300_000_003, device=device, dynamic=True, rtol=1e-15, atol=1e-15)


def test_large_fractions_are_no_integers():
    from pytorch_ocl.inductor.printer import print_float, print_index

    assert print_index(sympy.Float(1e30)) == "REAL_NUMBER(1e+30)" and print_float(sympy.Float(1e30)) == "1e+30f"
    assert print_index(sympy.Float("inf")) == "INFINITY" and print_index(sympy.Float(2.0)) == "2"


def test_sizes_that_depend_on_data(device):
    """A graph with such sizes has dependencies on what brings them, which is no tensor."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        check(
            lambda x, count: (
                x[x > 0] * 2,
                x.nonzero().sum(0) + 1,
                x.masked_select(x < 0).sum(),
                x.unique() * 2,
                torch.zeros(count.item(), device=x.device) + 1,
                torch.arange(count.item(), device=x.device) * count.item(),
                (x[: count.item()] * 3).sum(),
            ),
            floats(20),
            torch.tensor(5),
            device=device,
        )


def test_programs_of_cpus_run_on_gpus(device, monkeypatch):
    """As those of AOTInductor do: loops in runs are of the same text."""
    build = runtime.FusedKernel.__init__

    def build_for_gpus(self, name, **fields):
        with monkeypatch.context() as patched:
            patched.setattr(runtime, "gpu_forms", True)
            build(self, name, **fields)

    monkeypatch.setattr(runtime.FusedKernel, "__init__", build_for_gpus)
    check(
        lambda x, index: (
            x.tril().sum(0),
            x.softmax(0),
            x.argmax(0),
            x.view(-1, 4, 17).var((0, 2)),
            F.batch_norm(x.view(-1, 4, 17), None, None, training=True),
            x.view(-1, 4, 17) * index.view(4, 1),
            x[:, index].amax(1),
            F.layer_norm(x, (17,)),
        ),
        floats(256, 17),
        integers(0, 17, 4),
        device=device,
        rtol=1e-4,
        atol=1e-5,
    )


def test_programs_are_kept_for_devices_that_are_alike(device, monkeypatch):
    from pytorch_ocl.inductor.registration import OclPass

    kept = OclPass().uuid()
    assert OclPass().uuid() == kept
    properties = torch.ocl.get_device_properties
    names = ("name", "type", "max_compute_units", "warp_size", "max_work_group_size", "has_int64_atomics")
    for name in names:

        def other(index, name=name):
            found = {each: getattr(properties(index), each) for each in names}
            return types.SimpleNamespace(**{**found, name: f"not {found[name]}"})

        with monkeypatch.context() as patched:
            patched.setattr(torch.ocl, "get_device_properties", other)
            assert OclPass().uuid() != kept
