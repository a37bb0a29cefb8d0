# SPDX-License-Identifier: MIT
"""The program `dlprim`: what each subcommand does, its exit codes and errors."""

import contextlib
import csv
import json
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import xml.etree.ElementTree

import numpy as np
import pytest
from building import ROOT, build_folder, dlprim, run, write_classifier
from PIL import Image

COMMANDS = re.findall(r"^void (\w+)\(CLI::App& program\);", (ROOT / "dlprim/tools/commands.hpp").read_text(), re.M)
LENET = ROOT / "examples/nets/digits.json"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("model") / "classifier.onnx", size=32, batch="N")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    run(sys.executable, ROOT / "examples/digits.py", folder)
    return folder


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command):
    assert "--help" in dlprim(command, "--help")


def test_wrong_usage():
    assert "subcommand" in dlprim(code=2)
    assert "no_such.onnx" in dlprim("benchmark", "no_such.onnx", code=2)
    assert "--solver" in dlprim("benchmark", LENET, "--solver", "none", code=2)


def test_info(classifier):
    assert re.search(r"^0 .* on .*\n.*driver", dlprim("info"), re.M)
    text = dlprim("info", classifier)
    assert "input" in text and "[N, 3, 32, 32]" in text and "Conv" in text
    text = dlprim("info", LENET)
    assert "data" in text and "parameters" in text


@pytest.mark.skipif(sys.platform == "win32", reason="programs are compiled in one process there")
def test_alone_it_compiles_for_itself(tmp_path):
    """Without dlprim_compiler beside it the program is its own; a source goes in and the device's binary comes out."""
    program = shutil.copy(build_folder() / "dlprim/tools/dlprim", tmp_path)
    ours, theirs = socket.socketpair()
    source, options = b"kernel void f(global int *x) { x[0] = 7; }", b"-w"
    with ours:
        with theirs:
            assert subprocess.call([program, "compile-for:0:0"], stdin=theirs, timeout=60) == 0
        ours.settimeout(60)
        for text, builds in ((source, True), (b"no program", False), (source, True)):
            ours.sendall(struct.pack("3Q", len(options), 0, len(text)) + options + text)
            (size,) = struct.unpack("Q", ours.recv(8, socket.MSG_WAITALL))
            assert len(ours.recv(size, socket.MSG_WAITALL)) == size and (size > 0) == builds
    assert "subcommand" in run(program, "compile-for", code=2)


def test_operators_are_listed_as_in_the_documents():
    assert re.search(r"^onnx +Conv +gradient +auto_pad=NOTSET", dlprim("info", "--operators"), re.M)
    pytest.importorskip("onnx")
    run(sys.executable, ROOT / "tools/onnx_operators.py", build_folder() / "dlprim/tools/dlprim", "--check")


def test_errors_are_clear(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    (tmp_path / "broken.json").write_text('{"operators": [{"name": "a", "type": "Nonsense"}]}')
    assert "dlprim: [onnx]" in dlprim("benchmark", tmp_path / "broken.onnx", code=1)
    assert "Nonsense" in dlprim("benchmark", tmp_path / "broken.json", code=1)
    assert "no such device" in dlprim("benchmark", LENET, "-d", "no such device", code=1)


def test_benchmark(classifier, tmp_path):
    table = tmp_path / "times.csv"
    text = dlprim("benchmark", classifier, LENET, "-b", 2, "-i", 2, "-w", 1, "-p", "--csv", table)
    assert "Conv 'first'" in text and [row["batch"] for row in rows(table)] == ["2", "2"]
    dlprim("benchmark", LENET, "-i", 2, "-w", 1, "--solver", "sgd", "--csv", table)
    assert all(float(rows(table)[0][key]) > 0 for key in ("forward ms", "+ backward ms", "training step ms"))


def test_flops(tmp_path):
    plot, table = tmp_path / "roof.svg", tmp_path / "roof.csv"
    dlprim("flops", "-s", 0.05, "-b", 1, "-t", 0.001, "--parts", "gemm", "--plot", plot, "--csv", table)
    assert {row["kind"] for row in rows(table)} == {"memory", "peak", "gemm"}
    picture = xml.etree.ElementTree.parse(plot).getroot()
    assert sum(element.tag.endswith("circle") for element in picture) > 5


@pytest.mark.parametrize("extension", ["png", "jpg", "ppm"])
def test_predict(classifier, tmp_path, extension):
    image = tmp_path / f"image.{extension}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 40, 3), np.uint8)).save(image)
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"name {i}\n" for i in range(1000)))
    table = tmp_path / "report.csv"
    dlprim("predict", classifier, image, "--labels", labels, "-k", 3, "--csv", table)
    assert rows(table)[0]["class"] == "7" and rows(table)[0]["name"] == "name 7" and len(rows(table)) == 3


def test_predict_with_config(classifier, tmp_path):
    config, image = tmp_path / "config.json", tmp_path / "image.png"
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(image)
    config.write_text(json.dumps({"mean": [0.5, 0.5, 0.5], "std": [1, 1, 1], "class_names": ["x"] * 7 + ["seven"]}))
    assert "seven" in dlprim("predict", classifier, image, "-c", config)
    config.write_text(json.dumps({"means": [0.5]}))
    assert "means" in dlprim("predict", classifier, image, "-c", config, code=1)
    (tmp_path / "no.png").write_bytes(b"no image")
    assert "no.png" in dlprim("predict", classifier, tmp_path / "no.png", code=1)


def accuracy(text):
    return [float(number) for number in re.findall(r"accuracy ([\d.]+) %", text)]


def test_train_to_98_percent_and_resume(digits, tmp_path):
    text = dlprim("train", LENET, digits, "-e", 12, "--lr", 0.002, "--schedule", "cosine", "-o", tmp_path)
    assert accuracy(text)[-1] >= 98
    first = dlprim("train", LENET, digits, "-e", 2, "-o", tmp_path / "a")
    dlprim("train", LENET, digits, "-e", 1, "-o", tmp_path / "b")
    rest = dlprim("train", LENET, digits, "-e", 2, "-o", tmp_path / "b", "--resume", tmp_path / "b/snap_1.dlp")
    assert "going on after epoch 1" in rest and accuracy(rest) == accuracy(first)[1:]


def test_train_on_a_folder_of_images(tmp_path):
    random = np.random.default_rng(0)
    for part, count in (("train", 24), ("val", 8)):
        for name, brightness in (("dark", 40), ("light", 200)):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.clip(random.normal(brightness, 20, (20, 24, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / name / f"{i}.png")
    net = tmp_path / "net.json"
    net.write_text(
        json.dumps(
            {
                "inputs": [{"name": "data", "shape": [8, 3, 8, 8]}, {"name": "label", "shape": [8], "dtype": "int"}],
                "outputs": ["prob", "loss"],
                "operators": [
                    {
                        "name": "fc",
                        "type": "InnerProduct",
                        "inputs": ["data"],
                        "outputs": ["fc"],
                        "options": {"outputs": 2},
                    },
                    {"name": "prob", "type": "Softmax", "inputs": ["fc"], "outputs": ["prob"]},
                    {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["fc", "label"], "outputs": ["loss"]},
                ],
            }
        )
    )
    assert accuracy(dlprim("train", net, tmp_path, "-e", 4, "-o", tmp_path, "--format", "safetensors"))[-1] == 100
    assert (tmp_path / "snap_4.safetensors").exists()


def test_train_refuses_what_it_cannot_do(classifier, digits, tmp_path):
    assert "two inputs" in dlprim("train", classifier, digits, code=1)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + b"\xff" * 12)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\0")
    assert "cut off" in dlprim("train", LENET, tmp_path, code=1)


@pytest.mark.parametrize("parameters", ["net.dlp", "net.h5", "net.safetensors"])
def test_convert(classifier, tmp_path, parameters):
    dlprim("convert", classifier, tmp_path / "net.json", tmp_path / parameters, "-b", 2)
    image = tmp_path / "image.png"
    Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(image)
    tables = [tmp_path / "a.csv", tmp_path / "b.csv"]
    dlprim("predict", classifier, image, "--csv", tables[0], "-k", 1)
    dlprim("predict", tmp_path / "net.json", image, "-P", tmp_path / parameters, "--csv", tables[1], "-k", 1)
    assert rows(tables[0]) == rows(tables[1])


def test_tune(monkeypatch, tmp_path):
    monkeypatch.setenv("DLPRIM_CACHE_DIR", str(tmp_path))

    def kept():
        with contextlib.closing(sqlite3.connect(tmp_path / "programs.db")) as base:
            query = "SELECT binary FROM programs WHERE CAST(key AS TEXT) LIKE 'choice|%|gemm.%.float32'"
            return b"".join(row[0] for row in base.execute(query)).decode()

    text = dlprim("tune", "-t", 0.001, "-s", 0.1, "--dtypes", "float32")
    assert "GFLOP/s" in text and re.match(r"\d+x\d+x\d+", kept())
    assert "NaN" not in dlprim("benchmark", LENET, "-i", 1, "-w", 1)
    dlprim("tune", "--reset")
    assert kept() == ""
