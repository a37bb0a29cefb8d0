# SPDX-License-Identifier: MIT
"""dlprim.Generator against transformers: scores and greedy tokens of tiny random models, tokenizers, sampling."""

import re

import checkpoints
import gguf_files
import numpy as np
import pytest
from building import dlprim as program

import dlprim

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ARCHITECTURES = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma": "Gemma",
    "gemma2": "Gemma2",
    "gemma3": "Gemma3",
    "phi3": "Phi3",
    "granite": "Granite",
    "olmo2": "Olmo2",
    "smollm3": "SmolLM3",
    "glm4": "Glm4",
    "olmo3": "Olmo3",
    "exaone4": "Exaone4",
    "seed_oss": "SeedOss",
    "ernie4_5": "Ernie4_5",
    "starcoder2": "Starcoder2",
    "gpt2": "GPT2",
    "stablelm": "StableLm",
    "gptneox": "GPTNeoX",
    "phi2": "Phi",
    "command-r": "Cohere",
    "cohere2": "Cohere2",
}
YARN_OF_OLMO3 = {"rope_type": "yarn", "rope_theta": 5e3, "factor": 4.0, "original_max_position_embeddings": 16}
ROTATIONS_OF_GEMMA3 = {
    "full_attention": {"rope_type": "default", "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
# Windows shorter than the texts; caps that scores reach; factors and layers that matter.
OPTIONS = {
    "gemma2": {
        "num_hidden_layers": 3,
        "sliding_window": 8,
        "query_pre_attn_scalar": 16,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3": {
        "num_hidden_layers": 6,
        "sliding_window": 8,
        "query_pre_attn_scalar": 16,
        "rope_parameters": ROTATIONS_OF_GEMMA3,
    },
    "phi3": {"sliding_window": 9, "pad_token_id": None},
    "granite": {
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.3,
        "attention_multiplier": 0.1,
        "logits_scaling": 4.0,
    },
    "olmo2": {"pad_token_id": None},
    "olmo3": {
        "num_hidden_layers": 4,
        "sliding_window": 8,
        "pad_token_id": None,
        "rope_parameters": {
            "full_attention": YARN_OF_OLMO3,
            "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
        },
    },
    "exaone4": {"num_hidden_layers": 4, "sliding_window": 8},
    "seed_oss": {"pad_token_id": None},
    "ernie4_5": {"pad_token_id": None},
    "starcoder2": {"sliding_window": 8},
    "gpt2": {"n_inner": 96, "num_key_value_heads": 4},
    "stablelm": {"use_qkv_bias": True},
    "gptneox": {"num_key_value_heads": 4},
    "command-r": {"logit_scale": 0.5, "pad_token_id": None},
    "cohere2": {"num_hidden_layers": 4, "sliding_window": 8, "logit_scale": 0.5, "pad_token_id": None},
    "smollm3": {"num_hidden_layers": 4, "pad_token_id": None},
    "glm4": {
        "pad_token_id": None,
        "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
}
TIED = ("qwen2", "smollm3", "ernie4_5", "starcoder2", "gpt2", "command-r", "cohere2")
TOKENS = np.random.default_rng(3).integers(0, 256, 19).tolist()


def tiny(architecture, width=64, inner=96, vocab=260, **more):
    name = ARCHITECTURES.get(architecture, architecture)
    more = {**OPTIONS.get(architecture, {}), **more}
    config = getattr(transformers, name + ("TextConfig" if architecture == "gemma3" else "Config"))(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=more.pop("num_hidden_layers", 2),
        num_attention_heads=4,
        num_key_value_heads=more.pop("num_key_value_heads", 2),
        head_dim=more.pop("head_dim", width // 4),
        max_position_embeddings=more.pop("max_position_embeddings", 64),
        tie_word_embeddings=architecture.startswith("gemma") or architecture in TIED,
        bos_token_id=None,
        eos_token_id=vocab - 1,
        **more,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases that matter
            parameter.add_(0.1 * torch.randn_like(parameter) if parameter.ndim == 1 else 0)
            parameter.mul_(1 if parameter.ndim == 1 else 5)
    return model


def expected_scores(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def check(path, model, tolerance=2e-4):
    generator = dlprim.Generator(path)
    want, got = expected_scores(model, TOKENS), generator.scores(TOKENS)
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()
    with torch.no_grad():
        text = model.generate(torch.tensor([TOKENS]), max_new_tokens=12, do_sample=False, eos_token_id=None)
    assert list(generator.tokens(TOKENS, tokens=12, stop=False)) == text[0, len(TOKENS) :].tolist()
    return generator


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "mistral"])
def test_architectures(architecture, tmp_path):
    model = tiny(architecture)
    name = {"olmo3": "olmo2"}.get(architecture, architecture)
    generator = check(gguf_files.write_model(tmp_path / "tiny.gguf", model, name), model)
    assert generator.summary["architecture"] == name and generator.summary["layers"] == model.config.num_hidden_layers


@pytest.mark.parametrize("architecture, parallel", [("stablelm", True), ("gptneox", False)])
def test_what_products_get(architecture, parallel, tmp_path):
    """What attention gets, too, or what it gives; without its own norm, or with one."""
    model = tiny(architecture, use_parallel_residual=parallel)
    check(gguf_files.write_model(tmp_path / "tiny.gguf", model, architecture), model)
    check(checkpoints.save(tmp_path / "folder", model), model)


KINDS = "F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4"


@pytest.mark.parametrize("kind", KINDS.split())
def test_element_types(kind, tmp_path):
    """The model has the very numbers of the file: only the order of sums differs."""
    wide = kind.endswith("_K") or kind == "IQ4_XS"
    model = tiny("llama", width=256 if wide else 64, inner=256 if wide else 96, head_dim=64 if wide else 16)
    check(gguf_files.write_model(tmp_path / "tiny.gguf", model, "llama", getattr(gguf_files, kind)), model)


def tiny_mixture(architecture, width=64, norm_topk_prob=True, **more):
    own = {"moe_intermediate_size": width, "num_experts": 6, "norm_topk_prob": norm_topk_prob, **more}
    name, more = {
        "qwen2moe": ("Qwen2Moe", {**own, "shared_expert_intermediate_size": 96}),
        "qwen3moe": ("Qwen3Moe", own),
        "olmoe": ("Olmoe", {"num_experts": 6, "norm_topk_prob": norm_topk_prob, "pad_token_id": None}),
        "llama": ("Mixtral", {"num_local_experts": 6}),
    }[architecture]
    return tiny(name, width=width, inner=width, head_dim=width // 4, num_experts_per_tok=3, **more)


@pytest.mark.parametrize("architecture", ["qwen2moe", "qwen3moe", "olmoe", "llama"])
@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0", "Q5_1"])
def test_mixtures_of_experts(architecture, kind, tmp_path):
    """The prompt goes expert by expert, further tokens with copies of theirs."""
    model = tiny_mixture(architecture, norm_topk_prob=architecture not in ("olmoe", "qwen2moe"))
    check(gguf_files.write_model(tmp_path / "tiny.gguf", model, architecture, getattr(gguf_files, kind)), model)


def tiny_gpt_oss(layers=3):
    rope = {**YARN, "truncate": False}
    experts = {"num_local_experts": 6, "num_experts_per_tok": 3}
    model = tiny("GptOss", rope_parameters=rope, sliding_window=8, num_hidden_layers=layers, **experts)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "experts" in name:  # gates that are clamped, biases that matter
                parameter.normal_(0, 1 if "down" in name else 2)
            if "sinks" in name:
                parameter.normal_(0, 2)
    return model


@pytest.mark.parametrize("kind", ["F32", "MXFP4"])
def test_gpt_oss(kind, tmp_path):
    model = tiny_gpt_oss()
    check(gguf_files.write_model(tmp_path / "tiny.gguf", model, "gpt-oss", getattr(gguf_files, kind)), model)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    model = tiny("llama")
    return model, gguf_files.write_model(tmp_path_factory.mktemp("llama") / "tiny.gguf", model, "llama")


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gemma3", "starcoder2", "gpt2", "cohere2"])
def test_a_prompt_in_parts(architecture, tmp_path):
    """Longer than what goes through at once: later parts see what is in the cache."""
    model = tiny(architecture, max_position_embeddings=600)
    path = gguf_files.write_model(tmp_path / "tiny.gguf", model, architecture)
    tokens = np.random.default_rng(5).integers(0, 256, 560).tolist()
    want = expected_scores(model, tokens)[-1].argmax()
    assert next(dlprim.Generator(path).tokens(tokens, tokens=1, stop=False)) == want


def test_frequencies(tmp_path):
    """Positions scaled and divided as files may say."""
    model = tiny("llama", rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})
    extra = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    check(gguf_files.write_model(tmp_path / "tiny.gguf", model, "llama", extra=extra), model)


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-2), ("bfloat16", 8e-2)])
@pytest.mark.parametrize("architecture", ["gemma2", "phi3", "granite", "olmo2", "glm4", "starcoder2", "phi2"])
def test_half_precision(architecture, dtype, tolerance, tmp_path):
    model = tiny(architecture)
    path = gguf_files.write_model(tmp_path / "tiny.gguf", model, architecture)
    check_halves(dlprim.Generator(path, dtype=dtype), model, tolerance)


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-2), ("bfloat16", 8e-2)])
def test_gpt_oss_in_half_precision(dtype, tolerance, tmp_path):
    model = tiny_gpt_oss(layers=1)  # which experts a token takes may hang on the last bit
    for layer in model.model.layers:
        layer.mlp.router.weight.data *= 8
    path = gguf_files.write_model(tmp_path / "tiny.gguf", model, "gpt-oss", gguf_files.MXFP4)
    check_halves(dlprim.Generator(path, dtype=dtype), model, tolerance)


def check_halves(generator, model, tolerance):
    """What is rounded to 16 bits stays near; single tokens see what the prompt left."""
    want, got = expected_scores(model, TOKENS), generator.scores(TOKENS)
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()
    tokens = list(generator.tokens(TOKENS, tokens=4, stop=False))
    scores = expected_scores(model, TOKENS + tokens)[len(TOKENS) - 1 :]
    for token, row in zip(tokens, scores):
        assert row[token] >= row.max() - 2 * tolerance * np.abs(want).max()


YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000.0, "original_max_position_embeddings": 16}


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_yarn(architecture, tmp_path):
    model = tiny(architecture, rope_parameters=dict(YARN))
    check(gguf_files.write_model(tmp_path / "tiny.gguf", model, architecture), model)


def tiny_long(trained, **more):
    """Factors of frequencies for texts of up to `trained` tokens, and others for longer ones."""
    factors = {"short_factor": [1.0, 1.2, 1.5, 2.0, 2.0, 3.0], "long_factor": [1.5, 2.0, 4.0, 5.0, 7.0, 9.0]}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": trained, **factors}
    rope["partial_rotary_factor"] = 0.75
    return tiny("phi3", rope_parameters=rope, original_max_position_embeddings=trained, sliding_window=None, **more)


@pytest.mark.parametrize("trained", [12, 24, 40])
def test_factors_of_long_texts(trained, tmp_path):
    """The prompt of 19 tokens is long; it becomes so, and all is computed anew; it stays short."""
    model = tiny_long(trained)
    path = gguf_files.write_model(tmp_path / "tiny.gguf", model, "phi3")
    generator = check(path, model)
    other = list(dlprim.Generator(path).tokens(TOKENS[:9], tokens=4, stop=False))
    assert list(generator.tokens(TOKENS[:9], tokens=4, stop=False)) == other


def test_sampling(llama):
    generator = dlprim.Generator(llama[1])
    options = {"tokens": 20, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "stop": False}
    first = list(generator.tokens(TOKENS, seed=1, **options))
    assert first == list(generator.tokens(TOKENS, seed=1, **options))
    assert first != list(generator.tokens(TOKENS, seed=2, **options))
    greedy = list(generator.tokens(TOKENS, tokens=20, stop=False))
    assert list(generator.tokens(TOKENS, **{**options, "top_k": 1})) == greedy
    assert list(generator.tokens(TOKENS, **{**options, "top_p": 1e-6})) == greedy
    with pytest.raises(ValueError, match="top_p"):
        next(generator.tokens(TOKENS, top_p=0.0))


def test_frequencies_of_choices(llama):
    """Of many draws with top_k 3, each candidate comes as often as its probability says."""
    generator = dlprim.Generator(llama[1])
    scores = generator.scores(TOKENS)[-1].astype(np.float64)
    best = np.argsort(-scores)[:3]
    p = np.exp((scores[best] - scores[best[0]]) / 2)
    draws = [next(generator.tokens(TOKENS, tokens=1, temperature=2.0, top_k=3, top_p=1.0, seed=s)) for s in range(200)]
    counts = [draws.count(token) / 200 for token in best]
    np.testing.assert_allclose(counts, p / p.sum(), atol=0.12)


def test_the_end_of_a_text(llama):
    model, path = llama
    generator = dlprim.Generator(path, context=24)
    assert len(list(generator.tokens(TOKENS, tokens=100, stop=False))) == 24 - 19 + 1  # the context is full
    assert list(generator.tokens(TOKENS, tokens=0)) == []
    with pytest.raises(ValueError, match="context"):
        next(generator.tokens(TOKENS * 2))
    with pytest.raises(ValueError, match="vocabulary"):
        next(generator.tokens([1000]))


def test_text_and_program(llama):
    _, path = llama
    generator = dlprim.Generator(path)
    text = generator.generate("Hello", tokens=8)
    assert "".join(generator.stream("Hello", tokens=8)) == text and generator.times["prompt_tokens"] == 5
    assert generator.decode(generator.encode("Grüße 12 <258>!")) == "Grüße 12 !"
    output = program("generate", path, "--prompt", "Hello", "--tokens", 8)
    assert "prompt: 5 tokens" in output and "tokens/s" in output
    assert program("generate", path, "-p", "Hello", "-n", 3, "-t", 1, "-k", 5, "-s", 7, "-q").endswith("\n")
    profile = program("generate", path, "-p", "Hello", "-n", 3, "-a", "--profile")
    for phase in ("prompt: kernel", "text: kernel"):
        table = profile[profile.index(phase) :]
        assert re.search(r"^\w*norm\w* +[1-9]\d* ", table, re.M), profile
    (path.parent / "no.gguf").write_bytes(b"no model")
    assert "no GGUF file" in program("generate", path.parent / "no.gguf", "-p", "x", code=1)
