# SPDX-License-Identifier: MIT
"""Optimizers, the _foreach_* operators and the gradient scaler against the CPU, with no operator left to the CPU."""

import copy
import math

import pytest
import torch

SHAPES = [(10,), (100, 100), (3, 3, 3), (0,), ()] * 20


def lists(device, dtype=torch.float32, positive=False):
    torch.manual_seed(0)
    cpu = [torch.randn(shape).to(dtype) for shape in SHAPES]
    cpu = [x.abs() + 0.5 for x in cpu] if positive else cpu
    return cpu, [x.to(device) for x in cpu]


def assert_equal(device_list, cpu_list):
    for x, y in zip(device_list, cpu_list):
        torch.testing.assert_close(x.detach().cpu(), y.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("implementation", ["default", "fused", "loop"])
@pytest.mark.parametrize(
    "make",
    [
        lambda p, **k: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, **k),
        lambda p, **k: torch.optim.Adam(p, lr=0.01, amsgrad=True, maximize=True, **k),
        lambda p, **k: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, **k),
        lambda p, **k: torch.optim.SGD(p, lr=0.01, **k),
        lambda p, **k: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True, **k),
        lambda p, **k: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.3, **k),
    ],
    ids=["adam", "amsgrad", "adamw", "sgd", "nesterov", "dampened"],
)
def test_optimizer_follows_the_cpu(device, make, implementation):
    options = {"default": {}, "fused": {"fused": True}, "loop": {"foreach": False}}[implementation]
    cpu, ocl = ([torch.nn.Parameter(x) for x in part] for part in lists(device))
    reference, tested = make(cpu), make(ocl, **options)
    torch.ocl.reset_fallbacks()
    for _ in range(4):
        for x, y in zip(cpu, ocl):
            x.grad = torch.randn_like(x)
            y.grad = x.grad.to(device)
        reference.step()
        tested.step()
    assert_equal(ocl, cpu)
    assert not torch.ocl.fallbacks()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "name,arguments",
    [
        ("add", lambda x: (2.0,)),
        ("add", lambda x: (x,)),
        ("mul", lambda x: ([float(i) for i in range(len(x))],)),
        ("div", lambda x: (x,)),
        ("sqrt", lambda x: ()),
        ("exp", lambda x: ()),
        ("addcmul", lambda x: (x, x, 0.5)),
        ("addcdiv", lambda x: (x, x, [0.1 * i for i in range(len(x))])),
        ("lerp", lambda x: (x, 0.3)),
        ("maximum", lambda x: (1.0,)),
        ("pow", lambda x: (2.0,)),
        ("neg", lambda x: ()),
        ("norm", lambda x: ()),
        ("norm", lambda x: (1,)),
        ("norm", lambda x: (3,)),
    ],
)
def test_foreach(device, name, arguments, dtype):
    cpu, ocl = lists(device, dtype, positive=True)
    function = getattr(torch, f"_foreach_{name}")
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    for x, y in zip(function(ocl, *arguments(ocl)), function(cpu, *arguments(cpu))):
        torch.testing.assert_close(x.cpu(), y, **tolerance)


# name -> arguments behind the list, and the operator of single tensors with the same.
ALIKE = {
    **dict.fromkeys(
        """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac log log10 log1p log2 neg reciprocal round
        rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split(),
        ((), None),
    ),
    "add": (("b",), torch.add, {"alpha": 0.3}),
    "sub": (("b",), torch.sub, {"alpha": 0.3}),
    "mul": (("b",), torch.mul),
    "div": (("b",), torch.div),
    "pow": (("b",), torch.pow),
    "maximum": (("b",), torch.maximum),
    "minimum": (("b",), torch.minimum),
    "clamp_min": (("b",), torch.maximum),
    "clamp_max": (("b",), torch.minimum),
    "addcmul": (("b", "b", 0.3), lambda a, b, c, s: torch.addcmul(a, b, c, value=s)),
    "addcdiv": (("b", "b", 0.3), lambda a, b, c, s: torch.addcdiv(a, b, c, value=s)),
    "lerp": (("b", 0.3), torch.lerp),
}


MOVED = [torch.int64, torch.int16, torch.uint8, torch.bool, torch.complex64, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", MOVED)
def test_foreach_moves_every_dtype_in_one_launch(device, dtype):
    values = [torch.randint(0, 2, shape).mul(3).to(dtype) for shape in [(), (3, 5), (4099,)]]
    if dtype == torch.complex64:
        values = [x + 2j for x in values]
    to, read = [torch.ones_like(x, device=device) for x in values], [x.to(device) for x in values]
    with torch.ocl.profile() as profile:
        torch._foreach_copy_(to, read)
        torch._foreach_zero_(read)
    assert len(profile.commands) == 2
    assert_equal(to, values)
    assert all(not x.any() for x in read)
    # Conjugates and slices take another way.
    if dtype == torch.complex64:
        torch._foreach_copy_(to, [x.conj().to(device).conj() for x in values])
        assert_equal(to, values)
        torch._foreach_copy_(to, [x.to(device).conj() for x in values])
        assert_equal(to, [x.conj() for x in values])


def test_foreach_with_a_bool(device):
    """As single tensors: subtraction refuses it."""
    x = [torch.full((3,), 2.0, device=device)]
    for number in (True, [True]):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor is not supported"):
            torch._foreach_sub(x, number)
        assert torch._foreach_mul(x, number)[0].cpu().equal(torch.full((3,), 2.0))


@pytest.mark.parametrize("name", sorted(ALIKE))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_foreach_computes_what_single_operators_do(device, name, dtype):
    torch.manual_seed(0)
    values = torch.cat([torch.randn(2000, dtype=dtype), torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5])])
    x, other = values.to(device), values.flip(0).to(device)
    given, single, *options = ALIKE[name]
    options = options[0] if options else {}

    def arguments(b):
        return [b if argument == "b" else argument for argument in given]

    function = getattr(torch, f"_foreach_{name}")
    got = function([x, x[:3].clone()], *arguments([other, other[:3].clone()]), **options)
    expected = (single or getattr(torch, name))(x, *arguments(other), **options)
    last = 1e-6 if dtype is torch.float32 else 1e-14  # multiplications and additions may be joined in one kernel alone
    torch.testing.assert_close(got[0], expected, rtol=last, atol=last, equal_nan=True)
    if not given:
        assert got[0].nan_to_num(7).equal(expected.nan_to_num(7))
    in_place = [x.clone()]
    getattr(torch, f"_foreach_{name}_")(in_place, *arguments([other]), **options)
    assert in_place[0].nan_to_num(7).equal(got[0].nan_to_num(7))


def test_foreach_norm_of_infinite_order(device):
    cpu, ocl = lists(device)
    with pytest.raises(RuntimeError, match="empty tensor"):
        torch._foreach_norm(ocl, float("inf"))
    cpu, ocl = ([x for x in tensors if x.numel()] for tensors in (cpu, ocl))
    assert_equal(torch._foreach_norm(ocl, float("inf")), torch._foreach_norm(cpu, float("inf")))


def test_foreach_takes_lists_of_mixed_dtypes(device):
    cpu = [torch.ones(3), torch.ones(3, dtype=torch.int64)]
    ocl = [x.to(device) for x in cpu]
    assert_equal(torch._foreach_add(ocl, 1), torch._foreach_add(cpu, 1))
    assert_equal(torch._foreach_mul(ocl, ocl), torch._foreach_mul(cpu, cpu))


def test_foreach_refuses_lists_of_unequal_length(device):
    _, ocl = lists(device)
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(ocl, ocl[:3])


@pytest.mark.parametrize("fused", [False, True])
def test_gradient_scaler_skips_infinite_steps(device, fused):
    weight = torch.nn.Parameter(torch.ones(1000, device=device))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("ocl", init_scale=1024.0, growth_interval=1)
    torch.ocl.reset_fallbacks()
    for factor, expected_scale in ((1.0, 2048.0), (float("inf"), 1024.0), (1.0, 2048.0)):
        before = weight.detach().clone()
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected_scale
        assert torch.equal(before.cpu(), weight.detach().cpu()) == (factor == float("inf"))
    assert not torch.ocl.fallbacks()


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_is_fused_unless_told_otherwise(device, make):
    def group_after_a_step(**options):
        weight = torch.nn.Parameter(torch.ones(3, device=device))
        weight.grad = torch.ones_like(weight)
        optimizer = make([weight], **options)
        optimizer.step()
        return optimizer.param_groups[0]["fused"], optimizer.state[weight]["step"].device.type

    assert group_after_a_step() == (True, "ocl")
    assert group_after_a_step(foreach=True) == (None, "cpu")
    assert group_after_a_step(foreach=False) == (None, "cpu")
    assert group_after_a_step(fused=False) == (False, "cpu")


def test_adam_goes_on_from_a_state_of_another_implementation(device):
    def steps(optimizer, weight, count):
        for i in range(count):
            weight.grad = torch.full_like(weight, 1.0 + i)
            optimizer.step()

    weights = [torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5, device=device))]
    reference, optimizer = (torch.optim.Adam([weight], lr=0.1, amsgrad=True) for weight in weights)
    steps(reference, weights[0], 3)
    weights[1].data.copy_(weights[0].data)
    optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
    assert optimizer.param_groups[0]["fused"] is None
    for weight, each in zip(weights, (reference, optimizer)):
        steps(each, weight, 3)
    assert_equal(weights[1:], weights[:1])
    reference.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # and back
    weights[0].data.copy_(weights[1].data)
    for weight, each in zip(weights, (reference, optimizer)):
        steps(each, weight, 2)
    assert_equal(weights[1:], weights[:1])


def test_adam_of_a_network_partly_on_the_cpu_stays_as_it_is(device):
    weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3, device=device))]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.Adam(weights)
    optimizer.step()
    assert optimizer.param_groups[0]["fused"] is None
    assert_equal(weights[1:], weights[:1])


def in_layout(x, layout):
    """A copy of a tensor of four dimensions: row-major, channels last, or every other element of memory."""
    if layout == "gaps":
        return torch.stack([x, x], dim=-1)[..., 0]
    return x.contiguous(memory_format=torch.channels_last if layout == "last" else torch.contiguous_format).clone()


@pytest.mark.parametrize(
    "make",
    [
        lambda p, **k: torch.optim.Adam(p, lr=0.1, amsgrad=True, **k),
        lambda p, **k: torch.optim.SGD(p, 0.1, 0.9, **k),
        lambda p, **k: torch.optim.Adagrad(p, lr=0.1, **k),
    ],
    ids=["adam", "sgd", "adagrad"],
)
@pytest.mark.parametrize(
    "layouts",
    [("rows", "last"), ("last", "rows"), ("gaps", "rows"), ("rows", "gaps")],
    ids=lambda layouts: "-".join(layouts),
)
def test_fused_steps_take_any_layout(device, make, layouts):
    """Parameters and gradients; the former change theirs half way, the state does not."""
    torch.manual_seed(0)
    start, gradients = torch.randn(3, 4, 5, 2), torch.randn(4, 3, 4, 5, 2)
    results = []
    for where, options in (("cpu", {"foreach": False}), (device, {"fused": True})):
        weight = torch.nn.Parameter(in_layout(start.to(where), layouts[0]))
        optimizer = make([weight], **options)
        for i, gradient in enumerate(gradients):
            if i == 2:
                weight.data = in_layout(weight.data, layouts[1])
            weight.grad = None
            weight.grad = in_layout(gradient.to(where), layouts[1])
            optimizer.step()
        results.append([weight])
    assert_equal(*reversed(results))


def test_fused_steps_refuse_lists_that_do_not_fit(device):
    x, y = torch.ones(6, device=device), torch.ones(2, 3, device=device)
    options = {
        "weight_decay": 0.0,
        "momentum": 0.0,
        "lr": 0.1,
        "dampening": 0.0,
        "nesterov": False,
        "maximize": False,
        "is_first_step": True,
    }
    with pytest.raises(RuntimeError, match=r"_fused_sgd_: expected tensors of the same sizes, got \[6\] and \[2, 3\]"):
        torch._fused_sgd_([x], [y], [], **options)
    with pytest.raises(RuntimeError, match="_fused_sgd_: expected lists of one length, got 1 and 2"):
        torch._fused_sgd_([x], [x, x], [], **options)
