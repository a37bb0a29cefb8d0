# SPDX-License-Identifier: MIT
"""Fine-tuning a latent diffusion model: frozen encoders in half precision, a UNet with cross-attention, checkpointed
activations, EMA, xFormers-like switches, memory statistics, sampling."""

import copy
import gc
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "0")
weight_dtype = torch.float16
torch.cuda.manual_seed(0)
torch.manual_seed(0)
if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8:
    weight_dtype = torch.bfloat16
torch.backends.cuda.enable_flash_sdp(True)


class CrossBlock(nn.Module):
    def __init__(self, dim, context):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, dim), nn.Conv2d(dim, dim, 3, padding=1)
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(context, 2 * dim), nn.Linear(dim, dim)
        self.time = nn.Linear(16, dim)

    def forward(self, x, temb, context):
        x = x + self.conv(F.silu(self.norm(x))) + self.time(temb)[:, :, None, None]
        b, c, h, w = x.shape
        k, v = self.kv(context).chunk(2, -1)
        q = self.q(x.flatten(2).transpose(1, 2))
        y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, dim=16, context=12):
        super().__init__()
        self.inner, self.final = nn.Conv2d(4, dim, 3, padding=1), nn.Conv2d(dim, 4, 3, padding=1)
        self.blocks = nn.ModuleList([CrossBlock(dim, context) for _ in range(2)])

    def forward(self, x, t, context):
        freqs = torch.exp(-torch.arange(8, device=x.device) / 2.0)
        temb = torch.cat([(t[:, None] * freqs).sin(), (t[:, None] * freqs).cos()], 1)
        x = self.inner(x)
        for block in self.blocks:
            x = checkpoint(block, x, temb, context, use_reentrant=False)
        return self.final(x)


vae = nn.Conv2d(3, 4, 4, stride=4).requires_grad_(False).to("cuda", dtype=weight_dtype)
text_encoder = nn.Embedding(50, 12).requires_grad_(False).to(torch.device("cuda", 0), dtype=weight_dtype)
unet = UNet().to(device="cuda")
ema = copy.deepcopy(unet).eval()
optimizer = torch.optim.AdamW(unet.parameters(), lr=5e-3, weight_decay=1e-2)
scaler = torch.amp.GradScaler("cuda", enabled=weight_dtype == torch.float16)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100, device="cuda"), 0)
pixel_values = torch.rand(4, 3, 32, 32).to("cuda", weight_dtype, non_blocking=True)
input_ids = torch.randint(0, 50, (4, 7)).cuda()
torch.cuda.reset_peak_memory_stats()
losses = []
for step in range(10):
    latents = vae(pixel_values).float() * 0.18215
    noise = torch.randn_like(latents, device="cuda")
    timesteps = torch.randint(0, 100, (latents.shape[0],), device=latents.device).long()
    a = alphas[timesteps].view(-1, 1, 1, 1)
    noisy = a.sqrt() * latents + (1 - a).sqrt() * noise
    with torch.autocast("cuda", dtype=weight_dtype):
        pred = unet(noisy, timesteps.float(), text_encoder(input_ids))
    loss = F.mse_loss(pred.float(), noise.float(), reduction="mean")
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for e, p in zip(ema.parameters(), unet.parameters()):
            e.lerp_(p, 0.1)
    losses.append(loss.detach().item())
assert torch.cuda.max_memory_allocated("cuda") >= torch.cuda.memory_allocated(torch.device("cuda:0")) > 0
generator = torch.Generator("cuda").manual_seed(1)
sample = torch.randn((1, 4, 8, 8), generator=generator, device="cuda", dtype=torch.float32)
with torch.inference_mode(), torch.autocast("cuda", dtype=weight_dtype):
    for t in reversed(range(0, 100, 25)):
        sample = (
            sample - 0.1 * ema(sample, torch.full((1,), float(t), device="cuda"), text_encoder(input_ids[:1])).float()
        )
assert sample.isfinite().all().item() and sample.is_cuda
del unet
gc.collect()
torch.cuda.empty_cache()
torch.cuda.ipc_collect()
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; free, total: {torch.cuda.mem_get_info()}")
assert losses[-1] < losses[0]
