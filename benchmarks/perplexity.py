# SPDX-License-Identifier: MIT
"""What weights of 8 and 4 bits cost a small language model: its perplexity beside float32's.

    python benchmarks/perplexity.py --device ocl --steps 600

Trains a byte-level transformer on the text of Python's own documentation (pydoc_data.topics), holds a tenth of it back,
and measures the perplexity of that part with float32 weights and with those of every linear layer rounded to int8 (a
scale for each row, `torch._weight_int8pack_mm`) and int4 (a scale and zero point for each group, a product by
`torch._weight_int4pack_mm`)."""

import argparse
import importlib
import math
import time

import torch
from torch import nn

WIDTH, HEADS, LAYERS, LENGTH = 256, 8, 4, 128
functional = nn.functional


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, x):
        x = self.bytes(x) + self.places.weight[: x.shape[1]]
        return self.head(self.norm(self.blocks(x)))


class Int8Linear(nn.Module):
    """A linear layer with weights int8 [out, in] and a scale for each row."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scales = (weight.abs().amax(1) / 127).clamp_min(1e-8)
        self.weight = (weight / scales[:, None]).round().to(torch.int8)
        self.scales, self.bias = scales, linear.bias

    def forward(self, x):
        rows = torch._weight_int8pack_mm(x.flatten(0, -2).contiguous(), self.weight, self.scales.to(x.dtype))
        return rows.unflatten(0, x.shape[:-1]) + self.bias


class Int4Linear(nn.Module):
    """A linear layer with 4-bit weights, a scale and a zero point for each `group` along the inputs."""

    def __init__(self, linear, group):
        super().__init__()
        weight = linear.weight.detach().float()
        parts = weight.unflatten(1, (-1, group))
        low, high = parts.amin(2), parts.amax(2)
        scales = ((high - low) / 15).clamp_min(1e-6)
        numbers = ((parts - low[..., None]) / scales[..., None]).round().clamp(0, 15).to(torch.uint8).flatten(1)
        self.weight = torch._convert_weight_to_int4pack(numbers[:, ::2] << 4 | numbers[:, 1::2], 8)
        # A weight is (q - 8) * scale + zero.
        self.scales = torch.stack([scales, low + 8 * scales], 2).transpose(0, 1).contiguous().bfloat16()
        self.bias, self.group = linear.bias, group

    def forward(self, x):
        rows = x.flatten(0, -2).contiguous().bfloat16()
        rows = torch._weight_int4pack_mm(rows, self.weight, self.group, self.scales)
        return rows.to(x.dtype).unflatten(0, x.shape[:-1]) + self.bias


def replaced(model, make):
    """A copy of the model whose linear layers `make` has made anew."""
    copy = Model().to(model.head.weight.device)
    copy.load_state_dict(model.state_dict())
    for module in list(copy.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, make(child))
    return copy.eval()


def text():
    topics = importlib.import_module("pydoc_data.topics").topics
    return torch.frombuffer(bytearray("\n".join(topics[key] for key in sorted(topics)).encode()), dtype=torch.uint8)


def train(data, device, steps, batch):
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    start, total = time.monotonic(), torch.zeros((), device=device)
    for step in range(1, steps + 1):
        at = torch.randint(len(data) - LENGTH - 1, (batch, 1))
        rows = data[at + torch.arange(LENGTH + 1)].long().to(device)
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
        if step % max(1, steps // 20) == 0:
            done = total.item() / max(1, steps // 20)
            total.zero_()
            print(f"step {step:5} of {steps}  loss {done:.3f}  {time.monotonic() - start:6.0f} s", flush=True)
    return model.eval()


@torch.no_grad()
def perplexity(model, data, device, batch=64):
    rows = data[: (len(data) - 1) // LENGTH * LENGTH + 1]
    inputs, targets = rows[:-1].view(-1, LENGTH).long(), rows[1:].view(-1, LENGTH).long()
    total = 0.0
    for x, y in zip(inputs.split(batch), targets.split(batch), strict=True):
        scores = model(x.to(device)).float()
        total += functional.cross_entropy(scores.flatten(0, 1), y.to(device).flatten(), reduction="sum").item()
    return math.exp(total / targets.numel())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--group", type=int, default=32, help="weights that share a scale, in int4")
    options = parser.parse_args()
    torch.manual_seed(1)
    data = text()
    held = len(data) // 10
    model = train(data[:-held], options.device, options.steps, options.batch)
    forms = {
        "float32": model,
        "int8": replaced(model, Int8Linear),
        f"int4, groups of {options.group}": replaced(model, lambda linear: Int4Linear(linear, options.group)),
    }
    plain = None
    print(f"{'weights':>20} {'perplexity':>11} {'to float32':>11}")
    for name, form in forms.items():
        found = perplexity(form, data[-held:], options.device)
        plain = plain or found
        print(f"{name:>20} {found:11.4f} {found / plain - 1:+11.2%}")


if __name__ == "__main__":
    main()
