# SPDX-License-Identifier: MIT
"""GGUF files written for tests: metadata, tensors in every type that is read, and models of transformers."""

import struct

import gguf_blocks
import numpy as np

F32, F16, BF16 = 0, 1, 30
Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 = 2, 3, 6, 7, 8
Q2_K, Q3_K, Q4_K, Q5_K, Q6_K = range(10, 15)
IQ4_NL, IQ4_XS, MXFP4 = 20, 23, 39
U32, F32_VALUE, BOOL, TEXT, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value(x):
    """A value with its kind."""
    if isinstance(x, bool):
        return struct.pack("<I?", BOOL, x)
    if isinstance(x, int):
        return struct.pack("<II", U32, x)
    if isinstance(x, float):
        return struct.pack("<If", F32_VALUE, x)
    if isinstance(x, str):
        return struct.pack("<I", TEXT) + text(x)
    x = list(x)
    if isinstance(x[0], str):
        return struct.pack("<IIQ", ARRAY, TEXT, len(x)) + b"".join(map(text, x))
    code, kind = ("f", F32_VALUE) if isinstance(x[0], float) else ("i", I32)
    return struct.pack("<IIQ", ARRAY, kind, len(x)) + struct.pack(f"<{len(x)}{code}", *x)


def pack(x, kind):
    """The bytes of an array in a type, and the numbers that they stand for."""
    x = np.asarray(x, np.float32)
    if kind in gguf_blocks.PACKERS:
        data, numbers = gguf_blocks.PACKERS[kind](x)
        return np.ascontiguousarray(data, np.uint8).tobytes(), np.asarray(numbers, np.float32).reshape(x.shape)
    if kind == BF16:
        bits = (x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1)) >> 16
        return bits.astype(np.uint16).tobytes(), (bits << 16).astype(np.uint32).view(np.float32)
    y = x.astype(np.float16 if kind == F16 else np.float32)
    return y.tobytes(), y.astype(np.float32)


def write(path, values, tensors, alignment=32):
    """tensors: name -> (array, type)."""
    entries = [(name, x.shape, kind, pack(x, kind)[0]) for name, (x, kind) in tensors.items()]
    return write_packed(path, values, entries, alignment)


def write_packed(path, values, entries, alignment=32):
    """entries: name, shape, type and bytes of each tensor."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(values))
    head += b"".join(text(key) + value(x) for key, x in values.items())
    begin = 0
    for name, shape, kind, data in entries:
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", kind, begin)
        begin += len(data) + -len(data) % alignment
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % alignment))
        for *_, data in entries:
            file.write(data + b"\0" * (-len(data) % alignment))
    return path


LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
LAYER_OF_GEMMA = LAYER | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
SHARED = {f"mlp.shared_expert.{own}_proj": f"ffn_{own}_shexp" for own in ("gate", "up", "down")}
FUSED = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
LAYERS = {
    "gemma2": LAYER_OF_GEMMA,
    "gemma3": LAYER_OF_GEMMA,
    "olmo2": LAYER_OF_GEMMA,
    "exaone4": LAYER_OF_GEMMA,
    "seed_oss": LAYER | {"post_attention_layernorm": "post_attention_norm"},
    "phi3": LAYER | FUSED,
    "gpt-oss": LAYER | {"post_attention_layernorm": "post_attention_norm"},
    "qwen2moe": LAYER | SHARED | {"mlp.shared_expert_gate": "ffn_gate_inp_shexp"},
    "gpt2": {
        "ln_1": "attn_norm",
        "ln_2": "ffn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    },
    "gptneox": LAYER
    | {
        "attention.query_key_value": "attn_qkv",
        "attention.dense": "attn_output",
        "mlp.dense_h_to_4h": "ffn_up",
        "mlp.dense_4h_to_h": "ffn_down",
    },
    "phi2": LAYER | {"self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"},
    "starcoder2": LAYER | {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
    "glm4": LAYER | FUSED | {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"},
}
# Pairs that rotate together lie side by side in files of these; in checkpoints they are apart.
REORDERED = ("llama", "granite", "smollm3")
TOP = {
    "model.embed_tokens": "token_embd",
    "gpt_neox.embed_in": "token_embd",
    "model.norm": "output_norm",
    "model.final_layernorm": "output_norm",
    "gpt_neox.final_layer_norm": "output_norm",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
    "embed_out": "output",
}


def gguf_name(name, architecture):
    stem, last = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{last}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{LAYERS.get(architecture, LAYER)[rest]}.{last}"


EXPERTS = {"gate.weight": "ffn_gate_inp", "experts.down_proj": "ffn_down_exps"}


def expert_tensors(name, x):
    """What files have of a mixture's parameters, which hold gates and the rest of an expert in one."""
    layer, own = name.split(".")[2], name.split("mlp.")[1]
    if own == "experts.gate_up_proj":
        half = x.shape[1] // 2
        return {f"blk.{layer}.ffn_gate_exps.weight": x[:, :half], f"blk.{layer}.ffn_up_exps.weight": x[:, half:]}
    return {f"blk.{layer}.{EXPERTS[own]}.weight": x}


def oss_tensors(name, parameter, kind):
    """What files have of a parameter of GPT-OSS that others lack: columns of gates and of the rest take turns."""
    import torch

    layer, own = name.split(".")[2], name.split(".", 3)[3]
    x, blk = parameter.detach().numpy(), f"blk.{layer}."
    if own == "self_attn.sinks":
        return {blk + "attn_sinks.weight": (x, F32)}
    if "router" in own:
        return {f"{blk}ffn_gate_inp.{own.rsplit('.', 1)[1]}": (x, F32)}
    last = "bias" if own.endswith("bias") else "weight"
    if last == "weight":
        x = np.ascontiguousarray(x.swapaxes(1, 2))
        parameter.data = torch.tensor(pack(x, kind)[1].swapaxes(1, 2).copy())
    kind = kind if last == "weight" else F32
    if "down_proj" in own:
        return {f"{blk}ffn_down_exps.{last}": (x, kind)}
    return {f"{blk}ffn_gate_exps.{last}": (x[:, ::2], kind), f"{blk}ffn_up_exps.{last}": (x[:, 1::2], kind)}


def neighbours(x, heads):
    """Rows of queries or keys as llama's files order them: pairs that are rotated together side by side."""
    rest = x.shape[1:]
    return x.reshape(heads, 2, -1, *rest).swapaxes(1, 2).reshape(x.shape)


def scaling(rope, config, a):
    """What files say of positions that are scaled; tables of factors are tensors."""
    kind, own = rope.get("rope_type"), {}
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if rope.get("partial_rotary_factor", 1) != 1:
        own[a + "rope.dimension_count"] = int(width * rope["partial_rotary_factor"])
    if kind in ("yarn", "longrope"):
        own[a + "rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if kind == "yarn":
        own |= {a + "rope.scaling.type": kind, a + "rope.scaling.factor": rope["factor"]}
    return own


def rotation_of(config):
    """Of layers that see everything; empty where nothing rotates."""
    found = getattr(config, "rope_parameters", {})
    return found.get("full_attention", found)


def norm_eps(config, a):
    for own in ("norm_epsilon", "layer_norm_eps", "layer_norm_epsilon"):
        if hasattr(config, own):
            return {a + "attention.layer_norm_epsilon": getattr(config, own)}
    return {a + "attention.layer_norm_rms_epsilon": config.rms_norm_eps}


def model_values(config, architecture):
    a = architecture + "."
    rope = rotation_of(config)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
    own = {a + "expert_count": experts, a + "expert_used_count": config.num_experts_per_tok} if experts else {}
    if architecture == "gpt-oss":
        own[a + "expert_feed_forward_length"] = config.intermediate_size
    if architecture in ("qwen2moe", "qwen3moe"):
        own[a + "expert_feed_forward_length"] = config.moe_intermediate_size
    if architecture == "qwen2moe":
        own[a + "expert_shared_feed_forward_length"] = config.shared_expert_intermediate_size
    if getattr(config, "sliding_window", None) and architecture != "llama" and not architecture.startswith("qwen"):
        own[a + "attention.sliding_window"] = config.sliding_window
    if architecture == "gemma2":
        own[a + "attn_logit_softcapping"] = config.attn_logit_softcapping
        own[a + "final_logit_softcapping"] = config.final_logit_softcapping
    if hasattr(config, "use_parallel_residual"):
        own[a + "use_parallel_residual"] = config.use_parallel_residual
    if architecture in ("command-r", "cohere2"):
        own[a + "logit_scale"] = config.logit_scale
    if architecture == "granite":
        own[a + "embedding_scale"] = config.embedding_multiplier
        own[a + "residual_scale"] = config.residual_multiplier
        own[a + "attention.scale"] = config.attention_multiplier
        own[a + "logit_scale"] = config.logits_scaling
    return (
        own
        | scaling(rope, config, a)
        | {
            "general.architecture": architecture,
            "general.name": "tiny",
            a + "block_count": config.num_hidden_layers,
            a + "embedding_length": config.hidden_size,
            a + "feed_forward_length": config.intermediate_size,
            a + "context_length": config.max_position_embeddings,
            a + "attention.head_count": config.num_attention_heads,
            a + "attention.head_count_kv": getattr(config, "num_key_value_heads", config.num_attention_heads),
            a + "attention.key_length": width,
            a + "attention.value_length": width,
            **norm_eps(config, a),
            **({a + "rope.freq_base": float(rope["rope_theta"])} if rope else {}),
        }
    )


def character_vocabulary(size):
    """A vocabulary of bytes without merges, filled up to a size; its last token ends texts."""
    signs = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else None for b in range(256)]
    others = iter(range(256, 512))
    tokens = [sign or chr(next(others)) for sign in signs]
    tokens += [f"<{i}>" for i in range(256, size)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3] * (size - 256),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": size - 1,
    }


def write_model(path, model, architecture, kind=F32, extra=None):
    """A model of transformers; its weights become what the file holds of them."""
    import torch

    config, tensors = model.config, {}
    for name, parameter in model.named_parameters():
        x = parameter.detach().numpy().squeeze()  # what scores one thing is a vector
        own = kind if x.ndim > 1 else F32
        if architecture == "gpt-oss" and (".mlp." in name or "sinks" in name):
            tensors |= oss_tensors(name, parameter, kind)
            continue
        if ".mlp.experts." in name or ".mlp.gate.weight" in name:
            own = F32 if name.endswith("gate.weight") else kind
            parameter.data = torch.tensor(np.array(pack(x, own)[1]))
            tensors |= {key: (value, own) for key, value in expert_tensors(name, x).items()}
            continue
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            x = x + 1
        heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}.get(name.split("_proj")[0][-1])
        if architecture in REORDERED and heads and "self_attn" in name and "_proj" in name:
            x = neighbours(x, heads)
        if architecture == "gpt2" and x.ndim == 2 and ".h." in name:
            x = x.T  # checkpoints have columns in the place of rows
        if "query_key_value" in name:  # head by head in checkpoints
            x = x.reshape(config.num_attention_heads, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
        numbers = pack(x, own)[1]
        if own != F32:
            back = numbers
            if architecture in REORDERED and heads and "self_attn" in name and "_proj" in name:
                back = numbers.reshape(heads, -1, 2, *numbers.shape[1:]).swapaxes(1, 2).reshape(numbers.shape)
            parameter.data = torch.tensor(np.array(back))
        tensors[gguf_name(name, architecture)] = (x, own)
    for length in ("long", "short"):
        if factors := rotation_of(config).get(length + "_factor"):
            tensors[f"rope_factors_{length}.weight"] = (np.array(factors, np.float32), F32)
    values = {**model_values(config, architecture), **character_vocabulary(config.vocab_size), **(extra or {})}
    return write(path, values, tensors)
