# SPDX-License-Identifier: MIT
"""Products with weights of 8 and 4 bits on "ocl" and, where there is one, on "cuda", in one run.

    python benchmarks/quantized.py --rows 1 4 8 512 --shapes 4096x4096 11008x4096 8192x28672

For each shape (outputs x inputs) and number of rows: microseconds, GB/s of weights as they are stored, times the speed
of the bfloat16 product on the same device, and of CUDA's own operator (above 1: ocl is faster; "-" where CUDA has
none). Weights rotate through more memory than caches hold."""

import argparse
import time

import torch

ROTATED = 512 << 20  # bytes


def seconds(call, count, device, least=0.2):
    """Least mean time of a call out of five runs; `call` gets a number below `count`."""
    synchronize = torch.cuda.synchronize if device == "cuda" else torch.ocl.synchronize
    for i in range(min(count, 3)):
        call(i)
    synchronize()
    best, repeat = float("inf"), 1
    for _ in range(5):
        while True:
            start = time.perf_counter()
            for i in range(repeat):
                call(i % count)
            synchronize()
            took = time.perf_counter() - start
            if took >= least / 5:
                break
            repeat *= 2
        best = min(best, took / repeat)
    return best


def copies(tensor, bytes_a_copy):
    return [tensor.clone() for _ in range(max(1, min(64, ROTATED // bytes_a_copy)))]


def bf16(n, k, x):
    weights = copies(torch.randn(n, k, device=x.device, dtype=x.dtype), 2 * n * k)
    return len(weights), lambda i: torch.nn.functional.linear(x, weights[i]), 2 * n * k


def int8(n, k, x):
    weights = copies(torch.randint(-128, 128, (n, k), dtype=torch.int8).to(x.device), n * k)
    scales = torch.rand(n, device=x.device, dtype=x.dtype)
    return len(weights), lambda i: torch.ops.aten._weight_int8pack_mm(x, weights[i], scales), n * k


def int4(n, k, x, group=128):
    bytes_ = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8).to(x.device)
    weights = copies(torch.ops.aten._convert_weight_to_int4pack(bytes_, 8), n * k // 2)
    scales = torch.rand(k // group, n, 2, device=x.device, dtype=x.dtype)
    size = n * k // 2 + scales.nbytes
    return len(weights), lambda i: torch.ops.aten._weight_int4pack_mm(x, weights[i], group, scales), size


def int4_rows(n, k, x, group=128):
    if x.device.type != "ocl":
        return None
    weights = copies(torch.randint(-(2**31), 2**31 - 1, (n, k // 8), dtype=torch.int32).to(x.device), n * k // 2)
    scales = torch.rand(k // group, n, device=x.device, dtype=x.dtype)
    zeros = torch.full((k // group, n), 8, dtype=torch.int8, device=x.device)
    product = torch.ops.aten._weight_int4pack_mm_with_scales_and_zeros
    return len(weights), lambda i: product(x, weights[i], group, scales, zeros), n * k // 2 + scales.nbytes


def nf4(n, k, x, block=64):
    try:
        import bitsandbytes.functional as functional
    except ImportError:
        return None
    packed, state = functional.quantize_4bit(torch.randn(n, k, device=x.device, dtype=x.dtype), quant_type="nf4")
    weights, product = copies(packed, n * k // 2), torch.ops.bitsandbytes.gemm_4bit.default
    size = n * k // 2 + state.absmax.nbytes
    return len(weights), lambda i: product(x, weights[i], state.shape, state.absmax, block, "nf4"), size


KINDS = {"bf16": bf16, "int8": int8, "int4": int4, "int4_rows": int4_rows, "nf4": nf4}


def measure(kind, n, k, m, device):
    x = torch.randn(m, k, device=device, dtype=torch.bfloat16)
    try:
        case = KINDS[kind](n, k, x)
    except (NotImplementedError, RuntimeError) as error:
        print(f"  {kind} on {device}: {str(error).splitlines()[0][:100]}")
        return None
    if case is None:
        return None
    count, call, size = case
    return seconds(call, count, device), size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["4096x4096", "11008x4096", "8192x28672"])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 8, 512])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--bandwidth", type=float, default=0, help="of the device's memory in GB/s, for a share of it")
    options = parser.parse_args()
    import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only

    devices = ["ocl", *(["cuda"] if torch.cuda.is_available() else [])]
    print(f"{'shape':>12} {'rows':>5} {'kind':>10} {'us':>9} {'GB/s':>7} {'share':>6} {'to bf16':>8} {'to CUDA':>8}")
    for shape in options.shapes:
        n, k = map(int, shape.split("x"))
        for m in options.rows:
            plain = None
            for kind in options.kinds:
                times = {device: measure(kind, n, k, m, device) for device in devices}
                if times["ocl"] is None:
                    continue
                own, size = times["ocl"]
                if kind == "bf16":
                    plain = own
                rate = size / own / 1e9
                share = f"{rate / options.bandwidth:6.2f}" if options.bandwidth else f"{'-':>6}"
                to_plain = f"{plain / own:8.2f}" if plain else f"{'-':>8}"
                to_cuda = f"{times['cuda'][0] / own:8.2f}" if times.get("cuda") else f"{'-':>8}"
                print(
                    f"{shape:>12} {m:5} {kind:>10} {own * 1e6:9.1f} {rate:7.0f} {share} {to_plain} {to_cuda}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
