# SPDX-License-Identifier: MIT
"""Networks as torch.onnx exports them, with random weights: what test_exported.py runs."""

import importlib.util
import io
import pathlib
import tempfile
import warnings

import numpy as np
import torch
from torch import nn

IMAGES = {  # name: side of the image
    "alexnet": 224,
    "vgg16": 224,
    "resnet18": 224,
    "resnext50_32x4d": 224,
    "wide_resnet50_2": 224,
    "efficientnet_b0": 224,
    "efficientnet_b4": 224,
    "regnet_y_400mf": 224,
    "squeezenet1_0": 224,
    "mobilenet_v2": 224,
    "densenet121": 224,
    "convnext_tiny": 224,
    "vit_b_16": 224,
    "swin_t": 224,
}
MORE_IMAGES = {
    "inception_v3": 299,
    "googlenet": 224,
    "mobilenet_v3_small": 224,
    "shufflenet_v2_x1_0": 224,
    "mnasnet0_5": 224,
    "swin_v2_t": 256,
    "maxvit_t": 224,
    "segmentation.fcn_resnet50": 128,
    "segmentation.deeplabv3_mobilenet_v3_large": 128,
    "segmentation.lraspp_mobilenet_v3_large": 128,
    "video.r3d_18": 32,
}
TEXT = ["gpt2", "bert"]
MORE_TEXT = ["llama", "t5_encoder", "lstm", "gru", "encoder"]
OPSETS = (9, 11, 13, 17, 0)  # 0: the newest, by torch.export


def torchvision_models():
    """torchvision.models, also beside a PyTorch that cannot load torchvision's compiled half."""
    file = pathlib.Path(__file__).resolve().parents[3] / "pytorch_ocl/python/pytorch_ocl/models.py"
    if not file.exists():
        return importlib.import_module("torchvision.models")
    spec = importlib.util.spec_from_file_location("networks_by_name", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.torchvision_models()


class Output(nn.Module):
    """Gives one tensor of what a network gives."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        masked = type(self.net).__module__.startswith("transformers.")
        y = self.net(x, attention_mask=torch.ones_like(x)) if masked else self.net(x)
        for name in ("out", "logits", "last_hidden_state"):
            if hasattr(y, name) or (isinstance(y, dict) and name in y):
                return y[name] if isinstance(y, dict) else getattr(y, name)
        return y


class Recurrent(nn.Module):
    """A classifier of token sequences."""

    def __init__(self, kind):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(100, 24), kind(24, 32, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 5)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0][:, -1])


class Encoder(nn.Module):
    """torch's own transformer layers."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        self.embedding, self.layers = nn.Embedding(100, 32), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.layers(self.embedding(tokens)).mean(1)


def language_model(name):
    torchvision_models()  # transformers imports it
    import transformers as t

    size = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "vocab_size": 100,
    }
    attention = {"attn_implementation": "eager"}
    if name == "gpt2":
        return t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=100, n_positions=64, n_embd=64, n_layer=2, n_head=4, use_cache=False, **attention)
        )
    if name == "bert":
        return t.BertModel(t.BertConfig(**size, max_position_embeddings=64, **attention))
    if name == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**size, num_key_value_heads=2, use_cache=False, **attention))
    return t.T5EncoderModel(
        t.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, **attention)
    )


def network(name):
    """The network and an input of batch 2."""
    torch.manual_seed(0)
    if name in IMAGES or name in MORE_IMAGES:
        side = {**IMAGES, **MORE_IMAGES}[name]
        module = torchvision_models()
        *folders, model = name.split(".")
        for folder in folders:
            module = importlib.import_module(module.__name__ + "." + folder)
        extra = {"inception_v3": {"init_weights": False}, "googlenet": {"init_weights": False}}.get(name, {})
        if folders == ["segmentation"]:
            extra = {"weights_backbone": None}
        net = getattr(module, model)(weights=None, **extra)
        shape = (2, 3, 4, side, side) if folders == ["video"] else (2, 3, side, side)
        x = torch.randn(shape)
    else:
        net = {"lstm": lambda: Recurrent(nn.LSTM), "gru": lambda: Recurrent(nn.GRU), "encoder": Encoder}.get(
            name, lambda: language_model(name)
        )()
        x = torch.randint(0, 100, (2, 12))
    for module in net.modules():  # normalization and heads that do something
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, 0, 0.02)
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d)):
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.normal_(module.running_mean, 0, 0.1)
    return Output(net).eval(), x


def export(net, x, opset):
    """The ONNX file's bytes, with an open batch; opset 0 is the newest that torch.export's exporter writes."""
    torch.backends.mha.set_fastpath_enabled(False)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if opset:
            file = io.BytesIO()
            torch.onnx.export(
                net,
                (x,),
                file,
                input_names=["x"],
                output_names=["y"],
                opset_version=opset,
                dynamo=False,
                dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
            )
            return file.getvalue()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.onnx"
            torch.onnx.export(
                net,
                (x,),
                path,
                input_names=["x"],
                output_names=["y"],
                dynamo=True,
                external_data=False,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
            return path.read_bytes()


def batch_of(x, count):
    """An input like x."""
    random = np.random.default_rng(count)
    shape = (count, *x.shape[1:])
    if x.dtype == torch.int64:
        return random.integers(0, 100, shape)
    return random.standard_normal(shape, dtype=np.float32)
