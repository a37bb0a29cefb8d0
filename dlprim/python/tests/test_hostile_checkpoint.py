# SPDX-License-Identifier: MIT
"""Checkpoints that are damaged or made to harm are refused by an error that says why, and nothing outside is read."""

import json
import os
import shutil
import struct

import checkpoints
import numpy as np
import pytest
from test_generator import tiny, tiny_gpt_oss

import dlprim

REFUSED = (dlprim.ValidationError, dlprim.NotSupportedError)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return checkpoints.save(tmp_path_factory.mktemp("valid") / "model", tiny("llama"))


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def refused(folder, message):
    with pytest.raises(REFUSED, match=message):
        dlprim.Generator(folder)


def entry(sizes=(2,), begin=0, end=8, dtype="F32"):
    return {"dtype": dtype, "shape": list(sizes), "data_offsets": [begin, end]}


def header(*entries, names="abc", data=8):
    return checkpoints.safetensors(dict(zip(names, entries)), bytes(data))


TWICE = b'{"a": %b, "a": %b}' % (2 * (json.dumps(entry()).encode(),))
HOSTILE = {
    "no safetensors file": [b"", b"1234567"],
    "a header of": [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 3) + b"{}",
        checkpoints.safetensors(b"{}" + b" " * (17 << 20)),
    ],
    "no JSON": [checkpoints.safetensors(b"{"), checkpoints.safetensors(b'{"\xff": 1}'), checkpoints.safetensors(b"")],
    "in each other": [checkpoints.safetensors(b'{"a":' * 9), checkpoints.safetensors(b"[" * 1000000)],
    "is there twice": [checkpoints.safetensors(TWICE, bytes(8))],
    "an object": [checkpoints.safetensors(b"[]"), checkpoints.safetensors(b'{"a": 1}')],
    "type I64": [header(entry((1,), dtype="I64"))],
    "two offsets": [
        header(entry(begin=-8, end=0)),
        header(entry(begin=8, end=0)),
        header({**entry(), "data_offsets": []}),
    ],
    "bytes, expected": [header(entry((3,))), header(entry(())), header(entry((1,), 0, 8))],
    "cut off": [header(entry((2**17, 2**20), 0, 2**39)), header(entry(begin=2**39, end=2**39 + 8))],
    "an integer for 'data_offsets'": [header(entry(begin=2**62, end=2**62 + 8)), header(entry(end=2**64))],
    "an integer for 'shape'": [header(entry((2**62, 2))), header(entry((0.5,)))],
    "out of range": [header(entry((2**40, 2**40)))],
    "a size of": [header(entry((0,), 0, 0)), header(entry((-2,)))],
    "dimensions": [header(entry((1,) * 9))],
    "overlaps": [header(entry(), entry((2,), 4, 12), data=16)],
    "bytes behind the header": [header(entry(), data=16), header(entry(), entry((1,), 12, 16), data=16)],
    "unknown keys": [header({**entry(), "more": 1})],
    "no matrix 'model.embed_tokens.weight'": [header(entry()), checkpoints.safetensors(b"{}")],
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_files(message, folder):
    for contents in HOSTILE[message]:
        (folder / "model.safetensors").write_bytes(contents)
        refused(folder, message)


def test_any_cut_is_refused(saved, folder):
    whole = (saved / "model.safetensors").read_bytes()
    for length in [*range(0, 64, 7), *range(64, len(whole), 4001), len(whole) - 1]:
        (folder / "model.safetensors").write_bytes(whole[:length])
        refused(folder, ".")


def tensors_of(folder):
    data = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    named = json.loads(data[8 : 8 + length])
    named.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[8 + length :][slice(*x["data_offsets"])], np.float32).reshape(x["shape"])
        for name, x in named.items()
    }


def test_tensors_that_make_no_model(saved, folder):
    tensors = tensors_of(saved)
    norm, query = "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"
    for change, message in [
        ({norm: None}, f"no tensor '{norm}'"),
        ({norm: np.ones(7, np.float32)}, "expected 64 numbers, got 'model.norm.weight'"),
        ({query: np.ones((64, 32), np.float32)}, "expected a matrix .64, 64., got"),
        ({"lm_head.weight": None}, "no tensor 'lm_head.weight'"),
        ({"model.layers.0.mlp.more.bias": np.ones(96, np.float32)}, "more.bias' F32 .96. belongs to no model"),
        ({"model.layers.0.mlp.up_proj.bias": np.ones(96, np.float32)}, "biases of some"),
        ({"model.layers.0.mlp.down_proj.bias": np.ones(96, np.float32)}, "expected 64 numbers, got"),
        ({norm: np.ones(64, np.uint8)}, f"'{norm}': elements of type U8 are not supported"),
        ({"model.layers.0.self_attn.q_proj.bias": np.ones(64, np.float32)}, "biases of some"),
    ]:
        changed = {name: x for name, x in {**tensors, **change}.items() if x is not None}
        (folder / "model.safetensors").write_bytes(checkpoints.packed(changed))
        refused(folder, message)


QWEN = {
    "model_type": "qwen2_moe",
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
}
WRONG = {
    "'falcon' are not supported": {"model_type": "falcon"},
    "'mamba' are not supported": {"model_type": "mamba"},
    "for 'swiglu_limit'": {"model_type": "gpt_oss", "swiglu_limit": 5.0},
    "this 'quantization_config'": {"model_type": "gpt_oss", "quantization_config": {"quant_method": "bitsandbytes"}},
    "'quant_method' is missing": {"model_type": "gpt_oss", "quantization_config": {}},
    "expected an object, got": {"model_type": "gpt_oss", "quantization_config": 3},
    "for 'moe_intermediate_size', got 0": {**QWEN, "moe_intermediate_size": 0},
    "for 'shared_expert_intermediate_size'": {**QWEN, "shared_expert_intermediate_size": 2**40},
    "for 'decoder_sparse_step', got 0": {**QWEN, "decoder_sparse_step": 0},
    "an integer for 'mlp_only_layers'": {**QWEN, "mlp_only_layers": [0, "1"]},
    "windows without 'layer_types'": {**QWEN, "use_sliding_window": True, "sliding_window": 4},
    "no tensor 'model.layers.0.mlp.gate.weight'": {**QWEN, "mlp_only_layers": [-1, 1, 2**40]},
    "expected a matrix .80, 64., got 'model.layers.0": {**QWEN, "mlp_only_layers": [0], "intermediate_size": 80},
    "'qk_layernorm' is": {"model_type": "stablelm", "qk_layernorm": True},
    "'use_qk_norm' is": {"model_type": "cohere", "use_qk_norm": True},
    "for 'logit_scale', got 0": {"model_type": "cohere", "logit_scale": 0},
    "for 'partial_rotary_factor', got 2": {"model_type": "gpt_neox", "layer_norm_eps": 1e-5, "rotary_pct": 2.0},
    "for 'rope_theta', got 0": {
        "model_type": "gpt_neox",
        "layer_norm_eps": 1e-5,
        "rope_parameters": ...,
        "rotary_emb_base": 0,
    },
    "no matrix 'gpt_neox.embed_in.weight'": {"model_type": "gpt_neox", "layer_norm_eps": 1e-5},
    "for 'num_hidden_layers', got 0": {"model_type": "gpt2", "num_hidden_layers": ..., "n_layer": 0},
    "'scale_attn_by_inverse_layer_idx' is": {"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": True},
    "scores that are not scaled": {"model_type": "gpt2", "scale_attn_weights": False},
    "no matrix 'transformer.wte.weight'": {"model_type": "gpt2", "layer_norm_epsilon": 1e-5},
    "no tensor 'model.final_layernorm.weight'": {"model_type": "phi", "layer_norm_eps": 1e-5},
    "'norm_epsilon' is missing": {"model_type": "starcoder2"},
    "no tensor 'model.layers.0.mlp.c_fc.weight'": {"model_type": "starcoder2", "norm_epsilon": 1e-5},
    "'num_experts' is missing": {"model_type": "mixtral"},
    "no tensor 'model.layers.0.block_sparse_moe.gate": {
        "model_type": "mixtral",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "1 to 4 for 'num_experts_per_tok'": {
        "model_type": "mixtral",
        "num_local_experts": 4,
        "num_experts_per_tok": 5,
    },
    "of texts and images": {"model_type": "gemma3"},
    "'model_type' is missing": {"model_type": ...},
    "'num_hidden_layers'": {"num_hidden_layers": 10**9},
    "no tensor 'model.layers.2": {"num_hidden_layers": 3},
    "expected a matrix": {"hidden_size": 128},
    "do not share": {"num_attention_heads": 3},
    "'head_dim'": {"head_dim": 10**6},
    "'rms_norm_eps'": {"rms_norm_eps": ...},
    "for 'rms_norm_eps'": {"rms_norm_eps": 1e300},
    "'vocab_size' is 300": {"vocab_size": 300},
    "scaled by 'dynamic'": {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
    "for 'factor', got 0": {"rope_parameters": {"rope_type": "yarn", "factor": 0}},
    "for 'original_max_position_embeddings', got -1": {
        "rope_parameters": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": -1}
    },
    "'short_factor' is missing": {"rope_parameters": {"rope_type": "longrope"}},
    "expected a list of numbers for 'short_factor'": {"rope_parameters": {"rope_type": "longrope", "short_factor": 1}},
    "expected numbers in 'short_factor'": {"rope_parameters": {"rope_type": "longrope", "short_factor": ["a"]}},
    "expected 8 factors of frequencies, got 1": {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0]}},
    "a frequency is divided by -1": {"rope_parameters": {"rope_type": "longrope", "short_factor": [-1.0] * 8}},
    "for 'residual_multiplier'": {"model_type": "granite", "residual_multiplier": 0},
    "for 'attn_logit_softcapping'": {"model_type": "gemma2", "attn_logit_softcapping": -5.0},
    "for 'query_pre_attn_scalar'": {"model_type": "gemma2", "query_pre_attn_scalar": 0},
    "for 'partial_rotary_factor'": {"model_type": "phi3", "partial_rotary_factor": 2.0},
    "15 elements rotate": {"model_type": "phi3", "partial_rotary_factor": 0.95},
    "expected 'no_rope_layers' of all layers": {"model_type": "smollm3", "no_rope_layers": [1]},
    "'use_sliding_window'": {"model_type": "smollm3", "use_sliding_window": True},
    "a list of integers for 'no_rope_layers'": {"model_type": "smollm3", "no_rope_layers": 3},
    "'high_freq_factor' above": {
        "rope_parameters": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}
    },
    "expected an object": {"rope_parameters": [1]},
    "rotate in part": {"partial_rotary_factor": 0.5},
    "activation 'relu'": {"hidden_act": "relu"},
    "'quantization_config'": {"quantization_config": {"quant_method": "gptq"}},
    "type 'sliding_attention'": {"layer_types": ["sliding_attention", "full_attention"]},
    "'eos_token_id' is 1000": {"eos_token_id": 1000},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_models(message, folder):
    checkpoints.change(folder / "config.json", **WRONG[message])
    refused(folder, message)


def test_heads_that_do_not_fit(tmp_path):
    """Rows of queries, keys and values are whole heads of each."""
    checkpoints.save(tmp_path, tiny("gptneox"))
    name = "gpt_neox.layers.0.attention.query_key_value."
    for change, message in [
        ({name + "weight": np.ones((190, 64), np.float32)}, "expected whole groups of 48 rows, got"),
        ({name + "weight": np.ones((144, 64), np.float32)}, "expected a matrix .64, 64., got .*query.weight"),
        ({name + "bias": np.ones((192, 2), np.float32)}, "expected 64 numbers, got .*query.bias"),
        ({name + "bias": np.ones(48, np.float32)}, "expected 64 numbers, got .*query.bias"),
    ]:
        folder = shutil.copytree(tmp_path, tmp_path / "changed", ignore=lambda *_: ["changed"])
        (folder / "model.safetensors").write_bytes(checkpoints.packed({**tensors_of(tmp_path), **change}))
        refused(folder, message)
        shutil.rmtree(folder)


def test_positions_and_transposed_matrices(tmp_path):
    checkpoints.save(tmp_path, tiny("gpt2"))
    for change, message in [
        ({"transformer.wpe.weight": np.ones((63, 64), np.float32)}, "expected a matrix .64, 64., got 'transformer.wpe"),
        ({"transformer.wpe.weight": None}, "no tensor 'transformer.wpe.weight'"),
        (
            {"transformer.h.0.mlp.c_fc.weight": np.ones((96, 64), np.float32)},
            "expected a matrix .96, 64., got",
        ),
        ({"transformer.h.0.mlp.c_fc.weight": np.ones(96, np.float32)}, "another number of dimensions"),
    ]:
        folder = shutil.copytree(tmp_path, tmp_path / "changed", ignore=lambda *_: ["changed"])
        tensors = {name: x for name, x in {**tensors_of(tmp_path), **change}.items() if x is not None}
        (folder / "model.safetensors").write_bytes(checkpoints.packed(tensors))
        refused(folder, message)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts") / "model"
    return folder, checkpoints.save_mxfp4(folder, tiny_gpt_oss(layers=1))


GATES, DOWN = ("model.layers.0.mlp.experts." + name for name in ("gate_up_proj", "down_proj"))
SINKS = "model.layers.0.self_attn.sinks"
WRONG_EXPERTS = [
    ("scales for each of these groups, got .*_blocks'", {GATES + "_scales": None}),
    ("scales for each of these groups, got .*_scales'", {GATES + "_scales": np.zeros((6, 192, 1), np.uint8)}),
    ("scales for each of these groups, got .*_scales'", {GATES + "_scales": np.zeros((6, 192, 2), np.float32)}),
    ("bytes in groups of 16, got", {GATES + "_blocks": np.zeros((6, 192, 2, 8), np.uint8)}),
    ("bytes in groups of 16, got", {GATES + "_blocks": np.zeros((6, 192, 32), np.uint8)}),
    ("bytes in groups of 16, got", {DOWN + "_blocks": np.zeros((6, 64, 3, 16), np.float32)}),
    ("another number of dimensions, got", {DOWN + "_blocks": np.zeros(64, np.uint8)}),
    ("whole groups of 2 rows, got", {GATES + "_bias": np.zeros((6, 191), np.float32)}),
    ("expected a matrix .6, 96., got", {GATES + "_bias": np.zeros((6, 96), np.float32)}),
    ("expected a matrix .6, 64., got", {DOWN + "_bias": np.zeros((5, 64), np.float32)}),
    ("floating point numbers, got", {DOWN + "_bias": np.zeros((6, 64), np.uint8)}),
    ("is there twice", {DOWN: np.zeros((6, 96, 64), np.float32)}),
    ("another number of dimensions, got", {DOWN: np.zeros(64, np.float32), DOWN + "_blocks": None}),
    ("down_proj_scales': elements of type U8", {DOWN + "_blocks": None}),
    ("no tensor '.*down_proj.weight'", {DOWN + "_blocks": None, DOWN + "_scales": None}),
    (
        "expected a tensor .6, 96, 64., got .*gate_proj.weight' MXFP4 .6, 48, 64.",
        {GATES + "_blocks": np.zeros((6, 96, 2, 16), np.uint8), GATES + "_scales": np.zeros((6, 96, 2), np.uint8)},
    ),
    (
        "expected a tensor .6, 64, 96., got .*down_proj.weight' F32 .6, 96, 64.",
        {DOWN: np.zeros((6, 64, 96), np.float32), DOWN + "_blocks": None, DOWN + "_scales": None},
    ),
    ("expected 4 numbers, got .*sinks", {SINKS: np.zeros(5, np.float32)}),
    ("no tensor '.*sinks.weight'", {SINKS: None}),
    ("is there twice", {SINKS + ".weight": np.zeros(4, np.float32)}),
]


@pytest.mark.parametrize("message, change", WRONG_EXPERTS)
def test_experts_that_do_not_fit(message, change, experts, tmp_path):
    folder = shutil.copytree(experts[0], tmp_path / "model")
    changed = {name: x for name, x in {**experts[1], **change}.items() if x is not None}
    (folder / "model.safetensors").write_bytes(checkpoints.packed(changed))
    refused(folder, message)


def test_scales_in_another_file(experts, tmp_path):
    """Bytes and their exponents need not lie together."""
    folder = shutil.copytree(experts[0], tmp_path / "model")
    (folder / "model.safetensors").unlink()
    parts = [{}, {}]
    for name, x in experts[1].items():
        parts[name.endswith("_scales")][name] = x
    for i, part in enumerate(parts):
        (folder / f"model-{i}.safetensors").write_bytes(checkpoints.packed(part))
    weight_map = {name: f"model-{i}.safetensors" for i, part in enumerate(parts) for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    want, got = (dlprim.Generator(path).scores([1, 2, 3]) for path in (experts[0], folder))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_files_beside(name, folder):
    for contents, message in [(b"[]", "expected an object"), (b"{", "no JSON"), (b'{"a":' * 99, "in each other")]:
        (folder / name).write_bytes(contents)
        refused(folder, message)
    (folder / name).write_bytes(b"{" + b" " * (65 << 20) + b"}")
    refused(folder, "expected at most")
    (folder / name).unlink()
    if name != "generation_config.json":
        refused(folder, name)
    (folder / name).mkdir()
    refused(folder, "no regular file")


def index(folder, names, file="model-1.safetensors"):
    moved = folder / "model-1.safetensors"
    if not moved.exists():
        (folder / "model.safetensors").rename(moved)
    weight_map = dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_files_outside_are_not_opened(saved, folder):
    names = list(tensors_of(saved))
    outside = folder.parent / "model.safetensors"
    shutil.copy(saved / "model.safetensors", outside)
    (folder / "inner").mkdir()
    shutil.copy(outside, folder / "inner")
    index(folder, names)
    dlprim.Generator(folder)
    for path in ["../model.safetensors", str(outside), "inner/model.safetensors", "..", ".", "", "a\\b", "C:a"]:
        index(folder, names, path)
        refused(folder, "is no name of a file in the folder")
    index(folder, names, "model-1.safetensors\0b")
    refused(folder, "model-1.safetensors")
    index(folder, names, "missing.safetensors")
    refused(folder, "cannot be read")
    (folder / "link").symlink_to(outside)
    index(folder, names, "link")
    refused(folder, "a link out of the folder")
    (folder / "again").symlink_to("model-1.safetensors")
    index(folder, names, "again")
    dlprim.Generator(folder)
    (folder / "round").symlink_to("round")
    index(folder, names, "round")
    refused(folder, "cannot be read")
    os.mkfifo(folder / "pipe")
    index(folder, names, "pipe")
    refused(folder, "no regular file")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json", "model.safetensors"])
def test_links_out_of_the_folder(name, folder):
    target = folder.parent / name
    (folder / name).rename(target)
    (folder / name).symlink_to(target)
    refused(folder, "a link out of the folder")


def test_indices(saved, folder):
    names = list(tensors_of(saved))
    index(folder, [*names, "more"])
    refused(folder, "lacks 'more'")
    index(folder, names[1:])
    refused(folder, "the index")
    index(folder, [])
    refused(folder, "no 'weight_map'")
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": 1}}))
    refused(folder, "names of files")
    path.write_text(json.dumps({"weight_map": {str(i): f"{i}.safetensors" for i in range(600)}}))
    refused(folder, "expected at most 512")
    shutil.copy(folder / "model-1.safetensors", folder / "model-2.safetensors")
    path.write_text(json.dumps({"weight_map": {names[0]: "model-1.safetensors", names[1]: "model-2.safetensors"}}))
    refused(folder, "is there twice")


def test_one_of_two_files(folder):
    """The index counts only where there is no single file."""
    (folder / "model.safetensors.index.json").write_text("{")
    dlprim.Generator(folder)
    (folder / "model.safetensors").unlink()
    refused(folder, "no JSON")
    (folder / "model.safetensors.index.json").unlink()
    refused(folder, "neither")
