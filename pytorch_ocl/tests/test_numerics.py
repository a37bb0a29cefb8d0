# SPDX-License-Identifier: MIT
"""Dtypes that operators serve, exactness of float64, ranges that are checked on the device."""

import math

import pytest
import torch
from torch.nn import functional as F

ACTIVATIONS = [
    "silu",
    "gelu",
    "mish",
    "softplus",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "hardshrink",
    "softshrink",
    "elu",
    "celu",
    "selu",
    "glu",
    "logsigmoid",
]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_activations_of_integers_are_refused(device, name, dtype):
    for elements in (4, 0):
        x = torch.ones(elements, dtype=dtype, device=device)
        with pytest.raises(RuntimeError):
            getattr(F, name)(x.cpu())
        with pytest.raises(RuntimeError, match="not implemented for|expected a floating|result type"):
            getattr(F, name)(x)


@pytest.mark.parametrize(
    "function, dtype",
    [
        (torch.logaddexp, torch.int64),
        (torch.hypot, torch.int32),
        (torch.nextafter, torch.int64),
        (torch.fmod, torch.bool),
        (torch.remainder, torch.bool),
        (torch.floor_divide, torch.bool),
        (torch.gcd, torch.float32),
        (torch.bitwise_and, torch.float32),
        (torch.bitwise_left_shift, torch.float32),
        (torch.pow, torch.bool),
    ],
)
def test_dtypes_that_binary_operators_do_not_serve(device, function, dtype):
    x = torch.ones(3, dtype=dtype, device=device)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        function(x, x)
    assert (torch.ones(3, dtype=torch.bool, device=device) & True).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_remainders_where_the_quotient_overflows(device, dtype):
    tiny = torch.finfo(dtype).tiny
    a = torch.tensor([9, -9, 8.5, 3e38, 1, -5.5, math.inf, 2, math.nan, 0, -0.0, tiny / 2, 7], dtype=torch.float32)
    b = torch.tensor([tiny, tiny, -tiny, 1.5, tiny / 4, 2, 3, math.inf, 1, 4, 4, tiny, 0], dtype=torch.float32)
    a, b = a.to(dtype), b.to(dtype)
    for function in (torch.fmod, torch.remainder):
        torch.testing.assert_close(
            function(a.to(device), b.to(device)).cpu(), function(a, b), equal_nan=True, rtol=0, atol=0
        )


def test_remainders_are_exact(device):
    torch.manual_seed(0)
    for dtype, bits in ((torch.float32, torch.int32), (torch.float64, torch.int64)):
        info = torch.iinfo(bits)
        a, b = (torch.randint(info.min, info.max, (5000,), dtype=bits).view(dtype) for _ in range(2))
        valid = a.isfinite() & ~b.isnan() & (b != 0)
        a, b = a[valid], b[valid]
        expected = torch.tensor([math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist())], dtype=dtype)
        torch.testing.assert_close(torch.fmod(a.to(device), b.to(device)).cpu(), expected, rtol=0, atol=0)


def test_float64_norms_use_all_of_eps(device):
    x = torch.randn(4, 6, 5, dtype=torch.float64) * 1e-3
    ones, channels = torch.ones(5, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    for function in (
        lambda t, d: F.layer_norm(t, (5,), ones.to(d), eps=1e-5),
        lambda t, d: F.rms_norm(t, (5,), ones.to(d), eps=1e-5),
        lambda t, d: F.group_norm(t, 3, channels.to(d), channels.to(d), eps=1e-5),
        lambda t, d: F.instance_norm(t, eps=1e-5),
        lambda t, d: F.batch_norm(t, None, None, channels.to(d), channels.to(d), True, eps=1e-5),
        lambda t, d: F.batch_norm(t, channels.to(d) * 0, channels.to(d) * 1e-6, eps=1e-5),
        lambda t, d: torch.cdist(t, t, p=1.3),
        lambda t, d: F.multi_margin_loss(t[0], torch.arange(5, device=d).repeat(2)[:6], margin=0.3),
    ):
        results = []
        for where in ("cpu", device):
            t = x.to(where).detach().requires_grad_()
            y = function(t, where)
            y.mul(torch.arange(y.numel(), dtype=y.dtype, device=where).view(y.shape).sin()).sum().backward()
            results += [y.detach().cpu(), t.grad.cpu()]
        for got, expected in zip(results[2:], results[:2]):
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("function", [torch.cumsum, torch.cumprod])
def test_scans_of_complex_numbers(device, dtype, function):
    for shape, dim in (((3, 300), 1), ((300, 3), 0), ((2, 5, 3), 1), ((20000,), 0), ((), 0), ((0, 3), 1)):
        x = torch.polar(torch.ones(shape, dtype=dtype.to_real()), torch.rand(shape, dtype=dtype.to_real()))
        y = x.to(device)
        x.requires_grad_(), y.requires_grad_()
        expected, got = function(x, dim), function(y, dim)
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-3 if dtype == torch.complex64 else 1e-9, atol=1e-3)
        if x.numel() < 2000:
            expected.abs().sum().backward(), got.abs().sum().backward()
            torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_running_logarithms_of_sums_of_complex_exponentials(device, dtype):
    """Imaginary parts may differ by 2 pi, as the order of the sums does."""
    bound = 1e-5 if dtype == torch.complex64 else 1e-12
    for shape, dim in (((3, 70, 4), 1), ((2, 5000), -1), ((40000,), 0), ((), 0), ((0, 3), 0)):
        x = torch.randn(shape, dtype=dtype) * 3
        got, expected = x.to(device).logcumsumexp(dim).cpu(), x.to(torch.complex128).logcumsumexp(dim)
        torch.testing.assert_close(got.real.double(), expected.real, rtol=bound, atol=bound * 10)
        turns = (got.imag - expected.imag) / (2 * math.pi)
        assert x.numel() == 0 or (turns - turns.round()).abs().max() < bound * 100
    infinity = math.inf
    x = torch.tensor([complex(-infinity, 0), 1 + 2j, -800, 800, complex(infinity, 1), 3j, math.nan, 1], dtype=dtype)
    torch.testing.assert_close(x.to(device).logcumsumexp(0).cpu(), x.logcumsumexp(0), equal_nan=True)
    x = torch.randn(7, dtype=dtype)
    grads = []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        leaf.logcumsumexp(0).abs().square().sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=bound * 10, atol=bound * 10)


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan])
def test_probabilities_are_checked(device, bad):
    p = torch.tensor([0.5, bad], device=device)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(p, torch.ones(2, device=device))
        torch.ocl.synchronize()
    with pytest.raises(RuntimeError, match="target should be between 0 and 1"):
        F.binary_cross_entropy(torch.full((2,), 0.5, device=device), p)
        torch.ocl.synchronize()
    with pytest.raises(RuntimeError, match="0 <= p <= 1"):
        torch.bernoulli(p)
        torch.ocl.synchronize()
    F.binary_cross_entropy(torch.rand(4, device=device), torch.ones(4, device=device)).item()
    torch.bernoulli(torch.tensor([0.0, 1.0], device=device)).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.half])
def test_samples_of_parameters_that_no_distribution_has(device, dtype):
    """They come to an end, too."""
    odd = torch.tensor([math.nan, -1.0, -math.inf], dtype=dtype, device=device)
    assert torch._standard_gamma(odd).isnan().all()
    assert torch.binomial(torch.full_like(odd, 50), odd).tolist()[1:] == [0, 0]
    assert torch.binomial(odd.abs(), torch.full_like(odd, 0.5)).isnan().tolist() == [True, False, True]
    endless = torch.full((2,), math.inf, dtype=dtype, device=device)
    assert torch.poisson(endless).isinf().all() and torch._standard_gamma(endless).isinf().all()
    for rate in odd:
        with pytest.raises(RuntimeError, match="invalid Poisson rate"):
            torch.poisson(rate)
            torch.ocl.synchronize(device)


@pytest.mark.parametrize("index", [100, 256, 257, 1 << 40])
def test_numbers_of_devices_are_not_cut(device, index):
    for use in (torch.ocl.set_device, torch.ocl.default_stream, torch.ocl.current_stream, torch.ocl.get_rng_state):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            use(index)


@pytest.mark.parametrize("index", [-3, 100])
def test_streams_of_devices_that_do_not_exist(device, index):
    stream = torch.Stream(stream_id=0, device_index=index, device_type=20)
    for use in (torch.ocl.set_stream, torch.accelerator.set_stream):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            use(stream)


FILL = "__kernel void fill(__global T *x, T value) { x[get_global_id(0)] = value; }"


def test_custom_kernels_take_numbers_that_fit(device):
    for name, dtype, good, bad in (
        ("uchar", torch.uint8, [0, 255], [-1, 256]),
        ("char", torch.int8, [-128], [128]),
        ("int", torch.int32, [-(2**31), 7.0], [2**31, 0.5, math.nan, 3e9]),
        ("long", torch.int64, [2**62, -(2**63)], [1e19]),
    ):
        kernel = torch.ocl.compile_kernel(FILL, "fill", f"-DT={name}")
        x = torch.zeros(4, dtype=dtype, device=device)
        for value in good:
            kernel(x, value)
            assert x.tolist() == [value] * 4
        for value in bad:
            with pytest.raises((RuntimeError, ValueError), match="argument 1: expected"):
                kernel(x, value)


def test_custom_kernels_of_empty_tensors(device):
    kernel = torch.ocl.compile_kernel(
        "__kernel void set(__global float *x, __global const float *none, int n) { x[get_global_id(0)] = n; }", "set"
    )
    kernel(torch.zeros(0, device=device), torch.zeros(0, device=device), 1)
    x = torch.zeros(3, device=device)
    kernel(x, torch.zeros(0, device=device), 2)
    assert x.tolist() == [2, 2, 2]


def test_custom_kernels_take_half(device):
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" + FILL
    try:
        kernel = torch.ocl.compile_kernel(source, "fill", "-DT=half")
    except RuntimeError as error:
        if "half" not in str(error) and "fp16" not in str(error):
            raise
        pytest.skip("the device's compiler has no half")
    x = torch.zeros(2, dtype=torch.float16, device=device)
    for value in (0, 1, -2.5, 0.1, 65504.0, 1e6, 6e-8, 1e-9, 1e-5, 0.99999, math.inf):
        kernel(x, value)
        assert x.cpu().tolist() == torch.full((2,), float(value)).half().tolist()


@pytest.mark.parametrize("norm", ["layer", "rms", "group"])
def test_gradients_of_norms_of_nothing_are_zeros(device, norm):
    width = 6
    x = torch.ones(0, width, device=device, requires_grad=True)
    weight, bias = (torch.ones(width, device=device, requires_grad=True) for _ in range(2))
    garbage = [torch.full((width,), 7.0, device=device) for _ in range(4)]
    del garbage  # what uninitialized gradients would hold
    parameters = (weight,) if norm == "rms" else (weight, bias)
    y = {
        "layer": lambda: F.layer_norm(x, (width,), weight, bias),
        "rms": lambda: F.rms_norm(x, (width,), weight),
        "group": lambda: F.group_norm(x, 2, weight, bias),
    }[norm]()
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert all(p.grad.tolist() == [0] * width for p in parameters)


@pytest.mark.parametrize("exponent, expected", [(0.5, torch.sqrt), (-0.5, torch.rsqrt), (3, lambda x: x * x * x)])
def test_powers_by_common_exponents(device, exponent, expected):
    """sqrt of -inf is nan, pow(-inf, 0.5) of C infinity: PyTorch gives the former."""
    x = torch.tensor([-0.0, 0.0, -math.inf, math.inf, math.nan, -4.0, 2.0, 1e-20], device=device)
    torch.testing.assert_close(x.pow(exponent), expected(x), equal_nan=True)
    assert math.copysign(1, x.pow(exponent)[0]) == math.copysign(1, expected(x)[0])


def test_histograms_count_further_than_one_float_does(device):
    """As on the CPU, whose threads count for themselves: a float32 that ones are added to stays at 2^24."""
    if torch.ocl.get_device_properties(device).type != "cpu":
        pytest.skip("work-items of GPUs add to one number")
    n = 2**24 + 1024
    x = torch.full((n,), 0.5, device=device)
    assert torch.histogram(x, 4, range=(0, 1))[0].tolist() == [0, 0, n, 0]
    assert torch.histogramdd(x[:, None], (4,), range=(0, 1))[0].tolist() == [0, 0, n, 0]
    assert torch.histc(x, 4, 0, 1).tolist() == [0, 0, n, 0]


def test_norms_of_long_rows_keep_their_precision(device):
    """One sum of millions of float32 loses the bits of what comes late."""
    x = torch.rand(2, 1 << 22, generator=torch.Generator().manual_seed(1))
    for function in (
        lambda t: F.layer_norm(t, t.shape[1:]),
        lambda t: F.rms_norm(t, t.shape[1:]),
        lambda t: F.group_norm(t.view(2, 2, -1), 1),
    ):
        torch.testing.assert_close(function(x.to(device)).cpu().double(), function(x.double()), rtol=0, atol=5e-6)


def test_zeta_of_large_numbers_is_nothing(device):
    x = torch.tensor([1e4, 1e8, 2.0, 30.0], device=device)
    expected = torch.special.zeta(x.cpu(), torch.tensor([1e4, 1e8, 2.0, 1e30]))
    assert expected.tolist()[:2] == [0, 0] and expected[3] == 0
    torch.testing.assert_close(
        torch.special.zeta(x, torch.tensor([1e4, 1e8, 2.0, 1e30], device=device)).cpu(), expected
    )


@pytest.mark.parametrize(
    "name", ["MaxPool2d", "AdaptiveMaxPool2d", "FractionalMaxPool2d", "MaxPool3d", "FractionalMaxPool3d"]
)
def test_gradients_of_maxima_of_no_batch(device, name):
    pool = getattr(torch.nn, name)(2, **({"output_size": 3} if "Fractional" in name else {}))
    x = torch.ones(0, 3, *[8] * int(name[-2]), device=device, requires_grad=True)
    pool(x).sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", "exp sqrt tan tanh asin acos atan asinh atanh sigmoid".split())
def test_complex_functions_at_infinity_and_of_large_numbers(device, name, dtype):
    values = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1e20, -3e12, 0.5, -2.5]
    if name in ("exp", "tan", "tanh", "sigmoid"):
        values = [value for value in values if not abs(value) > 100 or math.isinf(value)]
    z = torch.tensor([complex(x, y) for x in values for y in values], dtype=dtype)
    function = getattr(torch, name)
    got, expected = function(z.to(device)).cpu(), function(z)
    torch.testing.assert_close(torch.view_as_real(got), torch.view_as_real(expected), equal_nan=True)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_dropout_of_every_other_element_keeps_the_memory_format(device, layout):
    x = torch.empty(2, 3, 3, 6, device=device).to(memory_format=layout)[..., ::2].fill_(1)
    y = F.dropout(x, 1e-10)
    assert y.is_contiguous(memory_format=layout) and y.cpu().eq(1).all()


def test_arange_says_that_it_resizes(device):
    with pytest.warns(UserWarning, match="The out tensor will be resized"):
        assert torch.arange(5, out=torch.zeros(3, device=device)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [4095, 4096, 300_001])
def test_inner_products_of_long_vectors(device, dtype, size):
    x, y = torch.rand(2 * size).to(dtype)[::2], torch.rand(size).div(100).to(dtype)
    expected = x.double() @ y.double()
    bound = {torch.float64: 1e-14, torch.float32: 2e-6}.get(dtype, torch.finfo(dtype).eps)
    for own in ((x.to(device), y.to(device)), (x.to(device).expand(1, -1)[0], y.flip(0).to(device).flip(0))):
        for function in (torch.dot, torch.vdot, torch.inner, torch.matmul, lambda x, y: (x[None] @ y[:, None])[0, 0]):
            torch.testing.assert_close(function(*own).cpu().double(), expected, rtol=bound, atol=0)
    own[0][7] = math.nan
    assert own[0].dot(own[1]).isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_batches_of_long_inner_products(device, dtype, batch):
    x, y = (torch.randint(0, 3, (*batch, 10_000, 2)).to(dtype)[..., 0] for _ in range(2))
    expected = (x.double() * y.double()).sum(-1)
    if dtype == torch.uint8:
        expected = expected.remainder(256)
    got = (x.to(device)[..., None, :] @ y.to(device)[..., None]).cpu()
    assert got.shape == (*batch, 1, 1) and got.dtype == dtype
    torch.testing.assert_close(got[..., 0, 0], expected.to(dtype))
    own = torch.full_like(got, 7, device=device)
    torch.matmul(x.to(device)[..., None, :], y.to(device)[..., None], out=own)
    assert torch.equal(own.cpu(), got)


def test_distances_of_long_rows_keep_their_precision(device):
    x = torch.rand(2, 1_000_000)
    for p in (0.5, 1.0, 2.0, 3.0, math.inf):
        got, expected = torch.pdist(x.to(device), p).cpu(), torch.pdist(x.double(), p)
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    x[0, 5] = math.nan
    assert torch.pdist(x.to(device), math.inf).isnan()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_logarithms_and_powers_of_infinite_complex_numbers(device, dtype):
    ends = [complex(a, b) for a in (math.inf, -math.inf, math.nan) for b in (math.inf, -math.inf, math.nan)]
    x = torch.tensor(ends, dtype=dtype)
    for function in (torch.log, torch.log10, torch.acos, torch.asin):
        torch.testing.assert_close(function(x.to(device)).cpu(), function(x), equal_nan=True)
    base, exponent = x.repeat(9), x.repeat_interleave(9)
    actual, expected = base.to(device).pow(exponent.to(device)).cpu(), base.pow(exponent)
    torch.testing.assert_close(torch.view_as_real(actual), torch.view_as_real(expected), equal_nan=True)


@pytest.mark.parametrize("function", [torch.remainder, torch.fmod, torch.atan2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_are_rounded_to_the_tensors_dtype(device, function, dtype):
    x = torch.linspace(-9, 9, 101).to(dtype)
    number = torch.tensor(2.3, dtype=torch.float64) if function is torch.atan2 else 2.3
    torch.testing.assert_close(function(x.to(device), number).cpu(), function(x, number), rtol=0, atol=0.01)


@pytest.mark.parametrize("bins", [1, 10, 5000, 20000])
def test_counts_of_bins(device, bins):
    generator = torch.Generator().manual_seed(0)
    for n in (1, 1000, 70001):
        x = torch.randint(bins, (n,), generator=generator)
        assert torch.equal(x.to(device).bincount(minlength=bins + 3).cpu(), x.bincount(minlength=bins + 3))
        y = torch.randn(n, generator=generator)
        edges = torch.arange(-bins, bins + 1, 2) / 4096  # exact, so that no rounding decides
        y = (y * 64).round() / 64
        assert torch.equal(torch.histogram(y.to(device), edges.to(device))[0].cpu(), torch.histogram(y, edges)[0])
        counts = y.to(device).histc(bins, -1, 1).cpu()
        assert counts.sum() == y.abs().le(1).sum()
        if bins == 1 or bins == 10:
            assert torch.equal(counts, y.histc(bins, -1, 1))


@pytest.mark.parametrize("n", [2, 3, 70, 1500])
def test_distances_of_pairs_take_no_matrix_of_all(device, n):
    x, weight = torch.rand(n, 3, dtype=torch.float64), torch.rand(n * (n - 1) // 2, dtype=torch.float64)
    for p in (0.0, 0.7, 1.0, 2.0, math.inf):
        found = []
        for place in ("cpu", device):
            rows, w = x.to(place, copy=True).requires_grad_(), weight.to(place)
            if place == device:
                torch.ocl.reset_peak_memory_stats()
                before = torch.ocl.memory_allocated()
            distances = torch.pdist(rows, p)
            (gradient,) = torch.autograd.grad((distances * w).sum(), rows)
            found.append((distances.detach().cpu(), gradient.cpu()))
        torch.testing.assert_close(found[1], found[0])
        # The distances, their gradient and products with weights; those of all pairs in both orders are twice as many.
        assert torch.ocl.max_memory_allocated() - before < 5 * weight.numel() * 8 + 2**16


def test_errors_of_selections_and_counts(device):
    with pytest.raises(IndexError, match=r"kthvalue\(\): Expected reduction dim 1 to have non-zero size"):
        torch.zeros(3, 0, device=device).kthvalue(1, 1)
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(NotImplementedError, match='"bincount" not implemented for'):
            torch.zeros(3, device=device, dtype=dtype).bincount()
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative integral inputs"):
        torch.zeros(2, 3, device=device, dtype=torch.int64).bincount()
