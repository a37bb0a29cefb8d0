# SPDX-License-Identifier: MIT
"""Inference of ONNX files by dlprim and by ONNX Runtime's CPU provider in turns, in one process.

    OCL_VISIBLE_DEVICES=Intel python benchmarks/inference.py resnet18.onnx mobilenet_v2.onnx --batch 1 8

Prints the least milliseconds of each and their ratio. A file's first input must have an open or fixed batch in
front."""

import argparse
import pathlib
import sys
import time

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "dlprim/python"))
import dlprim  # noqa: E402


def least(session, feed, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="FILE")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--device", help="as dlprim.Context takes it")
    parser.add_argument("--threads", type=int, default=0, help="of ONNX Runtime; default: all cores")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of the largest result; quantized files: 0.3")
    parser.add_argument("--limit", type=float, help="fail when a ratio is above it")
    options = parser.parse_args()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    worst = 0
    print(f"{'model':24} {'batch':>5} {'dlprim ms':>10} {'ORT ms':>10} {'ratio':>6}")
    for model in options.models:
        theirs = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        ours = dlprim.InferenceSession(model, options.device)
        info = theirs.get_inputs()[0]
        for batch in options.batch:
            shape = [batch, *(size if isinstance(size, int) else 1 for size in info.shape[1:])]
            feed = {info.name: np.random.default_rng(0).standard_normal(shape, dtype=np.float32)}
            wanted, got = theirs.run(None, feed)[0], ours.run(None, feed)[0]
            error = np.abs(got - wanted).max() / np.abs(wanted).max()
            if not error <= options.tolerance:
                sys.exit(f"{model}: the results differ by {error:.1e} of the largest")
            times = [(least(ours, feed, 4), least(theirs, feed, 4)) for _ in range(options.turns)]
            mine, reference = (min(column) for column in zip(*times))
            worst = max(worst, mine / reference)
            print(
                f"{pathlib.Path(model).stem:24} {batch:5} {mine:10.2f} {reference:10.2f} {mine / reference:6.2f}",
                flush=True,
            )
    if options.limit and worst > options.limit:
        sys.exit(f"a ratio of {worst:.2f} is above {options.limit}")


if __name__ == "__main__":
    main()
