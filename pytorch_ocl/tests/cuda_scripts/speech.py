# SPDX-License-Identifier: MIT
"""A speech recognizer: convolution, bidirectional GRU, CTC; float16 with GradScaler, a default device, a generator."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda.amp import GradScaler, autocast

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
use_cuda = not args.no_cuda and torch.cuda.is_available()
torch.manual_seed(7)
device = torch.device("cuda" if use_cuda else "cpu")
kwargs = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
torch.set_default_device(device)
generator = torch.Generator(device=device).manual_seed(3)


class SpeechModel(nn.Module):
    def __init__(self, n_feats=16, rnn_dim=16, n_class=6):
        super().__init__()
        self.cnn = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(n_feats // 2)
        self.fc = nn.Linear(4 * n_feats // 2, rnn_dim)
        self.rnn = nn.GRU(rnn_dim, rnn_dim, num_layers=1, batch_first=True, bidirectional=True)
        self.classifier = nn.Sequential(
            nn.Linear(2 * rnn_dim, rnn_dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(rnn_dim, n_class)
        )

    def forward(self, x):
        x = self.norm(F.gelu(self.cnn(x).transpose(2, 3)).contiguous())
        b, c, t, f = x.shape
        x = self.fc(x.permute(0, 2, 1, 3).reshape(b, t, c * f))
        self.rnn.flatten_parameters()
        return self.classifier(self.rnn(x)[0])


model = SpeechModel()
assert next(model.parameters()).is_cuda == use_cuda and torch.zeros(1).device.type == device.type
criterion = nn.CTCLoss(blank=5, zero_infinity=True).to(device)
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=12)
scaler = GradScaler(enabled=use_cuda)
spectrograms = torch.randn(4, 1, 16, 40, generator=generator, device=device)
labels = torch.randint(0, 5, (4, 6), generator=generator, device=device)
lengths, label_lengths = torch.full((4,), 20, device="cpu"), torch.full((4,), 6, device="cpu")
losses = []
for _ in range(12):
    optimizer.zero_grad()
    with autocast(enabled=use_cuda):
        output = F.log_softmax(model(spectrograms).float(), dim=2).transpose(0, 1)
        loss = criterion(output, labels, lengths, label_lengths)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    losses.append(loss.item())
state = torch.cuda.get_rng_state()
a = torch.rand(3, device=device)
torch.cuda.set_rng_state(state)
assert torch.equal(a, torch.rand(3).cuda())
print(f"Train loss {losses[0]:.4f} -> {losses[-1]:.4f}")
assert losses[-1] < losses[0]
