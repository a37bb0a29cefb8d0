# SPDX-License-Identifier: MIT
"""Translation with a Transformer as older code writes it: Variable, tensor types, a prefetcher on a stream of its own,
half-precision weights with float32 masters, label smoothing by scatter_, beam search, DataParallel."""

import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable

use_cuda = torch.cuda.is_available()
LongTensor = torch.cuda.LongTensor if use_cuda else torch.LongTensor
PAD, BOS, EOS, WORDS, LENGTH = 0, 1, 2, 16, 6
torch.cuda.manual_seed_all(3)
torch.manual_seed(3)
if use_cuda:
    print("gpu:", torch.cuda.get_device_name(0), "x", torch.cuda.device_count(), file=sys.stderr)


class DataPrefetcher:
    """Copies the next batch while the last one is computed with."""

    def __init__(self, loader):
        self.loader, self.stream = iter(loader), torch.cuda.Stream()
        self.preload()

    def preload(self):
        try:
            self.next_source, self.next_target = next(self.loader)
        except StopIteration:
            self.next_source = self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_source = self.next_source.cuda(non_blocking=True)
            self.next_target = self.next_target.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        source, target = self.next_source, self.next_target
        if source is not None:
            source.record_stream(torch.cuda.current_stream())
            target.record_stream(torch.cuda.current_stream())
            self.preload()
        return source, target


class LabelSmoothing(nn.Module):
    def __init__(self, size, smoothing=0.1):
        super().__init__()
        self.size, self.smoothing = size, smoothing

    def forward(self, x, target):
        true_dist = x.data.clone().fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), 1.0 - self.smoothing)
        true_dist[:, PAD] = 0
        true_dist.index_fill_(0, torch.nonzero(target.data == PAD).view(-1), 0.0)
        return F.kl_div(x, Variable(true_dist, requires_grad=False), reduction="sum")


class Translator(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed, self.d = nn.Embedding(WORDS, d, padding_idx=PAD), d
        self.core = nn.Transformer(d, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, WORDS)
        position = torch.arange(0, 16).unsqueeze(1).float()
        div = torch.exp(torch.arange(0, d, 2).float() * -(math.log(10000.0) / d))
        pe = torch.zeros(16, d)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, source, target):
        size = target.size(1)
        ahead = torch.triu(torch.ones(size, size, device=target.device), diagonal=1).bool()
        a, b = (self.embed(x) * math.sqrt(self.d) + self.pe[: x.size(1)] for x in (source, target))
        return F.log_softmax(self.out(self.core(a, b, tgt_mask=ahead)).float(), dim=-1)


def batches(count):
    """Sentences that are to be said backwards."""
    for _ in range(count):
        words = torch.randint(3, WORDS, (16, LENGTH))
        ends = torch.full((16, 1), BOS), torch.full((16, 1), EOS)
        yield words.pin_memory(), torch.cat([ends[0], words.flip(1), ends[1]], 1).pin_memory()


def beam_search(model, source, beams=3):
    sequences, scores = LongTensor([[BOS]]), torch.cuda.FloatTensor([0.0])
    for _ in range(LENGTH):
        logs = model(source.expand(sequences.size(0), -1), sequences)[:, -1] + scores.unsqueeze(1)
        scores, which = logs.view(-1).topk(beams)
        sequences = torch.cat([sequences[which // WORDS], (which % WORDS).unsqueeze(1)], 1)
    return sequences[0, 1:]


model = Translator().cuda().half()
masters = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.Adam(masters, lr=3e-3, betas=(0.9, 0.98), eps=1e-6)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 10, 1.0))
parallel = nn.DataParallel(model, device_ids=[0])
criterion, scale = LabelSmoothing(WORDS).cuda(), 64.0
prefetcher, losses = DataPrefetcher(batches(60)), []
source, target = prefetcher.next()
while source is not None:
    output = parallel(Variable(source), Variable(target[:, :-1]))
    loss = criterion(output.contiguous().view(-1, WORDS), target[:, 1:].contiguous().view(-1)) / target[:, 1:].numel()
    model.zero_grad()
    (loss * scale).backward()
    for master, p in zip(masters, model.parameters()):
        master.grad = p.grad.data.float().div_(scale)
    torch.nn.utils.clip_grad_norm_(masters, 1.0)
    optimizer.step()
    scheduler.step()
    for master, p in zip(masters, model.parameters()):
        p.data.copy_(master.data)
    losses.append(loss.data.item())
    source, target = prefetcher.next()
torch.cuda.synchronize()
assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() > 0 and model.embed.weight.is_cuda
copied = copy.deepcopy(model).float().eval()
with torch.no_grad():
    source, target = next(batches(1))
    said = beam_search(copied, source[:1].cuda())
assert said.type() == "torch.cuda.LongTensor" and said.size(0) == LENGTH
assert losses[-1] < losses[0]
right = (said.cpu() == target[0, 1:-1]).sum().item()
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {right} of {LENGTH} words right")
