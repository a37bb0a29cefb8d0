#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens a second of a language model of random weights in Q4_0, by default of 0.5 billion: dlprim and llama.cpp (the
package xllamacpp, which has it compiled), alternating in one run, and the CPU time of each.

python benchmarks/generate.py [--shape 8B] [--tokens 32] [--prompt 128] [--device cpu] [--only dlprim ...]
[--python FILE] [--folder DIR]

What is not installed is left out. The file of random weights stays in the folder."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "dlprim/python"), str(ROOT / "dlprim/python/tests")]
import gguf_files  # noqa: E402

# Of Qwen2 and Llama 3: layers, width, heads, heads of keys, width between, vocabulary.
SHAPES = {"0.5B": (24, 896, 14, 2, 4864, 151936), "8B": (32, 4096, 32, 8, 14336, 128256)}


def random_blocks(random, rows, columns, kind):
    """Bytes of a matrix of random weights, about 0.02 large."""
    bytes_, step = {gguf_files.Q4_0: (16, 0.005), gguf_files.Q8_0: (32, 0.0003)}[kind]
    blocks = random.integers(0, 256, (rows * columns // 32, 2 + bytes_), np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(step).tobytes(), np.uint8)
    return blocks.tobytes()


def write_model(path, shape):
    layers, width, heads, key_heads, inner, vocabulary = SHAPES[shape]
    random, q4 = np.random.default_rng(0), gguf_files.Q4_0
    key = key_heads * width // heads
    matrices = {"token_embd": (vocabulary, width, gguf_files.Q8_0)}
    vectors = {"output_norm.weight": np.ones(width)}
    for i in range(layers):
        block = f"blk.{i}."
        for name, rows, columns in (
            ("attn_q", width, width),
            ("attn_k", key, width),
            ("attn_v", key, width),
            ("attn_output", width, width),
            ("ffn_gate", inner, width),
            ("ffn_up", inner, width),
            ("ffn_down", width, inner),
        ):
            matrices[block + name] = (rows, columns, q4)
        vectors |= {block + name + ".weight": np.ones(width) for name in ("attn_norm", "ffn_norm")}
        vectors |= {f"{block}attn_{n}.bias": np.zeros(s) for n, s in (("q", width), ("k", key), ("v", key))}
    values = {
        "general.architecture": "qwen2",
        "general.name": f"random {shape}",
        "qwen2.block_count": layers,
        "qwen2.embedding_length": width,
        "qwen2.feed_forward_length": inner,
        "qwen2.context_length": 4096,
        "qwen2.attention.head_count": heads,
        "qwen2.attention.head_count_kv": key_heads,
        "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
        "qwen2.rope.freq_base": 1000000.0,
        **gguf_files.character_vocabulary(vocabulary),
        "tokenizer.ggml.bos_token_id": vocabulary - 1,
    }
    entries = [(name, x.shape, gguf_files.F32, x.astype(np.float32).tobytes()) for name, x in vectors.items()]
    entries += [
        (f"{n}.weight", (r, c), kind, random_blocks(random, r, c, kind)) for n, (r, c, kind) in matrices.items()
    ]
    gguf_files.write_packed(path, values, entries)


def with_dlprim(path, prompt, tokens, device):
    import dlprim

    generator = dlprim.Generator(path, device=device)

    def run():
        list(generator.tokens(prompt, tokens=tokens, stop=False))
        t = generator.times
        return t["prompt_tokens"] / t["prompt_seconds"], (t["tokens"] - 1) / t["seconds"]

    return run


def with_llama_cpp(path, prompt, tokens, device):
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.warmup = str(path), 4096, 1, False
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = len(os.sched_getaffinity(0))
    server = xllamacpp.Server(options)
    request = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}

    def run():
        answer = server.handle_completions(request)
        t = (answer if isinstance(answer, dict) else answer[0])["timings"]
        return t["prompt_per_second"], (t["predicted_n"] - 1) * 1000 / t["predicted_ms"]

    return run


RUNNERS = {"dlprim": with_dlprim, "llama.cpp": with_llama_cpp}


def serve(o):
    """One engine in a process of its own: a line of input, a run."""
    prompt = np.random.default_rng(1).integers(0, 256, o.prompt).tolist()
    run = RUNNERS[o.serve](o.folder / f"random-{o.shape}-q4_0.gguf", prompt, o.tokens, o.device)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        rates = run()
        print(*rates, time.process_time() - start, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="0.5B")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=list(RUNNERS))
    parser.add_argument("--python", default=sys.executable, help="of the environment that has xllamacpp")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "dlprim_generate")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.serve:
        return serve(o)
    o.folder.mkdir(exist_ok=True)
    path = o.folder / f"random-{o.shape}-q4_0.gguf"
    if not path.exists():
        write_model(path, o.shape)
    arguments = [
        "--shape",
        o.shape,
        "--tokens",
        o.tokens,
        "--prompt",
        o.prompt,
        "--device",
        o.device,
        "--folder",
        o.folder,
    ]
    engines, results = {}, {}
    for name in o.only:
        python = o.python if name == "llama.cpp" else sys.executable
        command = [python, __file__, *map(str, arguments), "--serve", name]
        engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if engine.stdout.readline().strip() == "ready":
            engines[name] = engine
        else:
            print(f"{name}: left out")
    for repeat in range(o.repeats + 1):  # the first one builds kernels
        for name, engine in engines.items():
            engine.stdin.write("run\n")
            engine.stdin.flush()
            rates = [float(word) for word in engine.stdout.readline().split()]
            if repeat:
                results.setdefault(name, []).append(rates)
    print(f"{path.stat().st_size / 2**20:.0f} MiB of weights, prompt of {o.prompt} tokens, {o.tokens} more")
    for name, rates in results.items():
        prompt, text, seconds = (statistics.median(r) for r in zip(*rates, strict=True))
        print(f"{name:10} prompt {prompt:8.1f} tokens/s   text {text:7.2f} tokens/s   {seconds:.2f} s of CPU time")
    for engine in engines.values():
        engine.stdin.close()


if __name__ == "__main__":
    main()
