# SPDX-License-Identifier: MIT
"""Small decoders of random weights as ONNX networks with a cache, in folders as exporters write them."""

import json

import checkpoints
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, KEY_HEADS, HEAD, INNER, VOCABULARY, POSITIONS = 2, 64, 4, 2, 16, 96, 259, 64


class Builder:
    """Nodes and constants of a graph under way; methods give the names of what nodes make."""

    def __init__(self, dtype, bits):
        self.random = np.random.default_rng(0)
        self.dtype, self.bits = dtype, bits
        self.nodes, self.constants = [], []

    def node(self, op, inputs, outputs=None, domain="", **attributes):
        outputs = outputs or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, value, dtype=None):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def weights(self, *shape):
        return self.random.normal(0, 0.3, shape)

    def product(self, x, k, n):
        """By a matrix of random weights, of 4 or 8 bits in blocks of 32."""
        if not self.bits:
            return self.node("MatMul", [x, self.constant(self.weights(k, n))])
        weights = self.random.integers(0, 256, (n, k // 32, 32 * self.bits // 8)).astype(np.uint8)
        scales = self.random.uniform(0.2, 0.5, (n, k // 32)) / 2**self.bits
        inputs = [x, self.constant(weights, np.uint8), self.constant(scales)]
        sizes = {"K": k, "N": n, "bits": self.bits, "block_size": 32, "accuracy_level": 1}
        return self.node("MatMulNBits", inputs, domain="com.microsoft", **sizes)

    def norm(self, x):
        return self.node("SimplifiedLayerNormalization", [x, self.gain()], axis=-1, epsilon=1e-6, stash_type=1)

    def gain(self):
        return self.constant(self.random.uniform(0.5, 1.5, WIDTH))

    def next_norm(self, x, skip, last):
        outputs = [f"norm{len(self.nodes)}", "", "", f"sum{len(self.nodes)}"]
        self.node(
            "SkipSimplifiedLayerNormalization",
            [x, skip, self.gain()],
            outputs[:1] if last else outputs,
            "com.microsoft",
            epsilon=1e-6,
        )
        return outputs[0], outputs[3]

    def angles(self):
        angles = np.outer(np.arange(POSITIONS), 10000 ** (-np.arange(0, HEAD, 2) / HEAD))
        return self.constant(np.cos(angles)), self.constant(np.sin(angles))


def fused_network(dtype=np.float32, bits=4, rotary="inside", **attention):
    """As onnxruntime-genai's model builder writes networks: GroupQueryAttention, which rotates itself or not."""
    b = Builder(dtype, bits)
    one = b.constant([1], np.int64)
    ends = b.node("Sub", [b.node("ReduceSum", ["attention_mask", one]), one])
    last = b.node("Cast", [ends], to=TensorProto.INT32)
    size = b.node("Gather", [b.node("Shape", ["attention_mask"]), b.constant(1, np.int64)], axis=0)
    total = b.node("Cast", [size], to=TensorProto.INT32)
    tables = b.angles()
    skip = b.node("Gather", [b.constant(b.weights(VOCABULARY, WIDTH)), "input_ids"])
    x = b.norm(skip)
    for i in range(LAYERS):
        heads = [b.product(x, WIDTH, n * HEAD) for n in (HEADS, KEY_HEADS, KEY_HEADS)]
        if rotary == "outside":
            for j in (0, 1):
                heads[j] = b.node("RotaryEmbedding", [heads[j], "position_ids", *tables], domain="com.microsoft")
        past = [f"past_key_values.{i}.{kind}" for kind in ("key", "value")]
        outputs = [f"attention{i}", f"present.{i}.key", f"present.{i}.value"]
        sizes = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "do_rotary": int(rotary == "inside"), **attention}
        given = [*heads, *past, last, total, *(tables if rotary == "inside" else [])]
        b.node("GroupQueryAttention", given, outputs, "com.microsoft", **sizes)
        x, skip = b.next_norm(skip, b.product(outputs[0], HEADS * HEAD, WIDTH), False)
        gate, up = b.product(x, WIDTH, INNER), b.product(x, WIDTH, INNER)
        inner = b.node("Mul", [b.node("Mul", [gate, b.node("Sigmoid", [gate])]), up])
        x, skip = b.next_norm(skip, b.product(inner, INNER, WIDTH), i + 1 == LAYERS)
    b.node("MatMul", [x, b.constant(b.weights(WIDTH, VOCABULARY))], ["logits"])
    return finished(b, ["position_ids"] if rotary == "outside" else [])


def finished(b, others):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(b.dtype))
    caches = [(i, part) for i in range(LAYERS) for part in ("key", "value")]
    shape = ["batch_size", KEY_HEADS, "past_sequence_length", HEAD]
    info = helper.make_tensor_value_info
    inputs = [info(name, TensorProto.INT64, ["batch_size", "sequence_length"]) for name in ["input_ids", *others]]
    inputs.append(info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]))
    inputs += [info(f"past_key_values.{i}.{part}", kind, shape) for i, part in caches]
    shape = [*shape[:2], "total_sequence_length", HEAD]
    outputs = [info("logits", kind, ["batch_size", "sequence_length", VOCABULARY])]
    outputs += [info(f"present.{i}.{part}", kind, shape) for i, part in caches]
    graph = helper.make_graph(b.nodes, "decoder", inputs, outputs, b.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def write_genai(folder, network, **changes):
    """The folder of onnxruntime-genai, with weights in a file beside."""
    onnx.save(network, str(folder / "model.onnx"), save_as_external_data=True, location="model.onnx.data")
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    present = {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": HEAD,
        "hidden_size": WIDTH,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
        "outputs": {"logits": "logits", **present},
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KEY_HEADS,
    }
    model = {"bos_token_id": 0, "context_length": POSITIONS, "decoder": decoder, "eos_token_id": [VOCABULARY - 1]}
    model |= {"pad_token_id": 0, "type": "llama", "vocab_size": VOCABULARY, **changes}
    (folder / "genai_config.json").write_text(json.dumps({"model": model, "search": {"do_sample": False}}))
    checkpoints.characters(VOCABULARY).save(str(folder / "tokenizer.json"))
    return folder


class Steps:
    """A network in ONNX Runtime, run with a cache: run() gives the scores of tokens behind those so far."""

    def __init__(self, session):
        self.session, self.length, self.cache = session, 0, {}
        for info in session.get_inputs():
            if info.name.startswith("past"):
                dtype = np.float16 if "float16" in info.type else np.float32
                self.cache[info.name] = np.zeros((1, info.shape[1], 0, info.shape[3]), dtype)

    def run(self, tokens):
        total = self.length + len(tokens)
        positions = np.arange(self.length, total)[None]
        given = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, total), np.int64)}
        given |= {"position_ids": positions, "use_cache_branch": np.array([self.length > 0])}
        wanted = {info.name for info in self.session.get_inputs()}
        feed = {name: value for name, value in given.items() if name in wanted}
        names = [info.name for info in self.session.get_outputs()]
        results = dict(zip(names, self.session.run(None, {**feed, **self.cache}), strict=True))
        self.cache = {name: results[name.replace("past_key_values", "present")] for name in self.cache}
        self.length = total
        return results["logits"][0]

    def greedy(self, tokens, count):
        """That many tokens behind a prompt."""
        result = []
        scores = self.run(tokens)
        while True:
            result.append(int(scores[-1].argmax()))
            if len(result) == count:
                return result
            scores = self.run(result[-1:])


def exported(path, model, opset):
    """A model of transformers as torch.onnx writes it with a cache, in ONNX's own operators: by way of TorchScript
    below operator set 18, by torch.export from there on."""
    import torch
    import transformers

    class WithCache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, position_ids, *past):
            cache = transformers.DynamicCache(config=model.config)
            for i in range(len(past) // 2):
                cache.update(past[2 * i], past[2 * i + 1], i)
            given = {"attention_mask": attention_mask, "position_ids": position_ids}
            result = self.model(input_ids, past_key_values=cache, use_cache=True, **given)
            layers = result.past_key_values.layers
            return (result.logits, *[x for layer in layers for x in (layer.keys, layer.values)])

    config = model.config
    past = [torch.zeros(1, config.num_key_value_heads, 3, config.head_dim) for _ in range(2 * LAYERS)]
    tokens = torch.ones(1, 2, dtype=torch.long), torch.ones(1, 5, dtype=torch.long), torch.arange(3, 5)[None]
    caches = [f"past_key_values.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]
    presents = [name.replace("past_key_values", "present") for name in caches]
    names = ["input_ids", "attention_mask", "position_ids"]
    options = {"input_names": [*names, *caches], "output_names": ["logits", *presents], "opset_version": opset}
    if opset < 18:
        axes = {name: {0: "batch_size", 1: f"length of {name}"} for name in [*names, "logits"]}
        axes |= {name: {0: "batch_size", 2: "past"} for name in caches} | {name: {2: "total"} for name in presents}
        options |= {"dynamic_axes": axes, "dynamo": False}
    else:
        open_size = torch.export.Dim.DYNAMIC
        shapes = [{1: open_size} for _ in tokens], [{2: open_size} for _ in past]
        options |= {"dynamic_shapes": (*shapes[0], tuple(shapes[1])), "dynamo": True}
    torch.onnx.export(WithCache().eval(), (*tokens, *past), str(path), **options)
    return path
