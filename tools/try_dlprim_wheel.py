#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tries an installed wheel of dlprim, with NumPy alone: a network that must learn, and its parameters in a file.

Exits with 1, and says why, when something is missing or wrong."""

import importlib.metadata
import pathlib
import sys
import tempfile

import numpy as np

import dlprim


def network():
    """Tells which of two numbers is the larger."""
    config = dlprim.NetConfig()
    config.add_input("data", [32, 2])
    config.add_input("label", [32], "int")
    config.add("InnerProduct", {"outputs": 16, "activation": "relu"}, inputs="data")
    scores = config.add("InnerProduct", {"outputs": 2})
    config.add("SoftmaxWithLoss", name="loss", inputs=[scores, "label"])
    config.set_outputs(["loss"])
    net = dlprim.Net(dlprim.Context("cpu"))
    net.mode = dlprim.CalculationsMode.TRAIN
    net.load_from_json(config.to_str())
    return net


def train(net, steps=60):
    """First and last loss."""
    random, losses = np.random.default_rng(0), []
    solver = dlprim.Adam(net, lr=2e-2)
    for _ in range(steps):
        data = random.standard_normal((32, 2), np.float32)
        net.set_input("data", data)
        net.set_input("label", (data[:, 0] > data[:, 1]).astype(np.int32))
        solver.zero_grad()
        net.forward()
        net.backward()
        solver.step()
        losses.append(float(net.output("loss").numpy().sum()))
    return losses[0], losses[-1]


def main():
    if not dlprim.devices():
        sys.exit("no device")
    net = network()
    first, last = train(net)
    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder) / "net.safetensors")
        net.save_parameters(file)
        kept = dlprim.read_parameters(file)
    print(f"dlprim {importlib.metadata.version('dlprim')} on {dlprim.devices()[0]}: loss {first:.3f} to {last:.3f}")
    if not last < first / 2 or any(not np.array_equal(kept[name], x) for name, x in net.parameters().items()):
        sys.exit("wrong results")


if __name__ == "__main__":
    main()
