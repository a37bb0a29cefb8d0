# SPDX-License-Identifier: MIT
"""Decoders in ONNX files give ONNX Runtime's scores and tokens, step by step."""

import numpy as np
import onnx_decoders
import pytest

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")
TOKENS = [17, 4, 200, 99, 31, 64, 5, 120]


def steps(path):
    return onnx_decoders.Steps(onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]))


def check(folder, path, tolerance=1e-4, count=12):
    generator = dlprim.Generator(folder)
    expected = steps(path).run(TOKENS).astype(np.float32)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(generator.scores(TOKENS), expected, rtol=tolerance, atol=tolerance * largest)
    assert list(generator.tokens(TOKENS, tokens=count, stop=False)) == steps(path).greedy(TOKENS, count)
    return generator


@pytest.mark.parametrize("rotary", ["inside", "outside"])
@pytest.mark.parametrize("bits", [4, 8, 0])
def test_fused_networks(rotary, bits, tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(rotary=rotary, bits=bits))
    generator = check(tmp_path, tmp_path / "model.onnx")
    summary = generator.summary
    assert summary["architecture"] == "llama" and summary["context"] == 64 and summary["layers"] == 2
    assert summary["dtype"] == "float32" and summary["weight_bytes"] > 0


def test_float16(tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(np.float16))
    generator = check(tmp_path, tmp_path / "model.onnx", tolerance=2e-2, count=4)
    assert generator.summary["dtype"] == "float16"


@pytest.mark.parametrize("attention", [{"local_window_size": 6}, {"softcap": 5.0, "scale": 0.3}])
def test_attention(attention, tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(**attention))
    check(tmp_path, tmp_path / "model.onnx")
