# SPDX-License-Identifier: MIT
"""Folders of transformers written for tests: checkpoints, vocabularies, safetensors by hand."""

import json
import struct

import tokenizers

TYPES = {"float32": "F32", "float16": "F16"}


def characters(size, end="<end>"):
    """A vocabulary of bytes without merges, filled up to a size; its last token ends texts."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = alphabet + [f"<{i}>" for i in range(len(alphabet), size - 1)]
    result = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[]))
    result.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = tokenizers.decoders.ByteLevel()
    result.add_special_tokens([*tokens[256:], end])
    return result


def save(folder, model, tokenizer=None, **options):
    """What save_pretrained writes, with a vocabulary."""
    model.save_pretrained(folder, **options)
    (tokenizer or characters(model.config.vocab_size)).save(str(folder / "tokenizer.json"))
    return folder


def change(path, **values):
    """Replaces members of a JSON file; None takes them out."""
    data = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not ...}))


def safetensors(header, data=b"", length=None):
    """A file with this header: text, or what becomes JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def packed(tensors):
    """A file with these arrays."""
    header, data = {}, b""
    for name, x in tensors.items():
        begin, data = len(data), data + x.tobytes()
        header[name] = {"dtype": TYPES[str(x.dtype)], "shape": list(x.shape), "data_offsets": [begin, len(data)]}
    return safetensors(header, data)
