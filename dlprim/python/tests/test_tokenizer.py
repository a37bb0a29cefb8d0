# SPDX-License-Identifier: MIT
"""Texts become the tokens that the package tokenizers gives, for vocabularies trained here."""

import json

import gguf_files
import numpy as np
import pytest
from test_gguf import CONFIG, tensors

import dlprim

tokenizers = pytest.importorskip("tokenizers")

SPLITS = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SPLITS |= {"phi-2": SPLITS["gpt-2"], "stablelm2": SPLITS["qwen2"]}
SPLITS["dbrx"] = SPLITS["smaug-bpe"] = SPLITS["glm4"] = SPLITS["llama-bpe"]
CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind: it's 12345 degrees!",
    "Größe und Straße über naïve café; Привет, мир! 你好,世界。 こんにちは 🙂🙃",
    "def main(argument):\n    return argument * 2  # twice\n\n\n",
] * 3
TEXTS = [
    *CORPUS[:3],
    "",
    " ",
    "  two  spaces\tand\ttabs \n \n  end  ",
    "I'LL we'Ve 1234567 3.14 x²½ ٣٤",
    "the<|end|>dog <|user|>\nthe",
    "HTMLParser isn't CamelCase's McDonald'S and/or //\n",
    "zebra \u00a0 no-break \u2003 em \u200d joined é e\u0301",
]


def file_of(path, values, size):
    base = tensors()
    base["token_embd.weight"] = (np.zeros((size, 32), np.float32), gguf_files.F32)
    known = {key: value for key, value in CONFIG.items() if not key.startswith("tokenizer")}
    return dlprim.Generator(gguf_files.write(path, {**known, **values}, base))


def check(generator, reference):
    for text in TEXTS:
        want = reference.encode(text, add_special_tokens=False).ids
        assert generator.encode(text) == want, text


@pytest.mark.parametrize("way", SPLITS)
def test_bytes(way, tmp_path):
    reference = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=way == "llama-bpe"))
    pre = tokenizers.pre_tokenizers
    reference.pre_tokenizer = pre.Sequence(
        [
            pre.Split(tokenizers.Regex(SPLITS[way]), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre.ByteLevel.alphabet(),
        special_tokens=["<|end|>", "<|user|>"],
        show_progress=False,
    )
    reference.train_from_iterator(CORPUS, trainer)
    model = json.loads(reference.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": way,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": [m if isinstance(m, str) else " ".join(m) for m in model["merges"]],
        "tokenizer.ggml.eos_token_id": 0,
    }
    generator = file_of(tmp_path / "a.gguf", values, len(tokens))
    check(generator, reference)
    for text in CORPUS[:3]:
        assert generator.decode(generator.encode(text)) == text


def test_scores(tmp_path):
    """Pieces merged by scores, bytes for what is unknown."""
    reference = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    reference.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    control = ["<unk>", "<s>", "</s>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=control + [f"<0x{b:02X}>" for b in range(256)], show_progress=False
    )
    reference.train_from_iterator(CORPUS[:1], trainer)
    model = json.loads(reference.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    ranks = {"".join(m if isinstance(m, list) else m.split(" ")): i for i, m in enumerate(model["merges"])}
    values = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(ranks.get(token, 10000)) for token in tokens],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    generator = file_of(tmp_path / "a.gguf", values, len(tokens))
    for text in [t for t in TEXTS if t and "<|" not in t]:
        assert generator.encode(text, begin=False) == reference.encode(text, add_special_tokens=False).ids, text
        assert generator.decode(generator.encode(text)) == text
    assert generator.encode("the")[0] == 1
    assert generator.encode("a</s>b")[-2:] != generator.encode("a<s>b")[-2:]


def test_text_that_is_none(tmp_path):
    generator = file_of(tmp_path / "a.gguf", gguf_files.character_vocabulary(258), 258)
    assert generator.decode(generator.encode("a<257>b")) == "ab"
    with pytest.raises((TypeError, UnicodeEncodeError)):
        generator.encode("\ud800")
