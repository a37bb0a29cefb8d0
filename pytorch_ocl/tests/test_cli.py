# SPDX-License-Identifier: MIT
"""python -m pytorch_ocl: info, validate, cache."""
import importlib.util

import pytest
import torch

from pytorch_ocl import __main__ as command_line
from pytorch_ocl import models
from pytorch_ocl.cli import validate

needs_torchvision = pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="no torchvision")


def test_info_lists_every_device(capsys):
    assert command_line.main(["info"]) == 0
    text = capsys.readouterr().out
    for index in range(torch.ocl.device_count()):
        assert f"ocl:{index}  {torch.ocl.get_device_name(index)}" in text
    assert torch.__version__ in text and "cache: " in text


@needs_torchvision
@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_0", "regnet_y_400mf"])
def test_validate_training(name, device, capsys):
    code = command_line.main(["validate", "--model", name, "--device", device, "--train", "--size", "64",
                              "--batch", "2"])
    assert code == 0, capsys.readouterr().out
    assert "PASS" in capsys.readouterr().out


def test_validate_training_with_functional_dropout(device):
    pytest.importorskip("timm")
    code = command_line.main(["validate", "--model", "ghostnet_050", "--device", device, "--train", "--size", "64"])
    assert code == 0


def test_validate_inference_of_timm(device, capsys):
    pytest.importorskip("timm")
    assert command_line.main(["validate", "--model", "convnext_atto", "--device", device, "--size", "64"]) == 0
    assert "gradients" not in capsys.readouterr().out


@needs_torchvision
def test_validate_finds_a_wrong_gradient(device, capsys, monkeypatch):
    """A device that returns a gradient 1 % too large fails, also where branches could be blamed."""
    step = validate.step

    def wrong_step(model, image, *rest):
        output, gradients = step(model, image, *rest)
        if image.device.type == "ocl":
            gradients["conv1.weight"] *= 1.01
        return output, gradients

    monkeypatch.setattr(validate, "step", wrong_step)
    arguments = ["validate", "--model", "resnet18", "--device", device, "--train", "--size", "64", "--batch", "2"]
    assert command_line.main(arguments) == 1
    captured = capsys.readouterr()
    assert "FAIL" in captured.out and "conv1.weight" in captured.err


def test_validate_reports_fallbacks(device, capsys, monkeypatch):
    class Fallback(torch.nn.Module):
        def forward(self, image):
            x = image.mean((2, 3))
            return x + torch.linalg.svdvals(x).sum()

    monkeypatch.setattr(models, "create", lambda name: Fallback())
    assert command_line.main(["validate", "--model", "any", "--device", device, "--size", "8"]) == 1
    assert "ran on the CPU: aten::linalg_svd" in capsys.readouterr().err.replace("_linalg_svd", "linalg_svd")


def test_validate_unknown_model(device):
    with pytest.raises(ValueError, match="no_such_network"):
        command_line.main(["validate", "--model", "no_such_network", "--device", device])


def test_tune(device, capsys, monkeypatch):
    monkeypatch.setenv("DLPRIM_GEMM", "tiled")  # on CPUs, too
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    monkeypatch.setattr("pytorch_ocl.models.create", lambda name: network)
    assert command_line.main(["tune", "--model", "any", "--device", device, "--size", "9", "--batch", "1"]) == 0
    assert "times as fast" in capsys.readouterr().out
    assert torch.backends.ocl.benchmark is False


def test_cache(capsys):
    assert command_line.main(["cache"]) == 0
    assert "programs" in capsys.readouterr().out
