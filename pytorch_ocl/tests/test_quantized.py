# SPDX-License-Identifier: MIT
"""Products with weights of 8 and 4 bits, against the weights as numbers."""

import subprocess
import sys

import pytest
import torch

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
OPS = torch.ops.aten


def relative(actual, expected):
    return ((actual.cpu().double() - expected).abs().max() / expected.abs().max()).item()


def limit(dtype):
    return 1e-5 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps


def random_int4(n, k):
    return torch.randint(0, 16, (n, k), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
@pytest.mark.parametrize("m", [1, 4, 20])
def test_int8(dtype, m):
    for n, k in ((64, 128), (33, 50)):
        x, scales = torch.randn(m, k, dtype=dtype), torch.rand(n).to(dtype)
        w = torch.randint(-128, 128, (n, k), dtype=torch.int8)
        result = OPS._weight_int8pack_mm(x.to("ocl"), w.to("ocl"), scales.to("ocl"))
        assert result.dtype == dtype and result.shape == (m, n)
        expected = x.double() @ (w.double() * scales.double()[:, None]).T
        assert relative(result, expected) < limit(torch.float32 if dtype == torch.float64 else dtype)


def test_int8_errors():
    x, w, s = (
        torch.ones(2, 16, device="ocl"),
        torch.ones(4, 16, dtype=torch.int8, device="ocl"),
        torch.ones(4).to("ocl"),
    )
    with pytest.raises(RuntimeError, match=r"K dimension mismatch: x.size\(1\) != w.size\(1\)"):
        OPS._weight_int8pack_mm(x[:, :8], w, s)
    with pytest.raises(RuntimeError, match=r"Output dim mismatch: w.size\(0\) != scale.size\(0\)"):
        OPS._weight_int8pack_mm(x, w, s[:3])
    with pytest.raises(RuntimeError, match="expected w of dtype Char"):
        OPS._weight_int8pack_mm(x, w.float(), s)
    assert OPS._weight_int8pack_mm(x[:0], w, s).shape == (0, 4)
    assert OPS._weight_int8pack_mm(x[:, :0], w[:, :0], s).abs().max() == 0


@pytest.mark.parametrize("tiles", [2, 4, 8])
def test_int4_layout(tiles):
    """Word j of lane l in a tile: row l / 4, eight columns from 32 j + 2 (l % 4) on, in the order of the fragments of
    CUDA's m16n8k16 products."""
    q = random_int4(20, 256)
    packed = OPS._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to("ocl"), tiles).cpu()
    assert packed.shape == (3, 256 // (16 * tiles), 32, tiles // 2) and packed.dtype == torch.int32
    for row_tile, outer, lane, j in ((0, 0, 0, 0), (1, 1, 13, 0), (2, 0, 31, tiles // 2 - 1), (2, 1, 15, 0)):
        row, k = row_tile * 8 + lane // 4, outer * 16 * tiles + 32 * j + 2 * (lane % 4)
        word = 0
        for i, step in enumerate((0, 8, 16, 24, 1, 9, 17, 25)):
            word |= (int(q[row, k + step]) if row < 20 else 0) << 4 * i
        assert int(packed[row_tile, outer, lane, j]) & 0xFFFFFFFF == word


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m", [1, 3, 20])
def test_int4_tiles(dtype, m):
    for n, k, group, tiles in ((64, 256, 32, 8), (16, 128, 64, 2), (8, 1024, 256, 4)):
        q = random_int4(n, k)
        packed = OPS._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to("ocl"), tiles)
        scales_and_zeros = torch.rand(k // group, n, 2).to(dtype)
        x = torch.randn(m, k, dtype=dtype)
        result = OPS._weight_int4pack_mm(x.to("ocl"), packed, group, scales_and_zeros.to("ocl"))
        each = scales_and_zeros.double().repeat_interleave(group, 0).permute(1, 0, 2)
        expected = x.double() @ ((q.double() - 8) * each[..., 0] + each[..., 1]).T
        assert result.dtype == dtype and relative(result, expected) < limit(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m", [1, 20])
def test_int4_with_scales_and_zeros(dtype, m):
    n, k, group = 40, 256, 64
    q = random_int4(n, k)
    words = sum(q[:, i::8].long() << 4 * i for i in range(8))
    packed = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    scales, zeros = torch.rand(k // group, n).to(dtype), torch.randint(0, 16, (k // group, n), dtype=torch.int8)
    x = torch.randn(m, k, dtype=dtype)
    result = OPS._weight_int4pack_mm_with_scales_and_zeros(
        *(t.to("ocl") for t in (x, packed)), group, scales.to("ocl"), zeros.to("ocl")
    )
    scale, zero = (t.double().repeat_interleave(group, 0).T for t in (scales, zeros))
    assert relative(result, x.double() @ ((q.double() - zero) * scale).T) < limit(dtype)


def test_int4_errors():
    packed = OPS._convert_weight_to_int4pack(torch.zeros(8, 64, dtype=torch.uint8, device="ocl"), 8)
    x, scales = torch.ones(1, 128, device="ocl"), torch.ones(4, 8, 2, device="ocl")
    for arguments in (
        (x, packed, 48, scales),
        (x, packed, 32, scales[:3]),
        (x[:, :64], packed, 32, scales[:2]),
        (x.int(), packed, 32, scales),
        (x, packed.float(), 32, scales),
        (x, packed[0], 32, scales),
    ):
        with pytest.raises(RuntimeError, match="_weight_int4pack_mm: expected"):
            OPS._weight_int4pack_mm(*arguments)
    with pytest.raises(RuntimeError, match="innerKTiles 2, 4 or 8, got 3"):
        OPS._convert_weight_to_int4pack(torch.zeros(8, 64, dtype=torch.uint8, device="ocl"), 3)
    with pytest.raises(RuntimeError, match="multiple of 128, got 64"):
        OPS._convert_weight_to_int4pack(torch.zeros(8, 32, dtype=torch.uint8, device="ocl"), 8)


def run(program, needs):
    pytest.importorskip(needs)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def test_bitsandbytes_operators():
    run(
        """
import torch, bitsandbytes as bnb, bitsandbytes.functional as F
torch.manual_seed(0)
for kind in ("nf4", "fp4"):
    for dtype, error in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
        for shape in ((96, 128), (7, 45)):
            w = torch.randn(shape, dtype=dtype)
            packed, state = F.quantize_4bit(w.to("ocl"), quant_type=kind)
            wanted, wanted_state = F.quantize_4bit(w, quant_type=kind)
            assert packed.device.type == "ocl" and packed.shape == wanted.shape
            assert torch.equal(state.absmax.cpu(), wanted_state.absmax)
            back, reference = F.dequantize_4bit(packed, state).cpu(), F.dequantize_4bit(wanted, wanted_state)
            assert back.dtype == dtype and ((back - reference).abs() > 1e-2).float().mean() < 1e-3
            for rows in (1, 5, 12):
                x = torch.randn(rows, shape[1], dtype=dtype)
                y = bnb.matmul_4bit(x.to("ocl"), packed.t(), quant_state=state).cpu().double()
                exact = x.double() @ back.double().T
                assert (y - exact).abs().max() <= error * exact.abs().max(), (kind, dtype, shape, rows)
x = torch.randn(1, 4, 300)
packed, state = F.quantize_blockwise(x.to("ocl"))
wanted, wanted_state = F.quantize_blockwise(x)
assert (packed.cpu() != wanted).float().mean() < 1e-2 and torch.equal(state.absmax.cpu(), wanted_state.absmax)
assert (F.dequantize_blockwise(packed, state).cpu() - F.dequantize_blockwise(wanted, wanted_state)).abs().max() < 0.05
a, b = (torch.randint(-128, 128, (n, 32), dtype=torch.int8) for n in (6, 10))
product = torch.ops.bitsandbytes.int8_linear_matmul(a.to("ocl"), b.to("ocl"))
assert torch.equal(product.cpu(), (a.long() @ b.long().T).int())
layer = bnb.nn.Linear4bit(64, 32, compute_dtype=torch.float32, quant_type="nf4", compress_statistics=True).to("ocl")
x = torch.randn(3, 64, device="ocl", requires_grad=True)
layer(x).sum().backward()
exact = F.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
assert (x.grad - exact.sum(0)).abs().max() < 1e-4
assert not torch.ocl.fallbacks(), torch.ocl.fallbacks()
""",
        "bitsandbytes",
    )


def step_by_definition(kind, w, g, s, step, lr, b1, b2, b3, alpha, eps, decay):
    """The new parameter and states, in float64 (the papers of each optimizer)."""
    if kind in ("momentum", "rmsprop", "adagrad"):
        g = g + decay * w
    else:
        w = w * (1 - lr * decay)
    c1, c2 = 1 - b1**step, (1 - b2**step) ** 0.5
    if kind == "adam":
        s = [b1 * s[0] + (1 - b1) * g, b2 * s[1] + (1 - b2) * g * g]
        return w - lr / c1 * s[0] / (s[1].sqrt() / c2 + eps), s
    if kind == "ademamix":
        s = [b1 * s[0] + (1 - b1) * g, b3 * s[1] + (1 - b3) * g, b2 * s[2] + (1 - b2) * g * g]
        return w - lr * (s[0] / c1 + alpha * s[1]) / (s[2].sqrt() / c2 + eps), s
    if kind == "momentum":
        s = [g if step == 1 else b1 * s[0] + g]
        return w - lr * s[0], s
    if kind == "lion":
        return w - lr * (b1 * s[0] + (1 - b1) * g).sign(), [b2 * s[0] + (1 - b2) * g]
    s = [b1 * s[0] + (1 - b1) * g * g if kind == "rmsprop" else s[0] + g * g]
    return w - lr * g / (s[0].sqrt() + eps), s


@pytest.mark.parametrize("kind", ["adam", "ademamix", "momentum", "rmsprop", "lion", "adagrad"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_optimizers_of_bytes(kind, dtype):
    torch.manual_seed(3)
    count, block = 1000, 256
    signed = torch.linspace(-1, 1, 256) ** 3
    unsigned = torch.linspace(0, 1, 256) ** 2
    tables = {"adam": [signed, unsigned], "ademamix": [signed, signed, unsigned]}.get(
        kind, [unsigned if kind in ("rmsprop", "adagrad") else signed]
    )
    w, own = torch.randn(count).to(dtype), [torch.zeros(count, dtype=torch.uint8) for _ in tables]
    for state, table in zip(own, tables, strict=True):
        state.fill_((table.abs()).argmin().item())
    scales = [torch.zeros(4) for _ in tables]
    parameter = w.to("ocl").view(20, 50).t()  # not contiguous
    states, factors, on = ([t.to("ocl") for t in group] for group in (own, scales, tables))
    for step in (1, 2, 3):
        g = torch.randn(count).to(dtype)
        old = [t.cpu()[b.cpu().long()] * f.cpu().repeat_interleave(block)[:count]
               for b, f, t in zip(states, factors, on, strict=True)]  # fmt: skip
        before = parameter.cpu().contiguous().view(-1).double()
        args = (step, 0.01, 0.9, 0.99, 0.999, 2.0, 1e-6, 0.1)
        torch.ops.pytorch_ocl.step_of_bytes(
            kind, parameter, g.to("ocl").view(50, 20), states, factors, on, block, *args, 0.5
        )
        wanted, kept = step_by_definition(kind, before, g.double() / 2, [t.double() for t in old], *args)
        found = parameter.cpu().contiguous().view(-1).double()
        assert (found - wanted).abs().max() < (1e-5 if dtype == torch.float32 else 0.02)
        for b, f, t, exact in zip(states, factors, tables, kept, strict=True):
            most = torch.stack([part.abs().max() for part in exact.split(block)])
            torch.testing.assert_close(f.cpu().double(), most, rtol=1e-5, atol=1e-9)
            quotients = exact / most.repeat_interleave(block)[:count]
            nearest = (t.double()[None] - quotients[:, None]).abs().amin(1)
            assert ((t.double()[b.cpu().long()] - quotients).abs() - nearest).max() < 1e-6


def test_optimizers_of_bytes_refuse_what_does_not_fit():
    w, state = torch.zeros(300, device="ocl"), torch.zeros(300, dtype=torch.uint8, device="ocl")
    scales, table = torch.zeros(2, device="ocl"), torch.linspace(-1, 1, 256, device="ocl")
    step = torch.ops.pytorch_ocl.step_of_bytes
    rest = (256, 1, *[0.1] * 8)
    with pytest.raises(ValueError, match="adam, ademamix"):
        step("sgd", w, w, [state], [scales], [table], *rest)
    with pytest.raises(RuntimeError, match="2 states, got 1"):
        step("adam", w, w, [state], [scales], [table], *rest)
    with pytest.raises(RuntimeError, match="scales for 2 blocks"):
        step("lion", w, w, [state], [scales[:1]], [table], *rest)
    with pytest.raises(RuntimeError, match="a byte for each element"):
        step("lion", w, w, [state[:1]], [scales], [table], *rest)
    with pytest.raises(RuntimeError, match="256 float32"):
        step("lion", w, w, [state], [scales], [table[:255]], *rest)
    with pytest.raises(RuntimeError, match="gradient of the parameter's size"):
        step("lion", w, w[:3], [state], [scales], [table], *rest)


def test_bitsandbytes_optimizers():
    run(
        """
import torch, bitsandbytes as bnb
for name in ("Adam8bit", "AdamW8bit", "Lion8bit", "RMSprop8bit", "AdEMAMix8bit"):
    make = getattr(bnb.optim, name)
    weights = {}
    for device in ("cpu", "ocl"):
        torch.manual_seed(0)
        layer = torch.nn.Linear(96, 80).to(device)
        optimizer = make(layer.parameters(), lr=1e-3, min_8bit_size=64)
        for _ in range(5):
            loss = layer(torch.randn(16, 96).to(device)).square().mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        weights[device] = layer.weight.detach().cpu()
    close = (weights["cpu"] - weights["ocl"]).abs() < 1e-4  # a nearest entry may differ by rounding
    assert close.float().mean() > 0.98, (make, close.float().mean())
assert not torch.ocl.fallbacks(), torch.ocl.fallbacks()
""",
        "bitsandbytes",
    )


def test_transformers_load_in_4bit():
    pytest.importorskip("accelerate")
    pytest.importorskip("bitsandbytes")
    run(
        """
import tempfile, torch, transformers
config = transformers.LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
torch.manual_seed(0)
model = transformers.LlamaForCausalLM(config)
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    for nested in (False, True):
        settings = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32,
            bnb_4bit_use_double_quant=nested)
        load = transformers.AutoModelForCausalLM.from_pretrained
        small = load(folder, quantization_config=settings, device_map="ocl:0")
        layer = small.model.layers[0].self_attn.q_proj
        assert type(layer).__name__ == "Linear4bit"
        assert layer.weight.dtype == torch.uint8 and layer.weight.device.type == "ocl"
        ids = torch.arange(12)[None]
        logits, exact = small(ids.to("ocl")).logits.float().cpu(), model(ids).logits
        assert torch.nn.functional.cosine_similarity(logits.flatten(), exact.flatten(), 0) > 0.95
        out = small.generate(ids.to("ocl"), max_new_tokens=4, do_sample=False)
        assert out.shape == (1, 16)
""",
        "transformers",
    )


def test_torchao():
    run(
        """
import copy, torch
from torchao.quantization import quantize_, Int4WeightOnlyConfig, Int8WeightOnlyConfig
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).to(torch.bfloat16)
x = torch.randn(3, 256, dtype=torch.bfloat16)
for config, least in ((Int8WeightOnlyConfig(version=2), 0.999),
                      (Int4WeightOnlyConfig(group_size=64, int4_packing_format="tile_packed_to_4d"), 0.98)):
    small = copy.deepcopy(model).to("ocl")
    quantize_(small, config)
    y = small(x.to("ocl"))
    exact = model(x).float().flatten()
    assert torch.nn.functional.cosine_similarity(y.float().cpu().flatten(), exact, 0) > least, config
assert not torch.ocl.fallbacks(), torch.ocl.fallbacks()
""",
        "torchao",
    )
