# SPDX-License-Identifier: MIT
"""Small calculations that stand for the families of kernels. Each is a function of `x`, which gives numbers of a shape
on the device, the same on every device, and returns a tensor or several. Sizes are off the tiles' multiples."""

import torch
from torch.nn import functional

FAMILIES = {}


def family(function):
    FAMILIES[function.__name__.replace("_", " ")] = function
    return function


class Numbers:
    """Calling it gives float32 numbers of [-1, 1) of a shape; `integers` int64 ones of [0, high)."""

    def __init__(self, device, seed=0):
        self.device, self.generator = device, torch.Generator().manual_seed(seed)

    def __call__(self, *shape):
        return (2 * torch.rand(shape, generator=self.generator) - 1).to(self.device)

    def integers(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator).to(self.device)


@family
def pointwise(x):
    a, b = x(37, 129), x(129)
    return torch.exp(a) * b + torch.sin(a), torch.where(a > b, a, b), functional.gelu(a.t())


@family
def pointwise_16_bits(x):
    a = x(37, 129)
    return (a.half() * 3 + 1).float(), (a.bfloat16() * 3 + 1).float()


@family
def copy(x):
    a = x(9, 33, 65)
    return a.permute(2, 0, 1).contiguous(), a.flip(1), torch.cat([a, a[:, :, :7]], 2), functional.pad(a, (1, 2, 3, 4))


@family
def integers(x):
    a, b = x.integers(1000, 41, 67), x.integers(7, 67)
    return a // (b + 1), a % (b + 1), (a.to(torch.int8) ^ 3), a.to(torch.uint8) << 1


@family
def reduction(x):
    a = x(67, 1031)
    return a.sum(), a.sum(0), a.amax(1), a.var(1), a.argmin(1), a.logsumexp(0), (a > 0).any(1)


@family
def scan(x):
    a = x(13, 3001)
    return a.cumsum(1), a.cummax(1).values, a.t().contiguous().cumsum(0), (100 * a).to(torch.int8).cummin(1).values


@family
def fourier(x):
    a = x(7, 90, 121)
    z = torch.complex(a, x(7, 90, 121))
    return tuple(
        torch.view_as_real(y)
        for y in (torch.fft.fft(z), torch.fft.ifft(z, dim=1), torch.fft.rfft2(a), torch.fft.fft(x(3, 1021)))
    ) + (torch.fft.irfftn(z),)


@family
def sorting(x):
    a = x(5, 5003)
    return (*a.sort(stable=True), a.topk(9).values, *x.integers(50, 999).unique(return_counts=True))


@family
def matrix_product(x):
    return x(67, 131) @ x(131, 97), x(3, 33, 257) @ x(3, 257, 65), x(1, 300) @ x(300, 500), x(257, 513) @ x(513, 259)


@family
def matrix_product_16_bits(x):
    return (x(67, 128).half() @ x(128, 96).half()).float(), (x(67, 128).bfloat16() @ x(128, 96).bfloat16()).float()


def differentiated(function, *inputs):
    """The result of a function and its gradients by the inputs."""
    inputs = [i.detach().requires_grad_() for i in inputs]
    result = function(*inputs)
    # Weights, as the squares of normalized numbers have no gradient but rounding.
    weights = torch.linspace(0.5, 1.5, result.numel()).cos().to(result.device).view(result.shape)
    return (result.detach(), *torch.autograd.grad((result * weights).sum(), inputs))


@family
def convolution(x):
    return differentiated(
        lambda a, w, b: functional.conv2d(a, w, b, padding=1), x(2, 19, 23, 29), x(33, 19, 3, 3), x(33)
    )


@family
def convolution_strided(x):
    return differentiated(
        lambda a, w: functional.conv2d(a, w, stride=2, padding=2, groups=2), x(2, 8, 21, 20), x(6, 4, 5, 5)
    )


@family
def convolution_depthwise(x):
    return differentiated(lambda a, w: functional.conv2d(a, w, padding=1, groups=24), x(2, 24, 17, 19), x(24, 1, 3, 3))


@family
def convolution_transposed(x):
    return differentiated(lambda a, w: functional.conv_transpose2d(a, w, stride=2), x(2, 7, 9, 10), x(7, 5, 4, 4))


@family
def normalization(x):
    return (
        *differentiated(
            lambda a, w, b: functional.batch_norm(a, None, None, w, b, True), x(8, 12, 9, 11), x(12), x(12)
        ),
        *differentiated(lambda a, w, b: functional.layer_norm(a, (257,), w, b), x(33, 257), x(257), x(257)),
        *differentiated(lambda a: functional.group_norm(a, 3), x(4, 12, 7, 9)),
    )


@family
def pooling(x):
    return (
        *differentiated(lambda a: functional.max_pool2d(a, 3, 2, 1), x(3, 5, 23, 21)),
        *differentiated(lambda a: functional.adaptive_avg_pool2d(a, 5), x(3, 5, 23, 21)),
        *differentiated(lambda a: functional.interpolate(a, scale_factor=1.7, mode="bilinear"), x(2, 3, 11, 13)),
    )


@family
def softmax_and_losses(x):
    labels = x.integers(301, 45)
    return (
        *differentiated(lambda a: a.softmax(1), x(45, 301)),
        *differentiated(lambda a: functional.cross_entropy(a, labels), x(45, 301)),
    )


@family
def attention(x):
    return (
        *differentiated(
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
            x(2, 3, 65, 64),
            x(2, 3, 65, 64),
            x(2, 3, 65, 64),
        ),
    )


@family
def indexing(x):
    a, rows = x(50, 70), x.integers(50, 333)
    return (
        a[rows],
        a.gather(1, x.integers(70, 50, 9)),
        torch.zeros_like(a).index_add(0, rows, x(333, 70)),
        a.nonzero(),
        a.masked_select(a > 0),
        functional.embedding(rows, a),
    )


@family
def optimizer(x):
    parameters = [x(n).requires_grad_() for n in (3, 1000, 70000)]
    for p in parameters:
        p.grad = p.detach() * 0.5 + 1
    step = torch.optim.AdamW(parameters, foreach=True)
    for _ in range(3):
        step.step()
    return [p.detach() for p in parameters]


@family
def recurrent(x):
    layer = torch.nn.LSTM(12, 20)
    with torch.no_grad():
        numbers = Numbers("cpu", 5)
        for p in layer.parameters():
            p.copy_(numbers(*p.shape))
    return (layer.to(x.device)(x(7, 3, 12))[0].detach(),)


@family
def linear_algebra(x):
    a, b = x(3, 37, 37), x(3, 37, 5)
    positive = a @ a.mT + 37 * torch.eye(37, device=x.device)
    return torch.linalg.cholesky(positive), torch.linalg.solve(positive, b), torch.linalg.eigvalsh(positive)


@family
def sparse_products(x):
    a = x(67, 131)
    return (a * (a > 0.8)).to_sparse() @ x(131, 33)


@family
def sampling_and_distances(x):
    a, b = x(33, 19), x(47, 19)
    return (
        functional.grid_sample(x(2, 3, 11, 13), x(2, 9, 7, 2), align_corners=False),
        torch.cdist(a, b),
        torch.histc(a, 20, -1, 1),
    )


@family
def random_numbers(x):
    """Moments of many, which agree though the numbers do not; 1 sets the scale."""
    torch.manual_seed(0)
    uniform, normal = torch.rand(1 << 21, device=x.device), torch.randn(1 << 21, device=x.device)
    kept = functional.dropout(torch.ones(1 << 21, device=x.device), 0.25) > 0
    one = torch.ones((), device=x.device)
    return torch.stack([one, uniform.mean(), uniform.var(), normal.mean() / 4, normal.var() / 4, kept.float().mean()])
