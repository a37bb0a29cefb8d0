# SPDX-License-Identifier: MIT
"""Operators that PyTorch's database has no entry for."""

import contextlib
import pathlib

import pytest
import torch
import torchgen
import yaml

# What has kernels for the CPU and for CUDA, and none here.
MISSING = {
    "linalg_eig",  # LAPACK's: docs/linalg.md
    "linalg_eig.out",
    "_linalg_eigvals",
    "linalg_eigvals.out",
    "sspaddmm.out",  # CUDA's raises an error
}


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="other versions have other operators")
def test_what_cpu_and_cuda_have_is_here():
    path = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    missing = set()
    for function in yaml.safe_load(path.read_text()):
        keys = {key.strip() for keys in function.get("dispatch", {}) for key in keys.split(",")}
        name = function["func"].split("(")[0]
        if {"CPU", "CUDA"} <= keys:
            table = torch._C._dispatch_dump_table(f"aten::{name}").split("\n")
            if any(line.startswith("PrivateUse1:") and "[backend fallback]" in line for line in table):
                missing.add(name)
    assert missing == MISSING


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_add_relu(device, dtype):
    a, b = torch.arange(-6, 6).to(dtype).reshape(3, 4), torch.arange(4).to(dtype)
    x, y = a.to(device), b.to(device)
    expected = torch.relu(a + 2 * b)
    assert torch._VF._add_relu(x, y, alpha=2).cpu().equal(expected)
    assert torch.ops.aten._add_relu.Scalar(x, 3, 2).cpu().equal(torch.relu(a + 6))
    out = torch.empty_like(x)
    assert torch.ops.aten._add_relu.out(x, y, alpha=2, out=out) is out and out.cpu().equal(expected)
    assert torch.ops.aten._add_relu_.Tensor(x, y, alpha=2) is x and x.cpu().equal(expected)
    assert torch.ops.aten._add_relu_.Scalar(x, -5).cpu().equal(torch.relu(expected - 5))


@pytest.mark.parametrize("batch", [True, False])
def test_max_pool3d_keeps_the_memory_format(device, batch):
    x = torch.randn(2, 3, 4, 4, 4).to(device, memory_format=torch.channels_last_3d)
    x = (x if batch else x[:1].squeeze(0).clone()).requires_grad_()
    out, indices = torch.nn.functional.max_pool3d(x, 2, return_indices=True)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    for result in (out, indices, gradient):
        result = result if batch else result.unsqueeze(0)
        assert result.is_contiguous(memory_format=torch.channels_last_3d) and not result.is_contiguous()
    expected = torch.nn.functional.max_pool3d(x.detach().cpu(), 2, return_indices=True)
    assert out.cpu().equal(expected[0]) and indices.cpu().equal(expected[1])


@pytest.mark.parametrize("data", [[1, float("nan"), 3, 4, 5, 5], [0, float("nan"), 3, 0, 0, 5], [0, 2, 0, 3, 4, 5]])
def test_gradients_of_segments_products(device, data):
    """An element that is zero or NaN gets the product of the others."""

    def gradient(device):
        x = torch.tensor(data, dtype=torch.float32, device=device, requires_grad=True)
        torch.segment_reduce(x, "prod", lengths=torch.tensor([1, 2, 3, 0], device=device), initial=2).sum().backward()
        return x.grad.cpu()

    torch.testing.assert_close(gradient(device), gradient("cpu"), equal_nan=True)


def product_error(device):
    """Relative error of a product of float32."""
    torch.manual_seed(0)
    a, b = torch.randn(48, 40), torch.randn(40, 56)
    exact = a.double() @ b.double()
    return ((a.to(device) @ b.to(device)).cpu() - exact).norm() / exact.norm()


@pytest.mark.parametrize(
    "name",
    ["slow_conv_transpose2d", "slow_conv_transpose3d", "slow_conv_dilated2d", "slow_conv_dilated3d", "thnn_conv2d"],
)
def test_convolutions_named_after_an_algorithm(device, set_variable, name):
    set_variable("PYTORCH_OCL_FALLBACK", "error")
    dims = int(name[-2])
    x, weight = torch.randn(2, 3, *[6, 7, 5][:dims]), torch.randn(3, 3, *[3, 2, 2][:dims])
    function = getattr(torch._C._nn, name)

    def results(device):
        image, *leaves = (t.to(device).requires_grad_() for t in (x, weight, torch.linspace(-1, 1, 3)))
        options = (leaves[0], list(weight.shape[2:]), leaves[1], [2] * dims, [1] * dims)
        outputs = [function(image, *options)]
        gradients = torch.autograd.grad(outputs[0].square().sum(), [image, *leaves])
        with torch.no_grad():
            if "dilated" not in name:
                outputs.append(function(image, *options, out=torch.empty(0, device=device)))
            if (
                name != "thnn_conv2d"
            ):  # the others take an image without a batch, too; PyTorch 2.11's CPU does so wrongly
                wrong = device == "cpu" and "dilated" in name
                alone = function(image[:1], *options)[0] if wrong else function(image[0], *options)
                outputs.append(alone)
            if name == "thnn_conv2d":
                backward = torch.ops.aten._slow_conv2d_backward.grad_input
                grads = [torch.empty(0, device=device) for _ in range(3)]
                names = dict(zip(("grad_input", "grad_weight", "grad_bias"), grads))
                backward(outputs[0], image, leaves[0], options[1], *options[3:], **names)
                outputs += grads
        return [*outputs, *gradients]

    for actual, expected in zip(results(device), results("cpu")):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError):
        function(x.to(device), weight.to(device), [4] * dims)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_a_transposed_convolution_that_gives_nothing(device, dtype):
    x = torch.randn(5, 17, 6, 2).to(device, dtype).requires_grad_()
    weight = torch.randn(17, 16, 3, 1).to(device, dtype, memory_format=torch.channels_last).requires_grad_()
    y = torch.nn.functional.conv_transpose2d(x, weight, padding=(0, 1), dilation=(2, 1))
    assert y.shape == (5, 16, 10, 0)
    y.backward(torch.ones(y.shape, dtype=dtype, device=device))
    assert not x.grad.any() and not weight.grad.any()


def test_statistics_of_batches(device, set_variable):
    set_variable("PYTORCH_OCL_FALLBACK", "error")
    x, running = torch.randn(4, 3, 5), (torch.zeros(3), torch.ones(3))
    ours = tuple(r.to(device) for r in running)
    actual = torch.batch_norm_update_stats(x.to(device), *ours, 0.25)
    expected = torch.batch_norm_update_stats(x, *running, 0.25)
    for got, wanted in zip((*actual, *ours), (*expected, *running)):
        torch.testing.assert_close(got.cpu(), wanted)


def test_names_that_pytorch_left_behind(device, set_variable):
    """_aminmax, and the sums that matrix_exp was made of."""
    set_variable("PYTORCH_OCL_FALLBACK", "error")
    x, coefficients = torch.randn(4, 3, 2), torch.randn(5, 4)
    for options in ((), (1,), (1, True)):
        for got, wanted in zip(torch._aminmax(x.to(device), *options), torch._aminmax(x, *options)):
            assert got.cpu().equal(wanted)
    expected = torch._compute_linear_combination(x, coefficients)
    torch.testing.assert_close(torch._compute_linear_combination(x.to(device), coefficients.to(device)).cpu(), expected)
    out = torch.ones(5, 3, 2, device=device)
    assert torch._compute_linear_combination(x.to(device), coefficients.to(device), out=out) is out
    torch.testing.assert_close(out.cpu(), expected + 1)
    with pytest.raises(RuntimeError):
        torch._compute_linear_combination(x[0, 0, 0].to(device), coefficients.to(device))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_in_float32(device, dtype):
    """out_dtype of mm, bmm, addmm and baddbmm: 16-bit operands, sums as they are."""
    a, b = torch.randn(3, 33, 40).to(dtype), torch.randn(3, 40, 18).to(dtype)
    x, y, wide = a.to(device), b.to(device), a.double() @ b.double()
    for batch, bias in ((0, torch.randn(18)), (slice(None), torch.randn(18).to(dtype))):
        named = (torch.mm, torch.addmm) if batch == 0 else (torch.bmm, torch.baddbmm)
        plain = named[0](x[batch], y[batch], out_dtype=torch.float32)
        added = named[1](bias.to(device), x[batch], y[batch], out_dtype=torch.float32, beta=2, alpha=0.5)
        assert plain.dtype == added.dtype == torch.float32
        torch.testing.assert_close(plain.cpu().double(), wide[batch], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(added.cpu().double(), 2 * bias.double() + wide[batch] / 2, rtol=1e-5, atol=1e-5)
    assert torch.mm(x[0], y[0], out_dtype=dtype).equal(x[0] @ y[0])
    with pytest.raises(RuntimeError, match="out_dtype must be the same as input dtype or fp32"):
        torch.mm(x[0], y[0], out_dtype=torch.float64)
    with pytest.raises(RuntimeError, match="input dtypes must be the same"):
        torch.mm(x[0], y[0].float(), out_dtype=torch.float32)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(33x40 and 33x40\)"):
        torch.mm(x[0], x[0], out_dtype=torch.float32)


def test_fused_dropout(device):
    """As CUDA's: p is the chance to stay, the mask is of bytes."""
    x = torch.ones(20000, device=device)
    out, mask = torch._fused_dropout(x, 0.75)
    assert mask.dtype == torch.uint8 and abs(mask.float().mean().item() - 0.75) < 0.02
    assert torch.equal(out, torch._masked_scale(x, mask, 1 / 0.75))


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_bytes(device, transposed):
    """_int_mm: int8 by int8 makes int32, with any strides."""
    a, b = torch.randint(-128, 128, (37, 200), dtype=torch.int8), torch.randint(-128, 128, (200, 65), dtype=torch.int8)
    x, y = a.to(device), b.to(device)
    if transposed:
        x, y = x.t().contiguous().t(), y.t().contiguous().t()
    result = torch._int_mm(x, y)
    assert result.device.type == "ocl" and result.dtype == torch.int32
    assert result.cpu().equal(torch._int_mm(a, b))
    out = torch.empty(0, dtype=torch.int32, device=device)
    assert torch._int_mm(x, y, out=out) is out and out.cpu().equal(result.cpu())
    assert torch._int_mm(x[:, :0], y[:0]).cpu().eq(0).all()
    for use, message in (
        (lambda: torch._int_mm(x, x), "needs to match"),
        (lambda: torch._int_mm(x[0], y), "matrices"),
        (lambda: torch._int_mm(x.int(), y), "dtype Char"),
        (lambda: torch._int_mm(x, y, out=out.float()), "dtype Int"),
    ):
        with pytest.raises(RuntimeError, match=message):
            use()


def test_float32_precision_is_followed(device, set_variable):
    """set_float32_matmul_precision("high") allows tf32, "highest" takes it back."""
    set_variable("DLPRIM_GEMM", "mma")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        rounded = product_error(device)
    finally:
        torch.set_float32_matmul_precision(before)
    assert product_error(device) < 1e-6 < 1e-5 < rounded < 2e-3


@contextlib.contextmanager
def tf32_for_cuda():
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"


@pytest.mark.parametrize(
    "tf32", [lambda: torch.backends.flags(fp32_precision="tf32"), tf32_for_cuda], ids=["all backends", "cuda.matmul"]
)
def test_float32_precision_of_a_backend_is_followed(device, set_variable, tf32):
    """fp32_precision allows tf32, too, after which get_float32_matmul_precision() raises."""
    set_variable("DLPRIM_GEMM", "mma")
    torch.backends.cuda.matmul.fp32_precision = "none"
    exact = product_error(device)
    with tf32():
        rounded = product_error(device)
    assert exact < 1e-6 < 1e-5 < rounded < 2e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_a_number_fills_a_mask_in_one_kernel(device, dtype):
    x = torch.arange(6).sub(3).to(dtype)
    for number in (7, 2**53 + 1, True, -0.5 if dtype.is_floating_point else 3):
        expected = x.clone().masked_fill_(torch.arange(6) > 3, number)
        mask, result = torch.arange(6, device=device) > 3, x.to(device)
        with torch.ocl.profile() as profile:
            result.masked_fill_(mask, number)
        assert torch.equal(result.cpu(), expected) and len(profile.commands) == 1
    for bad, into in ((300, torch.int8), (1j, torch.float32)):
        with pytest.raises(RuntimeError, match="cannot be converted"):
            torch.zeros(6, dtype=into, device=device).masked_fill_(mask, bad)


def test_a_mask_takes_one_value_without_waiting(device):
    x = torch.arange(12.0).view(3, 4)
    masks = x > 5, torch.tensor([True, False, True]), torch.tensor([False, True, True, False])
    for choose in (lambda m, r, c: m, lambda m, r, c: r, lambda m, r, c: (slice(None), c)):
        for value in (7.0, torch.tensor(8.0), torch.tensor([[9.0]])):
            expected, found = x.clone(), x.to(device)
            index = choose(*(t.to(device) for t in masks))
            given = value.to(device) if isinstance(value, torch.Tensor) else value
            expected[choose(*masks)] = value
            torch.ocl.set_sync_debug_mode("error")
            try:
                found[index] = given
            finally:
                torch.ocl.set_sync_debug_mode("default")
            assert torch.equal(found.cpu(), expected)
    with pytest.raises(IndexError, match="shape of the mask"):
        x.to(device)[torch.ones(4, dtype=torch.bool, device=device)] = 1
    with pytest.raises(RuntimeError, match="dtypes match"):
        x.to(device).index_put_((masks[0].to(device),), torch.ones(1, dtype=torch.int64, device=device))
