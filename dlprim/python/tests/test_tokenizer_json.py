# SPDX-License-Identifier: MIT
"""tokenizer.json: texts become the tokens that the package tokenizers gives; what is not supported is refused."""

import json

import checkpoints
import pytest
from test_generator import tiny
from test_tokenizer import CORPUS, SPLITS, TEXTS

import dlprim

tokenizers = pytest.importorskip("tokenizers")
models, normalizers, pre = tokenizers.models, tokenizers.normalizers, tokenizers.pre_tokenizers
CONTROL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


@pytest.fixture(scope="module")
def model():
    return tiny("llama", vocab=420)


def generator_of(folder, model, tokenizer):
    return dlprim.Generator(checkpoints.save(folder, model, tokenizer), context=8)


def trained(tokenizer, special, alphabet=()):
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=416, initial_alphabet=list(alphabet), special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(["<tool>", "lazy dog"])
    return tokenizer


def check(generator, reference, texts=TEXTS):
    for text in [*texts, "a lazy dog<tool> end"]:
        assert generator.encode(text) == reference.encode(text).ids, text


WORDS = {
    "plain": [pre.ByteLevel(add_prefix_space=False)],
    "digits": [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)],
    "several": [
        pre.Split(tokenizers.Regex(r"\p{N}{1,3}"), "isolated"),
        pre.Split(tokenizers.Regex(r"[一-龥ぁ-ゟ]+"), "isolated"),
        pre.Split(tokenizers.Regex(SPLITS["gpt-2"]), "isolated"),
        pre.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    **{
        name: [
            pre.Split(tokenizers.Regex(expression), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
        for name, expression in SPLITS.items()
    },
}


@pytest.mark.parametrize("words", WORDS)
def test_bytes(words, model, tmp_path):
    reference = tokenizers.Tokenizer(models.BPE(ignore_merges=words == "llama-bpe"))
    reference.pre_tokenizer = pre.Sequence(WORDS[words])
    trained(reference, ["<|end|>", "<|user|>"], pre.ByteLevel.alphabet())
    generator = generator_of(tmp_path, model, reference)
    check(generator, reference)
    for text in CORPUS[:3]:
        assert generator.decode(generator.encode(text)) == text


def test_the_token_in_front(model, tmp_path):
    reference = tokenizers.Tokenizer(models.BPE())
    reference.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    trained(reference, ["<|begin|>"], pre.ByteLevel.alphabet())
    reference.post_processor = tokenizers.processors.Sequence(
        [
            tokenizers.processors.ByteLevel(trim_offsets=False),
            tokenizers.processors.TemplateProcessing(
                single="<|begin|> $A", pair="<|begin|> $A $B", special_tokens=[("<|begin|>", 0)]
            ),
        ]
    )
    generator = generator_of(tmp_path, model, reference)
    check(generator, reference)
    assert generator.encode("dog")[0] == 0 and generator.encode("dog", begin=False)[0] != 0


def test_space_behind_control_tokens(model, tmp_path):
    """As the files of Phi-3 have them."""
    reference = tokenizers.Tokenizer(models.BPE())
    reference.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    trained(reference, ["<|user|>", "<|end|>"], pre.ByteLevel.alphabet())
    data = json.loads(reference.to_str())
    data["added_tokens"][0]["rstrip"] = True
    reference = tokenizers.Tokenizer.from_str(json.dumps(data))
    space = "".join(map(chr, [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029]))
    texts = [
        f"a <|user|>{x}b<|end|>{x}c" for x in ["", "\n", " \n\t ", space + "\u202f\u205f\u3000", "\u200b ", "\u180e"]
    ]
    check(generator_of(tmp_path, model, reference), reference, [*texts, "<|user|>  <|user|>\n", "<|user|>\u2003"])


REPLACE = normalizers.Replace(" ", "▁")
SPACES = {
    "prepend": (normalizers.Sequence([normalizers.Prepend("▁"), REPLACE]), None),
    "gemma": (REPLACE, pre.Split(" ", "merged_with_previous")),
    "first": (None, pre.Metaspace(prepend_scheme="first", split=False)),
    "always": (None, pre.Metaspace(prepend_scheme="always", split=True)),
    "never": (None, pre.Metaspace(prepend_scheme="never", split=False)),
}


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("spaces", SPACES)
def test_characters(spaces, fallback, model, tmp_path):
    reference = tokenizers.Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>", fuse_unk=True))
    normalizer, pre_tokenizer = SPACES[spaces]
    if normalizer:
        reference.normalizer = normalizer
    if pre_tokenizer:
        reference.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=416, special_tokens=CONTROL + BYTES, show_progress=False)
    reference.train_from_iterator(CORPUS[:1], trainer)
    reference = without_added_bytes(reference)
    generator = generator_of(tmp_path, model, reference)
    check(generator, reference, [*TEXTS, "the</s> dog<s>the", " a"])
    if fallback:
        for text in TEXTS[:5]:  # Metaspace puts no space in front of one, and takes one off all the same
            want = text[1:] if spaces in ("first", "always") and text.startswith(" ") else text
            assert generator.decode(generator.encode(text)) == want


def without_added_bytes(tokenizer):
    """Bytes are pieces as others, not special: so they are in the files of models."""
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] in CONTROL]
    return tokenizers.Tokenizer.from_str(json.dumps(data))


REFUSED = {
    "model 'WordPiece'": lambda t: t["model"].update(type="WordPiece"),
    "'end_of_word_suffix'": lambda t: t["model"].update(end_of_word_suffix="</w>"),
    "no merges": lambda t: t["model"].update(merges=None),
    "is no pair": lambda t: t["model"].update(merges=[["a", "b", "c"]]),
    "no vocabulary": lambda t: t["model"].update(vocab={}),
    "number below 260 for 'far'": lambda t: t["model"]["vocab"].update(far=2**62),
    "number below 260 for 'half'": lambda t: t["model"]["vocab"].update(half=0.5),
    "have the number 3": lambda t: t["model"]["vocab"].update(other=3),
    "no piece": lambda t: t["model"].update(unk_token="<nothing>"),
    "'lstrip' is not": lambda t: t["added_tokens"][0].update(lstrip=True),
    "normalizer 'Lowercase'": lambda t: t.update(normalizer={"type": "Lowercase"}),
    "pre-tokenizer 'Whitespace'": lambda t: t.update(pre_tokenizer={"type": "Whitespace"}),
    "either ByteLevel": lambda t: t.update(pre_tokenizer=None),
    "lists within lists": lambda t: split(t, "[a-z&&[^b]]"),
    "has '.h'": lambda t: split(t, r"\h+"),
    "a group '..P<'": lambda t: split(t, r"(?P<a>b)"),
    "refused by PCRE2": lambda t: split(t, "(a"),
    "bytes; expected 1 to 4096": lambda t: split(t, "a" * 5000),
    "expected at most 16": lambda t: split(t, "a", 17),
    "tokens behind the text": lambda t: t.update(
        post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}}]}
    ),
}


def split(data, expression, times=1):
    words = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [words] * times + [data["pre_tokenizer"]]}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message, tmp_path):
    checkpoints.save(tmp_path, tiny("llama"))
    path = tmp_path / "tokenizer.json"
    data = json.loads(path.read_text())
    REFUSED[message](data)
    path.write_text(json.dumps(data))
    with pytest.raises((dlprim.ValidationError, dlprim.NotSupportedError), match=message):
        dlprim.Generator(tmp_path)


def test_expressions_that_take_too_long(tmp_path):
    """Matching ends with an error instead of never."""
    checkpoints.save(tmp_path, tiny("llama"))
    path = tmp_path / "tokenizer.json"
    data = json.loads(path.read_text())
    split(data, "(a+a+)+[bc]")
    path.write_text(json.dumps(data))
    with pytest.raises(dlprim.ValidationError, match="cannot be split"):
        dlprim.Generator(tmp_path).encode("a" * 60)
