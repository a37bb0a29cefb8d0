# SPDX-License-Identifier: MIT
"""GGUF files that are damaged or made to harm are refused by an error that says why."""

import struct

import gguf_files
import numpy as np
import pytest

import dlprim

CONFIG = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 32,
    "llama.context_length": 16,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.scores": [0.0] * 258,
    **gguf_files.character_vocabulary(258),
}


def tensors(kind=gguf_files.F32):
    random = np.random.default_rng(0)

    def matrix(n, k):
        return random.standard_normal((n, k)).astype(np.float32), kind

    ones = (np.ones(32, np.float32), gguf_files.F32)
    result = {"token_embd.weight": matrix(258, 32), "output_norm.weight": ones}
    for name, rows in {"attn_q": 32, "attn_k": 16, "attn_v": 16, "attn_output": 32}.items():
        result[f"blk.0.{name}.weight"] = matrix(rows, 32)
    for name in ("ffn_gate", "ffn_up", "ffn_down"):
        result[f"blk.0.{name}.weight"] = matrix(32, 32)
    return {**result, "blk.0.attn_norm.weight": ones, "blk.0.ffn_norm.weight": ones}


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = gguf_files.write(tmp_path_factory.mktemp("gguf") / "a.gguf", CONFIG, tensors())
    dlprim.Generator(path).scores([1, 2])
    return path.read_bytes()


def refused(path, contents, message):
    path.write_bytes(contents)
    with pytest.raises((dlprim.ValidationError, dlprim.NotSupportedError), match=message):
        dlprim.Generator(path)


def head(tensors=0, values=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values)


def info(name="x", sizes=(32,), kind=0, offset=0, dims=None):
    dims = len(sizes) if dims is None else dims
    return gguf_files.text(name) + struct.pack(f"<I{len(sizes)}QIQ", dims, *sizes, kind, offset)


def with_value(kind, data):
    return head(0, 1) + gguf_files.text("key") + struct.pack("<I", kind) + data + b"\0" * 64


HUGE = 2**63
NESTED = struct.pack("<IQ", 9, 1) * 12 + struct.pack("<IQ", 0, 1)
HOSTILE = {
    "no GGUF file": [b"", b"GGUF", b"GGML" + bytes(60)],
    "version 2 or 3": [head(version=1), head(version=9)],
    "big endian": [b"GGUF" + struct.pack(">IQQ", 3, 0, 0)],
    "do not fit": [
        head(2**60, 0),
        head(0, 2**60),
        with_value(9, struct.pack("<IQ", 8, HUGE)),
        with_value(9, struct.pack("<IQ", 12, 2**61)),
        with_value(9, struct.pack("<IQIQ", 9, 1, 4, 2**62)),
    ],
    "bytes, with": [head(0, 1) + struct.pack("<Q", HUGE) + bytes(16), with_value(8, struct.pack("<Q", 2**40))],
    "kind 99": [
        with_value(99, b""),
        with_value(9, struct.pack("<IQ", 99, 1)),
        with_value(9, struct.pack("<IQI", 9, 1, 99) + bytes(8)),
    ],
    "deep in each other": [with_value(9, NESTED)],
    "cut off": [
        head(0, 1) + struct.pack("<Q", 3) + b"keyxx",
        head(1) + info(sizes=(32,)),
        head(1) + info(sizes=(32,), offset=2**64 - 64) + bytes(256),
        head(1) + info(sizes=(2**20, 2**20)) + bytes(256),
    ],
    "is there twice": [
        head(2) + info() + info(offset=128) + bytes(512),
        head(0, 2) + 2 * (gguf_files.text("key") + gguf_files.value(1)) + bytes(32),
    ],
    "out of range": [head(1) + info(sizes=(2**40, 2**40)) + bytes(64)],
    "a size of": [head(1) + info(sizes=(0,)) + bytes(64), head(1) + info(sizes=(2**63, 2)) + bytes(64)],
    "dimensions": [head(1) + info(dims=0) + bytes(64), head(1) + info(dims=1000000) + bytes(64)],
    "elements of type 65536": [head(1) + info(kind=65536) + bytes(256)],
    "not supported; expected F32": [head(1) + info(kind=1234) + bytes(256)],
    "whole blocks": [head(1) + info(sizes=(33,), kind=gguf_files.Q8_0) + bytes(256)],
    "not aligned": [head(1) + info(offset=4) + bytes(512)],
    "overlaps": [head(2) + info("a") + info("b", offset=64) + bytes(512)],
    "an alignment": [head(0, 1) + gguf_files.text("general.alignment") + gguf_files.value(0) + bytes(64)],
    "an integer": [head(0, 1) + gguf_files.text("general.alignment") + gguf_files.value("x") + bytes(64)],
    "general.architecture": [head() + bytes(64)],
    # names that are no UTF-8
    r"\\xff.* a size of": [(head(1) + info("ab", sizes=(0,))).replace(b"ab", b"\xffb") + bytes(64)],
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_files(message, tmp_path):
    for contents in HOSTILE[message]:
        refused(tmp_path / "a.gguf", contents, message)


WRONG_MODELS = {
    "architecture 'bert'": {"general.architecture": "bert"},
    "'llama.block_count'": {"llama.block_count": 0},
    "no tensor 'blk.1.": {"llama.block_count": 2},
    "expected a matrix": {"llama.embedding_length": 64},
    "do not share": {"llama.attention.head_count": 3, "llama.attention.head_count_kv": 2},
    "'llama.attention.key_length'": {"llama.attention.key_length": 100000},
    "no 'llama.expert_used_count'": {"llama.expert_count": 8},
    "'llama.expert_used_count'": {"llama.expert_count": 8, "llama.expert_used_count": 9},
    "no tensor 'blk.0.ffn_gate_inp": {"llama.expert_count": 8, "llama.expert_used_count": 2},
    "scaled by 'spiral'": {"llama.rope.scaling.type": "spiral"},
    "no 'llama.rope.scaling.original_context_length'": {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
    },
    "'llama.rope.scaling.factor'": {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": float("nan"),
        "llama.rope.scaling.original_context_length": 8,
    },
    "'llama.rope.scaling.yarn_beta_fast'": {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 8,
        "llama.rope.scaling.yarn_beta_fast": -1.0,
    },
    "'longrope' without": {
        "llama.rope.scaling.type": "longrope",
        "llama.rope.scaling.original_context_length": 8,
    },
    "the model 'bert'": {"tokenizer.ggml.model": "bert"},
    "in the way 'no way'": {"tokenizer.ggml.pre": "no way"},
    "no merges": {"tokenizer.ggml.merges": None},
    "no vocabulary": {"tokenizer.ggml.tokens": None},
    "types of": {"tokenizer.ggml.token_type": [1, 2]},
    "'tokenizer.ggml.eos_token_id'": {"tokenizer.ggml.eos_token_id": 2**31},
    "an array of texts": {"tokenizer.ggml.tokens": [1, 2]},
    "is no pair": {"tokenizer.ggml.merges": ["ab"]},
    "pieces, with scores": {"tokenizer.ggml.tokens": [str(i) for i in range(300)], "tokenizer.ggml.token_type": None},
}


@pytest.mark.parametrize("message", WRONG_MODELS)
def test_wrong_models(message, tmp_path):
    values = {key: value for key, value in {**CONFIG, **WRONG_MODELS[message]}.items() if value is not None}
    path = gguf_files.write(tmp_path / "a.gguf", values, tensors())
    refused(path, path.read_bytes(), message)


def values_of(architecture, **own):
    """The same model by another name."""
    values = {key.replace("llama.", architecture + "."): value for key, value in CONFIG.items()}
    return {**values, "general.architecture": architecture, **{f"{architecture}.{key}": x for key, x in own.items()}}


FACTORS = np.ones(8, np.float32)
OSS = {"attention.sliding_window": 4, "expert_count": 2, "expert_used_count": 1}
MIXTURE = {"expert_count": 2, "expert_used_count": 1, "expert_shared_feed_forward_length": 32}
EXPERTS = {f"blk.0.ffn_{name}_exps.weight": np.ones((2, 32, 32), np.float32) for name in ("gate", "up", "down")}
EXPERTS["blk.0.ffn_gate_inp.weight"] = np.ones((2, 32), np.float32)
LAYER_NORM = {"attention.layer_norm_epsilon": 1e-5}
WRONG_ARCHITECTURES = [
    (
        "no 'qwen2moe.expert_shared_feed_forward_length'",
        values_of("qwen2moe", expert_count=2, expert_used_count=1),
        EXPERTS,
    ),
    ("no tensor 'blk.0.ffn_gate_inp_shexp.weight'", values_of("qwen2moe", **MIXTURE), EXPERTS),
    (
        "expected a tensor .32., got 'blk.0.ffn_gate_inp_shexp.weight'",
        values_of("qwen2moe", **MIXTURE),
        {**EXPERTS, "blk.0.ffn_gate_inp_shexp.weight": np.ones(31, np.float32)},
    ),
    (
        "no tensor 'blk.0.ffn_gate_shexp.weight'",
        values_of("qwen2moe", **MIXTURE),
        {**EXPERTS, "blk.0.ffn_gate_inp_shexp.weight": np.ones((1, 32), np.float32)},
    ),
    ("'command-r.logit_scale'", values_of("command-r", logit_scale=-1.0, **LAYER_NORM), {}),
    (
        "'gptneox.use_parallel_residual': expected true or false",
        values_of("gptneox", use_parallel_residual=1, **LAYER_NORM),
        {},
    ),
    ("no tensor 'position_embd.weight'", values_of("gpt2", **LAYER_NORM), {}),
    (
        "expected a matrix .16, 32., got 'position_embd.weight'",
        values_of("gpt2", **LAYER_NORM),
        {"position_embd.weight": np.ones((15, 32), np.float32)},
    ),
    ("expected 258 numbers, got 'output.bias'", values_of("phi2", **LAYER_NORM), {"output.bias": FACTORS}),
    ("no 'starcoder2.attention.layer_norm_epsilon'", values_of("starcoder2"), {}),
    ("ffn_gate.weight' F32 .32, 32. belongs to no model", values_of("starcoder2", **LAYER_NORM), {}),
    (
        "expected 32 numbers, got 'blk.0.attn_norm.bias'",
        values_of("starcoder2", **LAYER_NORM),
        {"blk.0.attn_norm.bias": np.ones(31, np.float32)},
    ),
    ("no tensor 'blk.0.post_attention_norm", values_of("gpt-oss", **OSS), {}),
    (
        "no tensor 'blk.0.attn_sinks",
        values_of("gpt-oss", **OSS),
        {"blk.0.post_attention_norm.weight": np.ones(32, np.float32)},
    ),
    (
        "expected 2 numbers, got 'blk.0.attn_sinks",
        values_of("gpt-oss", **OSS),
        {"blk.0.post_attention_norm.weight": np.ones(32, np.float32), "blk.0.attn_sinks.weight": FACTORS},
    ),
    ("no 'gemma2.attention.sliding_window'", values_of("gemma2"), {}),
    (
        "'gemma2.attn_logit_softcapping'",
        values_of("gemma2", **{"attention.sliding_window": 4, "attn_logit_softcapping": -1.0}),
        {},
    ),
    ("no tensor 'blk.0.post_attention_norm", values_of("gemma2", **{"attention.sliding_window": 4}), {}),
    ("'granite.logit_scale'", values_of("granite", logit_scale=0.0), {}),
    ("'granite.attention.scale'", values_of("granite", **{"attention.scale": float("inf")}), {}),
    ("elements rotate", values_of("phi3", **{"rope.dimension_count": 5}), {}),
    ("without rope_factors_short and _long", values_of("phi3"), {"rope_factors_long.weight": FACTORS}),
    (
        "expected 8 factors of frequencies, got 'rope_factors_short.weight'",
        values_of("phi3"),
        {"rope_factors_long.weight": FACTORS, "rope_factors_short.weight": FACTORS[:3]},
    ),
    (
        "a frequency is divided by",
        values_of("phi3"),
        {"rope_factors_long.weight": FACTORS * 0, "rope_factors_short.weight": FACTORS},
    ),
    (
        "no 'phi3.rope.scaling.original_context_length'",
        values_of("phi3"),
        {"rope_factors_long.weight": FACTORS, "rope_factors_short.weight": FACTORS},
    ),
    ("belongs to no model", values_of("llama"), {"blk.0.attn_q_norm.weight": FACTORS}),
]


@pytest.mark.parametrize("message, values, more", WRONG_ARCHITECTURES)
def test_wrong_architectures(message, values, more, tmp_path):
    more = {name: (x, gguf_files.F32) for name, x in more.items()}
    path = gguf_files.write(tmp_path / "a.gguf", values, {**tensors(), **more})
    refused(path, path.read_bytes(), message)


def test_unknown_tensors_are_refused(tmp_path):
    more = {**tensors(), "blk.0.ffn_gate_inp.weight": (np.ones(32, np.float32), gguf_files.F32)}
    path = gguf_files.write(tmp_path / "a.gguf", CONFIG, more)
    refused(path, path.read_bytes(), "ffn_gate_inp.weight' F32 .32. belongs to no model")


def test_any_cut_is_refused(valid, tmp_path):
    path = tmp_path / "a.gguf"
    for length in np.random.default_rng(1).integers(0, len(valid) - 128, 60):
        path.write_bytes(valid[:length])
        with pytest.raises(dlprim.ValidationError):
            dlprim.Generator(path)


def test_mutated_files_do_no_harm(valid, tmp_path):
    """Bytes of the header changed: refused, or a model."""
    random, path = np.random.default_rng(2), tmp_path / "a.gguf"
    end = valid.index(b"tokenizer.ggml.tokens")
    tail = valid.index(b"token_embd.weight") - 8
    places = np.concatenate([np.arange(end), np.arange(tail, tail + 800)])
    loaded = 0
    for _ in range(150):
        contents = bytearray(valid)
        for place in random.choice(places, random.integers(1, 4)):
            contents[place] = random.choice([0, 1, 127, 128, 255, int(random.integers(256))])
        path.write_bytes(contents)
        try:
            dlprim.Generator(path, context=4).scores([1, 2])
            loaded += 1
        except (dlprim.Error, ValueError, NotImplementedError):
            pass
    assert loaded < 150
