#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Products with sparse matrices on devices side by side, in one process and in turns: the ratio of the first device's
time to the second's, 1 being the first one's speed.

    python benchmarks/sparse.py cuda ocl
    python benchmarks/sparse.py cpu ocl --rows 10000 --entries 100000

Each figure is the median of several rounds, in which the devices alternate. Results are compared first.
"""

import argparse
import statistics
import time

import torch


def matrix(rows, entries, dtype, skewed):
    """CSR of random positions; skewed: a hundredth of the rows holds half of the entries."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.full((rows,), entries // rows)
    if skewed:
        lengths //= 2
        few = max(1, rows // 100)
        lengths[torch.randperm(rows, generator=generator)[:few]] += (entries // 2) // few
    starts = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    total = int(starts[-1])
    columns = torch.randint(rows, (total,), generator=generator)
    owner = torch.repeat_interleave(torch.arange(rows), lengths)
    columns = (owner * rows + columns).sort().values % rows
    values = torch.randn(total, generator=generator).to(dtype)
    return torch.sparse_csr_tensor(starts, columns, values, (rows, rows), check_invariants=False)


def cases(rows, entries, columns):
    x = matrix(rows, entries, torch.float32, False)
    dense = torch.randn(rows, columns)
    yield "CSR @ dense", lambda d: product(x.to(d), dense.to(d))
    yield "COO @ dense", lambda d: product(x.to_sparse().coalesce().to(d).coalesce(), dense.to(d))
    yield "CSR @ vector", lambda d: product(x.to(d), dense[:, 0].contiguous().to(d))
    yield "CSR @ 4 columns", lambda d: product(x.to(d), dense[:, :4].contiguous().to(d))
    yield "CSR of int32 @ dense", lambda d: product(narrow(x).to(d), dense.to(d))
    yield "CSR with long rows @ dense", lambda d: product(matrix(rows, entries, torch.float32, True).to(d), dense.to(d))
    few, fewer = max(rows // 10, 1), max(entries // 10, 1)
    y = matrix(few, fewer, torch.float32, False)
    yield "CSR @ CSR, a tenth", lambda d: product(y.to(d), y.to(d))
    yield "sampled product", lambda d: sampled(x.to(d), dense.to(d))
    yield "dense to CSR", lambda d: to_csr(dense.relu().to(d))


def narrow(x):
    return torch.sparse_csr_tensor(
        x.crow_indices().int(), x.col_indices().int(), x.values(), x.shape, check_invariants=False
    )


def product(a, b):
    return lambda: a @ b


def sampled(a, b):
    return lambda: torch.sparse.sampled_addmm(a, b, b.t(), beta=0)


def to_csr(a):
    return lambda: a.to_sparse_csr()


def synchronize(device):
    if torch.device(device).type != "cpu":
        getattr(torch, torch.device(device).type).synchronize()


def seconds(call, device, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / repeats


def difference(results):
    """Largest difference between two results, by the largest number in the first."""
    first, second = (r.cpu().to_dense() if r.numel() < 10**9 else r.values().cpu() for r in results)
    return ((first - second).abs().max() / first.abs().max()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs=2)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases with this in their name")
    options = parser.parse_args()
    if any(device.startswith("ocl") for device in options.devices):
        import pytorch_ocl  # noqa: F401  beside another accelerator it does not load itself
    print(f"torch {torch.__version__}: {options.rows} rows, {options.entries} entries, {options.columns} columns")
    for name, make in cases(options.rows, options.entries, options.columns):
        if options.only not in name:
            continue
        try:
            calls = [make(device) for device in options.devices]
            results = [call() for call in calls]
            error = difference(results)
            del results
            repeats = [max(1, min(100, int(0.1 / max(seconds(c, d, 1), 1e-6)))) for c, d in zip(calls, options.devices)]
            times = [[], []]
            for _ in range(options.rounds):
                for which, (call, device) in enumerate(zip(calls, options.devices)):
                    times[which].append(seconds(call, device, repeats[which]))
            first, second = (statistics.median(t) * 1e3 for t in times)
            print(f"{name:28} {first:9.3f} ms {second:9.3f} ms  ratio {first / second:5.2f}  differs by {error:.0e}")
        except Exception as failure:  # noqa: BLE001  the other cases still count
            print(f"{name:28} {type(failure).__name__}: {str(failure).splitlines()[0][:120]}")


if __name__ == "__main__":
    main()
