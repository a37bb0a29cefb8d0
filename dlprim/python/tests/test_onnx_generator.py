# SPDX-License-Identifier: MIT
"""Decoders in ONNX files give ONNX Runtime's scores and tokens, step by step."""

import json
import shutil

import checkpoints
import numpy as np
import onnx
import onnx_decoders
import pytest
from building import dlprim as program
from onnx import TensorProto, helper

import dlprim

onnxruntime = pytest.importorskip("onnxruntime")
TOKENS = [17, 4, 200, 99, 31, 64, 5, 120]


def steps(path):
    return onnx_decoders.Steps(onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]))


def check(folder, path, tolerance=1e-4, count=12):
    generator = dlprim.Generator(folder)
    expected = steps(path).run(TOKENS).astype(np.float32)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(generator.scores(TOKENS), expected, rtol=tolerance, atol=tolerance * largest)
    assert list(generator.tokens(TOKENS, tokens=count, stop=False)) == steps(path).greedy(TOKENS, count)
    return generator


@pytest.mark.parametrize("rotary", ["inside", "outside"])
@pytest.mark.parametrize("bits", [4, 8, 0])
def test_fused_networks(rotary, bits, tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(rotary=rotary, bits=bits))
    generator = check(tmp_path, tmp_path / "model.onnx")
    summary = generator.summary
    assert summary["architecture"] == "llama" and summary["context"] == 64 and summary["layers"] == 2
    assert summary["dtype"] == "float32" and summary["weight_bytes"] > 0


def test_float16(tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(np.float16))
    generator = check(tmp_path, tmp_path / "model.onnx", tolerance=2e-2, count=4)
    assert generator.summary["dtype"] == "float16"


@pytest.mark.parametrize("attention", [{"local_window_size": 6}, {"softcap": 5.0, "scale": 0.3}])
def test_attention(attention, tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(**attention))
    check(tmp_path, tmp_path / "model.onnx")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model of transformers, and its network."""
    from test_generator import tiny

    model = tiny("qwen2", vocab=onnx_decoders.VOCABULARY)
    return model, onnx_decoders.exported(tmp_path_factory.mktemp("exported") / "model.onnx", model, 17)


@pytest.mark.parametrize("opset", [18, 23])
def test_networks_of_torch_export(opset, tmp_path):
    """From operator set 23 on with Attention, RotaryEmbedding and RMSNormalization."""
    from test_generator import tiny

    pytest.importorskip("onnxscript")
    model = tiny("llama", vocab=onnx_decoders.VOCABULARY)
    model.config.save_pretrained(tmp_path)
    checkpoints.characters(onnx_decoders.VOCABULARY).save(str(tmp_path / "tokenizer.json"))
    network = onnx_decoders.exported(tmp_path / "model.onnx", model, opset)
    types = {node.op_type for node in onnx.load(str(network), load_external_data=False).graph.node}
    assert types.issuperset({"Attention", "RotaryEmbedding", "RMSNormalization"}) == (opset == 23)
    check(tmp_path, network)


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx", "decoder_model_merged.onnx"])
def test_exported_networks(place, exported, tmp_path):
    model, network = exported
    model.config.save_pretrained(tmp_path)
    checkpoints.characters(onnx_decoders.VOCABULARY).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / place).parent.mkdir(exist_ok=True)
    shutil.copy(network, tmp_path / place)
    generator = check(tmp_path, network)
    assert generator.summary["architecture"] == "qwen2" and generator.summary["name"] == tmp_path.name
    named = dlprim.Generator(tmp_path / place)
    text = generator.generate("Hello", tokens=8)
    assert named.generate("Hello", tokens=8) == text and "".join(named.stream("Hello", tokens=8)) == text
    output = program("generate", tmp_path, "--prompt", "Hello", "--tokens", 8)
    assert text in output and "prompt: 5 tokens" in output


def with_inputs(network, *inputs):
    network.graph.input.extend(inputs)
    return network


def test_a_switch_for_the_cache(tmp_path):
    """Merged networks are told whether there are past tokens."""
    network = onnx_decoders.fused_network()
    network.graph.node[-1].output[0] = "plain"
    branches = []
    for value in (1.0, 2.0):
        constant = helper.make_tensor("value", TensorProto.FLOAT, [], [value])
        output = helper.make_tensor_value_info(f"value{value}", TensorProto.FLOAT, [])
        node = helper.make_node("Constant", [], [output.name], value=constant)
        branches.append(helper.make_graph([node], "branch", [], [output]))
    switch = {"then_branch": branches[0], "else_branch": branches[1]}
    network.graph.node.append(helper.make_node("If", ["use_cache_branch"], ["factor"], **switch))
    network.graph.node.append(helper.make_node("Mul", ["plain", "factor"], ["logits"]))
    with_inputs(network, helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    onnx_decoders.write_genai(tmp_path, network)
    check(tmp_path, tmp_path / "model.onnx")


def test_scores_of_the_last_token_only(tmp_path):
    network = onnx_decoders.fused_network()
    expected = onnx_decoders.write_genai(tmp_path, network) and steps(tmp_path / "model.onnx").greedy(TOKENS, 8)
    network = onnx.load(str(tmp_path / "model.onnx"))
    network.graph.node[-1].output[0] = "all"
    begin, end, axis = ("begin", None), ("end", [2**31]), ("axis", [1])
    network.graph.initializer.extend(helper.make_tensor(n, TensorProto.INT64, [1], v) for n, v in (end, axis))
    network.graph.initializer.append(helper.make_tensor("column", TensorProto.INT64, [1], [1]))
    network.graph.node.extend(
        [
            helper.make_node("Neg", ["num_logits_to_keep"], ["negative"]),
            helper.make_node("Reshape", ["negative", "column"], [begin[0]]),
            helper.make_node("Slice", ["all", begin[0], "end", "axis"], ["logits"]),
        ]
    )
    with_inputs(network, helper.make_tensor_value_info("num_logits_to_keep", TensorProto.INT64, []))
    onnx_decoders.write_genai(tmp_path, network)
    generator = dlprim.Generator(tmp_path)
    assert list(generator.tokens(TOKENS, tokens=8, stop=False)) == expected
    assert generator.scores(TOKENS).shape == (len(TOKENS), onnx_decoders.VOCABULARY)


def test_the_end_of_a_text(tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network())
    greedy = list(dlprim.Generator(tmp_path).tokens(TOKENS, tokens=6, stop=False))
    at = next(i for i in range(1, 6) if greedy[i] not in greedy[:i])
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network(), eos_token_id=greedy[at])
    assert list(dlprim.Generator(tmp_path).tokens(TOKENS, tokens=6)) == greedy[:at]


def test_sampling_and_limits(tmp_path):
    onnx_decoders.write_genai(tmp_path, onnx_decoders.fused_network())
    generator = dlprim.Generator(tmp_path, context=16)
    assert generator.summary["context"] == 16
    drawn = [list(generator.tokens(TOKENS, tokens=5, stop=False, temperature=1.0, seed=3)) for _ in range(2)]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 5
    assert len(list(generator.tokens(TOKENS, tokens=50, stop=False))) == 16 - len(TOKENS) + 1
    times = generator.times
    assert times["prompt_tokens"] == len(TOKENS) and times["seconds"] > 0
    with pytest.raises(ValueError, match="do not fit a context of 16"):
        generator.scores(list(range(17)))


def change_decoder(folder, **values):
    path = folder / "genai_config.json"
    config = json.loads(path.read_text())
    config["model"]["decoder"] |= values
    path.write_text(json.dumps(config))


def test_what_does_not_fit(tmp_path):
    network = onnx_decoders.fused_network()
    onnx_decoders.write_genai(tmp_path, network)
    change_decoder(tmp_path, inputs={"input_ids": "tokens"})
    with pytest.raises(NotImplementedError, match="with the inputs 'input_ids'"):
        dlprim.Generator(tmp_path)
    change_decoder(tmp_path, filename="../model.onnx")
    with pytest.raises(ValueError, match="is no name of a file in the folder"):
        dlprim.Generator(tmp_path)
    change_decoder(tmp_path, pipeline=[{}])
    with pytest.raises(NotImplementedError, match="several networks"):
        dlprim.Generator(tmp_path)
    onnx_decoders.write_genai(tmp_path, network)
    with pytest.raises(ValueError, match="computes in float32, not in float16"):
        dlprim.Generator(tmp_path, dtype="float16")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="'tokenizer.json' .* cannot be read"):
        dlprim.Generator(tmp_path)


def test_networks_without_a_cache(tmp_path):
    nodes = [helper.make_node("Cast", ["input_ids"], ["logits"], to=TensorProto.FLOAT)]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, None])
    scores = helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "decoder", [ids], [scores])
    onnx_decoders.write_genai(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    with pytest.raises(NotImplementedError, match="export it with a cache"):
        dlprim.Generator(tmp_path)
