# SPDX-License-Identifier: MIT
"""DCGAN the way the tutorials do it: ngpu, weights_init, CUDA tensor types, events for timing, streams."""

import torch
import torch.nn as nn
import torch.nn.parallel
import torch.optim as optim

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
ngpu, nz, nf, batch = 1, 8, 8, 8
device = torch.device("cuda:0" if (torch.cuda.is_available() and ngpu > 0) else "cpu")
torch.manual_seed(999)


def weights_init(m):
    if m.__class__.__name__.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif m.__class__.__name__.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, nf * 2, 4, 1, 0, bias=False),
    nn.BatchNorm2d(nf * 2),
    nn.ReLU(True),
    nn.ConvTranspose2d(nf * 2, nf, 4, 2, 1, bias=False),
    nn.BatchNorm2d(nf),
    nn.ReLU(True),
    nn.ConvTranspose2d(nf, 1, 4, 2, 1, bias=False),
    nn.Tanh(),
).to(device)
netD = nn.Sequential(
    nn.Conv2d(1, nf, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(nf, nf * 2, 4, 2, 1, bias=False),
    nn.BatchNorm2d(nf * 2),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(nf * 2, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
)
if cuda:
    netD.cuda()
if (device.type == "cuda") and (ngpu > 1):
    netD = nn.DataParallel(netD, list(range(ngpu)))
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
fixed_noise = torch.randn(4, nz, 1, 1, device=device)
optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
side = torch.cuda.Stream()
start.record()
losses = []
for i in range(6):
    netD.zero_grad()
    with torch.cuda.stream(side):
        real = torch.rand(batch, 1, 16, 16).type(Tensor) * 2 - 1
    torch.cuda.current_stream().wait_stream(side)
    real.record_stream(torch.cuda.current_stream())
    label = torch.full((batch,), 1.0, dtype=torch.float, device=device)
    errD_real = criterion(netD(real).view(-1), label)
    errD_real.backward()
    noise = Tensor(batch, nz, 1, 1).normal_(0, 1)
    fake = netG(noise)
    errD_fake = criterion(netD(fake.detach()).view(-1), label.fill_(0.0))
    errD_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    errG = criterion(netD(fake).view(-1), label.fill_(1.0))
    errG.backward()
    optimizerG.step()
    losses.append((errD_real + errD_fake).item())
end.record()
torch.cuda.synchronize()
with torch.no_grad():
    images = netG(fixed_noise).detach().cpu()
assert images.shape == (4, 1, 16, 16) and isinstance(real, Tensor) and real.type() == "torch.cuda.FloatTensor"
assert start.elapsed_time(end) > 0 and torch.cuda.memory_reserved(0) >= torch.cuda.memory_allocated(0) > 0
torch.cuda.empty_cache()
print(f"Loss_D {losses[0]:.4f} -> {losses[-1]:.4f} Loss_G {errG.item():.4f}")
