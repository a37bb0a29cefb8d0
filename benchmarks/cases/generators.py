# SPDX-License-Identifier: MIT
"""Language and diffusion models of transformers and diffusers, with random weights."""

import torch
import torch.nn.functional as F
from torch import nn

from .common import Case

HALF = torch.bfloat16
SMALL = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_key_value_heads": 4}
# Eight of the 32 layers.
LARGE = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 8, "num_key_value_heads": 8}


def llama(bench, shape):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=32000, num_attention_heads=32, max_position_embeddings=4096, **shape)
    with torch.device(bench.device):
        return LlamaForCausalLM(config).to(HALF).eval()


def prefill(shape, batch, length):
    def make(bench):
        _, model = bench.prepare(llama(bench, shape))
        ids = bench.integers(32000, batch, length)

        def call():
            with torch.no_grad():
                model(ids, use_cache=False, logits_to_keep=1)

        return call

    return make


def generation(shape, batch, tokens):
    """128 tokens, and `tokens` more; compiled with a static cache."""

    def make(bench):
        model, ids = llama(bench, shape), bench.integers(32000, batch, 128)
        if bench.compile:
            model.generation_config.cache_implementation = "static"
        options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
        return lambda: model.generate(ids, **options)

    return make


class Loss(nn.Module):
    """A model of transformers with its ids as labels; gives the loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids, labels=ids, use_cache=False).loss


def train_llama(bench):
    model = llama(bench, {**SMALL, "num_hidden_layers": 12})
    return bench.training(Loss(model), [bench.integers(32000, 2, 1024)], lambda loss: loss, torch.optim.AdamW)


def train_gpt2(bench):
    from transformers import GPT2Config, GPT2LMHeadModel

    ids, options = bench.integers(50257, 8, 512), {"autocast": HALF}
    return bench.training(Loss(GPT2LMHeadModel(GPT2Config())), [ids], lambda loss: loss, torch.optim.AdamW, **options)


def bert(dtype, batch, length):
    def make(bench):
        from transformers import BertConfig, BertForSequenceClassification

        mask = torch.ones(batch, length, dtype=torch.long, device=bench.device)
        mask[:, -9:] = 0
        label, inputs = bench.integers(2, batch), [bench.integers(30000, batch, length), mask]
        model = BertForSequenceClassification(BertConfig())

        def loss(result):
            return F.cross_entropy(result.logits.float(), label)

        return bench.training(model, inputs, loss, torch.optim.AdamW, autocast=dtype)

    return make


def listener(bench):
    """The encoder of whisper-small on 30 seconds of sound."""
    from transformers import WhisperConfig, WhisperModel

    heads = {"encoder_attention_heads": 12, "decoder_attention_heads": 12}
    config = WhisperConfig(d_model=768, encoder_layers=12, decoder_layers=1, encoder_ffn_dim=3072, **heads)
    return bench.evaluation(WhisperModel(config).get_encoder().to(HALF), [bench.random(8, 80, 3000, dtype=HALF)])


def stable_diffusion(bench, wide):
    """A UNet in the shape of Stable Diffusion XL, or of the first, and its inputs for `batch` images."""
    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    if not wide:
        return UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
    return UNet2DConditionModel(
        sample_size=128,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )


class Denoiser(nn.Module):
    """A UNet of diffusers at one time, with text; gives the tensor."""

    def __init__(self, unet):
        super().__init__()
        self.unet = unet

    def forward(self, x, text, *conditions):
        names = ("text_embeds", "time_ids")
        added = dict(zip(names, conditions)) or None
        return self.unet(x, 500, text, added_cond_kwargs=added).sample


def denoise(dtype, batch, wide=False, training=False):
    def make(bench):
        model = Denoiser(stable_diffusion(bench, wide)).to(dtype)
        size, width = (128, 2048) if wide else (64, 768)
        inputs = [bench.image(batch, 4, size, size, dtype=dtype), bench.random(batch, 77, width, dtype=dtype)]
        if wide:
            inputs += [bench.random(batch, 1280, dtype=dtype), bench.random(batch, 6, dtype=dtype)]
        if training:
            return bench.training(model, inputs, lambda y: y.float().square().mean(), torch.optim.AdamW, images=True)
        return bench.evaluation(model, inputs, images=True)

    return make


class FluxStep(nn.Module):
    def __init__(self, transformer):
        super().__init__()
        self.transformer = transformer

    def forward(self, x, text, pooled, time, image_ids, text_ids):
        return self.transformer(
            hidden_states=x,
            encoder_hidden_states=text,
            pooled_projections=pooled,
            timestep=time,
            img_ids=image_ids,
            txt_ids=text_ids,
            guidance=time,
        ).sample


def flux(bench):
    """A diffusion transformer in the shape of Flux, 4 of 19 and 8 of 38 blocks, on an image of 1024 x 1024."""
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    with torch.device(bench.device):
        model = FluxTransformer2DModel(num_layers=4, num_single_layers=8, guidance_embeds=True).to(HALF)
    inputs = [
        bench.random(1, 4096, 64, dtype=HALF),
        bench.random(1, 512, 4096, dtype=HALF),
        bench.random(1, 768, dtype=HALF),
        torch.full((1,), 0.5).to(bench.device, HALF),
        bench.random(4096, 3),
        bench.random(512, 3),
    ]
    return bench.evaluation(FluxStep(model), inputs)


def decoder(bench):
    """The decoder of Stable Diffusion's autoencoder, in tiles."""
    from diffusers import AutoencoderKL

    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    model = AutoencoderKL(block_out_channels=(128, 256, 512, 512), layers_per_block=2, **blocks).to(torch.float16)
    model = model.eval().to(bench.device)
    model.enable_tiling()
    x = bench.random(1, 4, 128, 128, dtype=torch.float16)

    def call():
        with torch.no_grad():
            model.decode(x)

    return call


def cases():
    for name, make, dtype in (
        ("llama-1.1B prefill 1x2048 bfloat16", prefill(SMALL, 1, 2048), HALF),
        ("llama-1.1B prefill 8x512 bfloat16", prefill(SMALL, 8, 512), HALF),
        ("llama-8B, 8 layers, prefill 1x4096 bfloat16", prefill(LARGE, 1, 4096), HALF),
        ("llama-1.1B generate 64 b1 bfloat16", generation(SMALL, 1, 64), HALF),
        ("llama-1.1B generate 32 b16 bfloat16", generation(SMALL, 16, 32), HALF),
        ("llama-8B, 8 layers, generate 32 b1 bfloat16", generation(LARGE, 1, 32), HALF),
        ("llama-1.1B, 12 layers, train 2x1024 bfloat16", train_llama, HALF),
        ("gpt2 train 8x512 bfloat16", train_gpt2, HALF),
        ("bert-base train 32x128 bfloat16", bert(HALF, 32, 128), HALF),
        ("bert-base train 16x256 float32", bert(torch.float32, 16, 256), torch.float32),
        ("whisper-small encoder b8 bfloat16", listener, HALF),
        ("Stable Diffusion UNet eval b2 float16", denoise(torch.float16, 2), torch.float16),
        ("Stable Diffusion UNet train b4 bfloat16", denoise(HALF, 4, training=True), HALF),
        ("Stable Diffusion XL UNet eval b2 float16", denoise(torch.float16, 2, wide=True), torch.float16),
        ("Flux, 12 of 57 blocks, eval b1 bfloat16", flux, HALF),
        ("autoencoder decode 1024x1024 in tiles float16", decoder, torch.float16),
    ):
        yield Case(name, "language and diffusion", make, dtype=dtype)
    yield Case("LSTM 2x650 b20 s35 train", "language and diffusion", recurrent)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.cells, self.out = nn.Embedding(10000, 650), nn.LSTM(650, 650, 2), nn.Linear(650, 10000)

    def forward(self, ids):
        return self.out(self.cells(self.table(ids))[0]).view(-1, 10000)


def recurrent(bench):
    ids = bench.integers(10000, 35, 20)
    labels = ids.flatten()
    return bench.training(Recurrent(), [ids], lambda scores: F.cross_entropy(scores, labels))
