# SPDX-License-Identifier: MIT
"""Folders of transformers written for tests: checkpoints, vocabularies, safetensors by hand."""

import json
import struct

import gguf_blocks
import numpy as np
import tokenizers

TYPES = {"float32": "F32", "float16": "F16", "uint8": "U8", "bool": "BOOL"}


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


def mxfp4(x):
    """Matrices [n, k] as 16 bytes for each group of 32 numbers, two that follow each other in a byte, and exponents."""
    data, _ = gguf_blocks.pack_mxfp4(x)
    data = data.reshape(*x.shape[:-1], -1, 17)
    low, high = data[..., 1:] & 15, data[..., 1:] >> 4
    numbers = np.concatenate([low, high], -1)
    return np.ascontiguousarray(numbers[..., ::2] | numbers[..., 1::2] << 4), np.ascontiguousarray(data[..., 0])


def save_mxfp4(folder, model):
    """GPT-OSS as it is published; gives the tensors. The model gets the numbers that transformers reads out of them."""
    import torch
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    stored = {}
    for name, parameter in model.named_parameters():
        if not name.endswith("_proj"):
            stored[name] = parameter.detach().numpy()
            continue
        blocks, scales = mxfp4(parameter.detach().numpy().swapaxes(1, 2))
        stored |= {name + "_blocks": blocks, name + "_scales": scales}
        parameter.data = convert_moe_packed_tensors(torch.tensor(blocks), torch.tensor(scales), dtype=torch.float32)
    save(folder, model)
    change(folder / "config.json", quantization_config={"quant_method": "mxfp4"})
    (folder / "model.safetensors").write_bytes(packed(stored))
    return stored


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
