#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs PyTorch's operator database once on an OpenCL device and writes pytorch_ocl/tests/expectations.yaml: what runs
on the CPU for want of a kernel, what raises an error, and where the CPU itself rounds too much, each with the reason.

Wrong results and errors that no rule below explains are printed and never written, so that the test keeps failing for
them; the exit code is then 1. Only the dtypes named are run; the entries of others are
dropped. update_expectations.py [--jobs N] [--dtypes NAME...] [--only REGEX, which prints and writes nothing]
"""

import argparse
import collections
import concurrent.futures
import multiprocessing
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "pytorch_ocl/tests"
sys.path.insert(0, str(TESTS))

# Why an operator runs on the CPU: the first rule that matches one of the ATen operators that fell back.
FALLBACK_REASONS = (
    (
        r"linalg_|_linalg|cholesky|lu_|_lu|triangular_solve|geqrf|ormqr|orgqr|householder|lstsq|_det|svd|symeig|ldl_",
        "linear algebra: decompositions and solvers are LAPACK's, on the CPU",
    ),
    (r"sparse|_coo|_csr|to_dense|coalesce", "sparse tensors: not supported yet"),
    (r"quantize|fake_quant", "quantized tensors: not supported yet"),
)
# Why an operator raises an error: the first rule that matches the message.
ERROR_REASONS = (
    (r"[Ss]parse|layout", "sparse tensors: not supported yet"),
    (r"tensor_split|tensor_indices_or_sections", "tensor_split wants its indices on the CPU, as on CUDA"),
    (r"[Cc]omplex|ComplexHalf|ComplexFloat", "complex numbers: not supported by this operator yet"),
    (r"float8|Float8", "eight-bit floating-point numbers: not supported yet"),
)
HEAD = """\
# SPDX-License-Identifier: MIT
# What is not as on the CPU, operator by operator (see test_opinfo.py). Written by tools/update_expectations.py.
#   kind: fallback (runs on the CPU for want of a kernel), error (raises), rounding (differs from the CPU's result and
#   agrees with the CPU's result in float64), digits (floats made of integers differ from the CPU's in the last bits, by
#   at most 1e-5 of their value), skip; dtypes: of the five tested, default: all
"""


CASES = []  # of a worker


def check(position):
    """(outcome, detail) of one case; outcome: native, fallback, error, rounding, digits or wrong."""
    import opinfo

    op, dtype = CASES[position]
    try:
        fallbacks = opinfo.check(op, dtype, "ocl:0")
    except AssertionError as error:
        return rounding_or_wrong(op, dtype, str(error))
    except Exception as error:  # noqa: BLE001
        return "error", f"{type(error).__name__}: {error}"
    return ("fallback", fallbacks) if fallbacks else native_or_digits(op, dtype)


def native_or_digits(op, dtype):
    import opinfo
    import torch

    if dtype in (torch.int64, torch.bool):
        try:
            opinfo.check_digits(op, dtype, "ocl:0")
        except AssertionError as error:
            return "digits", str(error)
    return "native", None


def rounding_or_wrong(op, dtype, message):
    import opinfo
    import torch

    if dtype in (torch.float16, torch.bfloat16):
        try:
            opinfo.check_rounding(op, dtype, "ocl:0")
            return "rounding", message
        except Exception:  # noqa: BLE001
            pass
    return "wrong", message


def start_worker():
    import opinfo

    import pytorch_ocl  # noqa: F401

    CASES.extend(opinfo.cases())


def fallback_reason(fallbacks):
    for pattern, reason in FALLBACK_REASONS:
        if any(re.search(pattern, name) for name in fallbacks):
            return reason
    return "no kernel yet: " + ", ".join(name.removeprefix("aten::") for name in fallbacks)


def error_reason(message):
    return next((reason for pattern, reason in ERROR_REASONS if re.search(pattern, message)), None)


def rounding_reason(_message):
    return "the CPU rounds intermediate values to 16 bits; its result in float64 is what this device gives"


def digits_reason(_message):
    return (
        "functions and sums in float32 are not rounded the same way everywhere; "
        "the CPU's own last bits vary with its vector unit"
    )


REASONS = {"fallback": fallback_reason, "error": error_reason, "rounding": rounding_reason, "digits": digits_reason}


def run(chosen, jobs):
    """{position: (outcome, detail)}. Workers are started afresh, as OpenCL does not survive a fork."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context, initializer=start_worker) as pool:
        results = {}
        for position, result in zip(chosen, pool.map(check, chosen, chunksize=4)):
            results[position] = result
            if len(results) % 100 == 0:
                print(f"{len(results)} of {len(chosen)}", file=sys.stderr, flush=True)
        return results


def entries(cases, results):
    """The entries of the file: pairs that behave alike, for the same reason and in the same dtypes, are one entry."""
    behaviour = collections.defaultdict(list)
    for position, (outcome, detail) in results.items():
        op, dtype = cases[position]
        name = str(dtype).removeprefix("torch.")
        reason = REASONS.get(outcome, lambda _: None)(detail)
        if reason:
            behaviour[op.full_name, outcome, reason].append(name)
    groups = collections.defaultdict(list)
    for (operator, kind, reason), names in behaviour.items():
        groups[kind, reason, tuple(names)].append(operator)
    for (kind, reason, names), operators in sorted(groups.items()):
        yield {"kind": kind, "reason": reason, "dtypes": list(names), "operators": sorted(operators)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dtypes", nargs="+", default="float32 float16 bfloat16 int64 bool".split())
    parser.add_argument("--only", default="", help="operators whose names match; nothing is written")
    options = parser.parse_args()
    import opinfo

    cases = list(opinfo.cases())
    chosen = [
        i
        for i, (op, dtype) in enumerate(cases)
        if re.search(options.only, op.full_name) and str(dtype).removeprefix("torch.") in options.dtypes
    ]
    results = run(chosen, options.jobs)
    text = HEAD + yaml.safe_dump(list(entries(cases, results)), sort_keys=False, width=116, default_flow_style=None)
    if options.only:
        print(text)
    else:
        (TESTS / "expectations.yaml").write_text(text)
    print(dict(collections.Counter(outcome for outcome, _ in results.values())))
    bugs = [
        (cases[i], *result)
        for i, result in results.items()
        if result[0] == "wrong" or result[0] == "error" and not error_reason(result[1])
    ]
    for (op, dtype), outcome, detail in bugs:
        print(f"{outcome}: {op.full_name} {dtype}: {' '.join(detail.split())[:300]}")
    return 1 if bugs else 0


if __name__ == "__main__":
    sys.exit(main())
