# SPDX-License-Identifier: MIT
"""python -m pytorch_ocl: info, check, validate, tune, cache."""

import importlib.util
import json
import re
import time

import pytest
import torch
from processes import run_python
from pytorch_ocl.cli import check, check_families, validate
from pytorch_ocl.cli.progress import Progress

from pytorch_ocl import __main__ as command_line
from pytorch_ocl import models

needs_torchvision = pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="no torchvision")


def test_info_lists_every_device(capsys):
    assert command_line.main(["info"]) == 0
    text = capsys.readouterr().out
    for index in range(torch.ocl.device_count()):
        assert f"ocl:{index}  {torch.ocl.get_device_name(index)}" in text
    assert torch.__version__ in text and "cache: " in text


def test_info_as_json_describes_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("DLPRIM_CONV", "gemm")
    assert command_line.main(["info", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["versions"]["torch"] == torch.__version__ and report["available"]
    assert ".".join(torch.__version__.split(".")[:2]) in report["libraries_for_torch"]
    assert [d["name"] for d in report["devices"]] == list(map(torch.ocl.get_device_name, range(len(report["devices"]))))
    assert len(report["devices"]) == torch.ocl.device_count() and report["devices"][0]["driver_version"]
    assert report["settings"]["environment"]["DLPRIM_CONV"] == "gemm" and report["cache"]["file"]


def test_info_as_json_says_why_there_is_no_device():
    code = "from pytorch_ocl.__main__ import main; assert main(['info', '--json']) == 1"
    report = json.loads(run_python(code, OCL_VISIBLE_DEVICES="no such device"))
    assert not report["available"] and report["devices"] == []
    assert "OCL_VISIBLE_DEVICES" in report["unavailable_reason"]


def test_check_writes_a_report(device, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "seconds", lambda step, device: (step(), 1.0)[1])
    assert command_line.main(["check", "--device", device, "--output", str(tmp_path)]) == 0, capsys.readouterr().out
    report = json.loads((tmp_path / "check.json").read_text())
    assert report["device"]["name"] == torch.ocl.get_device_name(device)
    assert set(report["families"]) == set(check_families.FAMILIES) and len(report["speed"]) == 3
    assert not any(result["on_cpu"] for result in report["families"].values())
    assert (tmp_path / "check.png").stat().st_size > 10000 and "PASS" in capsys.readouterr().out


def test_check_fails_for_a_wrong_or_failing_family(device, capsys, monkeypatch):
    def wrong(x):
        return x(100) * (1.01 if torch.device(x.device).type == "ocl" else 1)

    def failing(x):
        if torch.device(x.device).type == "ocl":
            raise RuntimeError("as a driver would")
        return x(1)

    monkeypatch.setattr(check_families, "FAMILIES", {"wrong": wrong, "failing": failing})
    monkeypatch.setattr(check, "speed", lambda device: [])
    assert command_line.main(["check", "--device", device]) == 1
    assert "FAIL: wrong, failing" in capsys.readouterr().out


@needs_torchvision
@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_0", "regnet_y_400mf"])
def test_validate_training(name, device, capsys):
    code = command_line.main(
        ["validate", "--model", name, "--device", device, "--train", "--size", "64", "--batch", "2"]
    )
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
            return x + torch.linalg.eigvals(x.T @ x).real.sum()

    monkeypatch.setattr(models, "create", lambda name: Fallback())
    assert command_line.main(["validate", "--model", "any", "--device", device, "--size", "8"]) == 1
    assert "ran on the CPU: aten::_linalg_eigvals" in capsys.readouterr().err


def test_validate_unknown_model(device):
    with pytest.raises(ValueError, match="no_such_network"):
        command_line.main(["validate", "--model", "no_such_network", "--device", device])


NETWORK = """
import torch
def make():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                               torch.nn.Flatten(), torch.nn.Linear(5, 40))
"""


@pytest.mark.whole
def test_tune(device, tmp_path):
    """Measures once; later processes use the results, and only what is new is measured again."""
    (tmp_path / "small_network.py").write_text(NETWORK)
    environment = {"DLPRIM_CACHE_DIR": str(tmp_path / "cache"), "DLPRIM_GEMM": "tiled"}  # many ways on CPUs, too
    file = tmp_path / "choices.tsv"

    def tune(*arguments):
        command = [
            "tune",
            "--model",
            "small_network:make",
            "--device",
            device,
            "--size",
            "9",
            "--batch",
            "2",
            *arguments,
        ]
        out = run_python(
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            f"from pytorch_ocl import __main__ as cli; assert cli.main({command}) == 0",
            **environment,
        )
        assert "times as fast" in out
        return [int(word) for word in re.search("([0-9]+) choices, ([0-9]+) of them measured", out).groups()]

    choices, measured = tune("--export", str(file))
    assert choices == measured > 0
    lines = [line.split("\t") for line in file.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == choices
    assert all(scope.endswith("/" + torch.ocl.get_device_name(device)) for scope, problem, choice in lines)
    assert tune() == [choices, 0]
    assert tune("--train")[1] > 0
    used = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import small_network\n"
        f"small_network.make().eval().to({device!r})(torch.zeros(2, 3, 9, 9, device={device!r}))\n"
        "print(torch.ops.pytorch_ocl.tuned_choices())",
        **environment,
    )
    assert used.splitlines() == ["\t".join(line) for line in lines]


def test_progress(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(Progress, "INTERVAL", 0.01)
    with Progress("measuring", lambda: (3, 4)) as progress:
        assert progress.line().startswith("measuring [###") and progress.line().endswith("] 3 of 4")
        time.sleep(0.1)
    assert "3 of 4" in capsys.readouterr().err


def test_cache(capsys):
    assert command_line.main(["cache"]) == 0
    assert "programs" in capsys.readouterr().out
