#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a network on handwritten digits with Lightning:

    python examples/lightning_digits.py
    python examples/lightning_digits.py --devices 2 --precision bf16-mixed

Lightning has a process for each device then, with torch.distributed between them. Prints the test accuracy, saves a
checkpoint, and loads it back.
"""

import argparse

import lightning
import torch
import torch.nn.functional as F
from mnist import ConvNet, load_digits
from torch.utils.data import DataLoader, TensorDataset


class Digits(lightning.LightningModule):
    def __init__(self, size=8, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.model = ConvNet(size)

    def training_step(self, batch, _):
        images, labels = batch
        loss = F.nll_loss(self.model(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("accuracy", (self.model(images).argmax(1) == labels).float().mean(), prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.hparams.lr)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accelerator", default="ocl", help="ocl, cpu, gpu, auto (default: ocl)")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="devices to train on (default: 1)")
    parser.add_argument("--precision", default="32-true", help="as Lightning names it, bf16-mixed for one")
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="epochs (default: 5)")
    parser.add_argument("--checkpoint", default="digits.ckpt", metavar="FILE", help="(default: digits.ckpt)")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if options.accelerator == "ocl":
        import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only

    lightning.seed_everything(1)
    images, labels, test, test_labels = load_digits(None)
    train = DataLoader(TensorDataset(images, labels), 64, shuffle=True, drop_last=True)
    check = DataLoader(TensorDataset(test, test_labels), 120)
    trainer = lightning.Trainer(
        accelerator=options.accelerator,
        devices=options.devices,
        precision=options.precision,
        max_epochs=options.epochs,
        enable_checkpointing=False,
        logger=False,
        log_every_n_steps=10,
    )
    trainer.fit(Digits(), train, check)
    accuracy = trainer.callback_metrics["accuracy"].item()
    trainer.save_checkpoint(options.checkpoint)
    if trainer.is_global_zero:
        network = Digits.load_from_checkpoint(options.checkpoint, map_location="cpu").eval()
        with torch.no_grad():
            again = (network.model(test).argmax(1) == test_labels).float().mean().item()
        print(f"accuracy {accuracy:.2%} on {trainer.strategy.root_device}; of the checkpoint on the CPU {again:.2%}")


if __name__ == "__main__":
    main()
