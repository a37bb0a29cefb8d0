# SPDX-License-Identifier: MIT
"""Checkpoints that transformers saves give its scores and tokens."""

import checkpoints
import numpy as np
import pytest
from building import dlprim as program
from test_generator import (
    ARCHITECTURES,
    TOKENS,
    YARN,
    YARN_OF_OLMO3,
    check,
    tiny,
    tiny_gpt_oss,
    tiny_long,
    tiny_mixture,
)

import dlprim

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_architectures(architecture, tmp_path):
    model = tiny(architecture)
    generator = check(checkpoints.save(tmp_path, model), model)
    assert generator.summary["architecture"] == model.config.model_type and generator.summary["name"] == tmp_path.name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_element_types(dtype, tmp_path):
    model = tiny("llama", attention_bias=True).to(dtype)
    checkpoints.save(tmp_path, model)
    check(tmp_path, transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval())


def test_several_files(tmp_path):
    model = tiny("qwen3")
    checkpoints.save(tmp_path, model, max_shard_size="50KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2 and not (tmp_path / "model.safetensors").exists()
    check(tmp_path, model)


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


WEIGHED = {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5, "beta_fast": 8.0, "truncate": False}


@pytest.mark.parametrize("rope", [LLAMA3, {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}, YARN, WEIGHED])
@pytest.mark.parametrize("old", [False, True])
def test_frequencies(rope, old, tmp_path):
    model = tiny("llama", rope_parameters=dict(rope))
    checkpoints.save(tmp_path, model)
    if old:  # as version 4 wrote it
        scaling = {**rope, "type": rope["rope_type"]}
        theta = scaling.pop("rope_theta")
        checkpoints.change(tmp_path / "config.json", rope_parameters=..., rope_scaling=scaling, rope_theta=theta)
    check(tmp_path, model)


@pytest.mark.parametrize("trained", [12, 24, 40])
def test_factors_of_long_texts(trained, tmp_path):
    model = tiny_long(trained)
    check(checkpoints.save(tmp_path, model), model)


@pytest.mark.parametrize("cap", ["attn_logit_softcapping", "final_logit_softcapping"])
def test_caps_that_are_none(cap, tmp_path):
    """null is no cap; a file that lacks the key means Gemma 2's own."""
    model = tiny("gemma2", **{cap: None})
    check(checkpoints.save(tmp_path / "none", model), model)
    model = tiny("gemma2", **{cap: 50.0 if cap.startswith("attn") else 30.0})
    checkpoints.change(checkpoints.save(tmp_path / "usual", model) / "config.json", **{cap: ...})
    check(tmp_path / "usual", model)


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_scales_of_scores(architecture, tmp_path):
    model = tiny(architecture, query_pre_attn_scalar=5)
    check(checkpoints.save(tmp_path, model), model)


def test_layers_that_do_not_rotate(tmp_path):
    model = tiny("smollm3", no_rope_layers=[0, 1, 1, 0])
    check(checkpoints.save(tmp_path, model), model)


MIXTURES = [
    ("qwen2moe", True),
    ("qwen2moe", False),
    ("qwen3moe", True),
    ("qwen3moe", False),
    ("olmoe", True),
    ("olmoe", False),
    ("llama", True),
]


@pytest.mark.parametrize("architecture, normalized", MIXTURES)
def test_mixtures_of_experts(architecture, normalized, tmp_path):
    model = tiny_mixture(architecture, norm_topk_prob=normalized)
    check(checkpoints.save(tmp_path, model), model)


@pytest.mark.parametrize("architecture", ["qwen2moe", "qwen3moe"])
@pytest.mark.parametrize("dense", [{"mlp_only_layers": [1]}, {"decoder_sparse_step": 2}])
def test_layers_without_experts(architecture, dense, tmp_path):
    model = tiny_mixture(architecture, **dense)
    check(checkpoints.save(tmp_path, model), model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gpt_oss(dtype, tmp_path):
    checkpoints.save(tmp_path, tiny_gpt_oss().to(dtype))
    check(tmp_path, transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval())


def test_gpt_oss_as_published(tmp_path):
    model = tiny_gpt_oss()
    checkpoints.save_mxfp4(tmp_path, model)
    check(tmp_path, model)


def test_mixtures_that_clip_are_refused(tmp_path):
    checkpoints.change(checkpoints.save(tmp_path, tiny_mixture("olmoe")) / "config.json", clip_qkv=8.0)
    with pytest.raises(dlprim.NotSupportedError, match="'clip_qkv' is not supported"):
        dlprim.Generator(tmp_path)


def test_olmo3_as_version_4_wrote_it(tmp_path):
    """What positions are scaled by concerns the layers that see all the text."""
    model = tiny("olmo3")
    config = checkpoints.save(tmp_path, model) / "config.json"
    yarn = {key: value for key, value in YARN_OF_OLMO3.items() if key != "rope_theta"}
    checkpoints.change(config, rope_parameters=..., layer_types=..., rope_theta=5e3, rope_scaling=yarn)
    check(tmp_path, model)


@pytest.mark.parametrize("layers", ["LLLG", 4, None])
def test_windows_of_exaone4(layers, tmp_path):
    """A pattern of letters comes beside the list of layers; without a window, as in small models, all layers rotate."""
    window = {} if layers else {"sliding_window": None, "layer_types": ["full_attention"] * 4}
    model = tiny("exaone4", **window)
    config = checkpoints.save(tmp_path, model) / "config.json"
    checkpoints.change(config, sliding_window_pattern=layers, **({"layer_types": ...} if layers == 4 else {}))
    check(tmp_path, model)


def test_gemma3_as_version_4_wrote_it(tmp_path):
    model = tiny("gemma3")
    checkpoints.save(tmp_path, model)
    rope = {"rope_parameters": ..., "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6}
    checkpoints.change(tmp_path / "config.json", layer_types=..., **rope)
    check(tmp_path, model)


def test_gpt_neox_as_it_is_published(tmp_path):
    """Other names of what rotates; masks beside the weights."""
    model = tiny("gptneox")
    checkpoints.save(tmp_path, model)
    checkpoints.change(tmp_path / "config.json", rope_parameters=..., rotary_pct=0.25, rotary_emb_base=10000)
    stored = {name: x.numpy() for name, x in model.state_dict().items()}
    stored["embed_out.weight"] = stored.pop("lm_head.weight")
    for i in range(2):
        own = f"gpt_neox.layers.{i}.attention."
        stored |= {own + "bias": np.ones((1, 1, 64, 64), bool), own + "masked_bias": np.float32(-1e9)}
        stored[own + "rotary_emb.inv_freq"] = np.ones(2, np.float32)
    (tmp_path / "model.safetensors").write_bytes(checkpoints.packed(stored))
    check(tmp_path, model)


def test_gpt2_as_it_is_published(tmp_path):
    """Without a prefix, with masks beside the weights."""
    model = tiny("gpt2", inner=256, n_inner=None)
    checkpoints.save(tmp_path, model)
    lacks = ("tie_word_embeddings", "intermediate_size", "num_key_value_heads", "head_dim", "n_inner")
    checkpoints.change(tmp_path / "config.json", **dict.fromkeys(lacks, ...))
    stored = {name.removeprefix("transformer."): x.numpy() for name, x in model.state_dict().items()}
    del stored["lm_head.weight"]
    stored |= {f"h.{i}.attn.bias": np.ones((1, 1, 64, 64), np.float32) for i in range(2)}
    (tmp_path / "model.safetensors").write_bytes(checkpoints.packed(stored))
    check(tmp_path, model)


@pytest.mark.parametrize("activation", ["gelu", "gelu_pytorch_tanh", "silu"])
def test_activations(activation, tmp_path):
    """With and without a gate."""
    for architecture in ("llama", "starcoder2"):
        model = tiny(architecture, hidden_act=activation)
        check(checkpoints.save(tmp_path / architecture, model), model)


def test_options_of_other_models(tmp_path):
    """What a model does not know changes nothing."""
    model = tiny("llama")
    checkpoints.change(checkpoints.save(tmp_path, model) / "config.json", use_parallel_residual=True, n_layer=7)
    check(tmp_path, model)


def test_biases_of_gates(tmp_path):
    model = tiny("llama", mlp_bias=True)
    check(checkpoints.save(tmp_path, model), model)


QWEN = {"use_sliding_window": True, "max_window_layers": 1}


@pytest.mark.parametrize("architecture, options", [("mistral", {}), ("qwen2", QWEN), ("qwen3", QWEN)])
@pytest.mark.parametrize("listed", [True, False])
def test_windows(architecture, options, listed, tmp_path):
    """Shorter than the text; of Qwen's layers only the second has one."""
    model = tiny(architecture, sliding_window=7, **options)
    checkpoints.save(tmp_path, model)
    if not listed:
        checkpoints.change(tmp_path / "config.json", layer_types=...)
    assert check(tmp_path, model).summary["context"] == 64


def test_the_end_of_a_text(tmp_path):
    model = tiny("llama")
    checkpoints.save(tmp_path, model)
    greedy = list(dlprim.Generator(tmp_path).tokens(TOKENS, tokens=6, stop=False))
    at = next(i for i in range(1, 6) if greedy[i] not in greedy[:i])
    checkpoints.change(tmp_path / "generation_config.json", eos_token_id=[greedy[at], 258])
    assert list(dlprim.Generator(tmp_path).tokens(TOKENS, tokens=6)) == greedy[:at]


def test_tied_embeddings_that_are_stored_too(tmp_path):
    model = tiny("qwen2")
    checkpoints.save(tmp_path, model)
    stored = {name: x.numpy() for name, x in model.state_dict().items()}
    stored["lm_head.weight"] = np.zeros_like(stored["lm_head.weight"])
    stored["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    (tmp_path / "model.safetensors").write_bytes(checkpoints.packed(stored))
    check(tmp_path, model)


def test_program(tmp_path):
    checkpoints.save(tmp_path, tiny("llama"))
    text = dlprim.Generator(tmp_path).generate("Hello", tokens=8)
    output = program("generate", tmp_path, "--prompt", "Hello", "--tokens", 8)
    assert text in output and "prompt: 5 tokens" in output
    checkpoints.change(tmp_path / "config.json", model_type="falcon")
    assert "'falcon'" in program("generate", tmp_path, "--prompt", "x", code=1)
