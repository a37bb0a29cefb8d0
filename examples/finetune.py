#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fine-tunes a language model on text files with transformers' Trainer, on an OpenCL device:

    python examples/finetune.py --output small                             # a small model of bytes, from nothing
    python examples/finetune.py --model small --text notes.txt --output tuned
    python examples/finetune.py --model small --text notes.txt --output adapter --qlora

--model is a folder or a name of the Hugging Face hub; without it a new model of 3 million weights reads bytes. Without
--text it trains on the documentation in Python's standard library. --qlora keeps the model's weights in 4 bits (needs
bitsandbytes and peft) and trains low-rank additions to them; their folder is what --output gets then.

Prints the perplexity on the last tenth of the text before and after. Trainer finds the device by itself where OpenCL's
first device is a GPU; ACCELERATE_TORCH_DEVICE names another one, ocl:0 for a CPU.
"""

import argparse
import math
import os
import pathlib
import pydoc
import sys

os.environ.setdefault("ACCELERATE_TORCH_DEVICE", "ocl:0")

import torch  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
    ByT5Tokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

import pytorch_ocl  # noqa: E402, F401  beside CUDA it loads on request only


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or name of the model to begin with (default: a new small one)")
    parser.add_argument("--text", type=pathlib.Path, nargs="*", help="text files (default: Python's documentation)")
    parser.add_argument("--output", required=True, help="folder for the result")
    parser.add_argument("--qlora", action="store_true", help="weights in 4 bits, low-rank additions trained")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="training steps (default: 100)")
    parser.add_argument("--batch-size", type=int, default=8, metavar="N", help="sequences in a batch (default: 8)")
    parser.add_argument("--length", type=int, default=128, metavar="N", help="tokens of a sequence (default: 128)")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of AdamW (default: 0.001)")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    return parser.parse_args()


def read_text(files):
    if files:
        return "\n".join(file.read_text(errors="replace") for file in files)
    modules = "argparse collections datetime json logging pathlib random socket tarfile typing".split()
    return "\n".join(pydoc.plain(pydoc.render_doc(name)) for name in modules)


def load(options):
    """(model, tokenizer)."""
    if not options.model:
        tokenizer = ByT5Tokenizer()
        config = GPT2Config(vocab_size=len(tokenizer), n_positions=1024, n_embd=256, n_layer=4, n_head=4)
        return GPT2LMHeadModel(config), tokenizer
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    if not options.qlora:
        return AutoModelForCausalLM.from_pretrained(options.model), tokenizer
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import BitsAndBytesConfig

    four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    device = os.environ["ACCELERATE_TORCH_DEVICE"]
    model = AutoModelForCausalLM.from_pretrained(options.model, quantization_config=four_bits, device_map={"": device})
    model = prepare_model_for_kbit_training(model)
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, lora), tokenizer


def sequences(text, tokenizer, length):
    """Lists of `length` tokens; the labels of a sequence are its tokens."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    rows = [ids[i : i + length] for i in range(0, len(ids) - length + 1, length)]
    if len(rows) < 10:
        sys.exit(f"expected text for 10 sequences of {length} tokens or more, got {len(rows)}")
    return [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in rows]


def main():
    options = parse_arguments()
    torch.manual_seed(1)
    model, tokenizer = load(options)
    data = sequences(read_text(options.text), tokenizer, options.length)
    test = len(data) // 10
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=options.output,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch_size,
            per_device_eval_batch_size=options.batch_size,
            learning_rate=options.lr,
            bf16=options.bf16,
            logging_steps=max(1, options.steps // 10),
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=data[:-test],
        eval_dataset=data[-test:],
    )
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{trained:,} weights are trained on {trainer.args.device}, with {len(data) - test} sequences")
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    print(f"perplexity of the last tenth: {math.exp(before):.2f} before, {math.exp(after):.2f} after")
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    main()
