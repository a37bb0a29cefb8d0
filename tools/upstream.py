#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs PyTorch's own tests on the device, with no operator on the CPU.

The files are those of PyTorch 2.6's source package in Debian 13, which is downloaded into build/upstream; no wheel has
them. A test that fails runs again on the CPU without the backend: what fails there, too, does not count. What fails on
the device alone must be in pytorch_ocl/tests/upstream.yaml with its reason. Ends with the counts, and with 1 when a
test fails for another reason. Needs pytest, expecttest, hypothesis, scipy and pyyaml."""

import argparse
import collections
import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = "http://deb.debian.org/debian/pool/main/p/pytorch/pytorch_2.6.0+dfsg.orig.tar.xz"
SHA256 = "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff"
# Of these a few tests are a sample of a few minutes; the others take long to be collected.
QUICK = """test_binary_ufuncs test_reductions test_torch test_nn test_indexing test_sort_and_select test_view_ops
    test_shape_ops test_scatter_gather_ops test_tensor_creation_ops test_type_promotion test_linalg test_sparse_csr
    test_foreach test_masked test_segment_reductions test_spectral_ops nn/test_convolution nn/test_pooling
    nn/test_embedding""".split()
OTHERS = """test_ops test_ops_gradients test_ops_fwd_gradients test_unary_ufuncs test_decomp test_modules test_sparse
    test_transformers test_nestedtensor test_maskedtensor test_optim test_testing test_dlpack test_complex test_autograd
    test_numpy_interop test_native_mha test_expanded_weights test_serialization test_prims test_proxy_tensor
    nn/test_dropout nn/test_multihead_attention functorch/test_vmap functorch/test_eager_transforms test_legacy_vmap
    functorch/test_aotdispatch test_fake_tensor test_content_store quantization/core/experimental/test_bits
    quantization/core/experimental/test_float8""".split()
# These make tests for the devices they name and for those that are asked for like this.
FOR_CUSTOM = {"test_transformers", "test_maskedtensor", "test_proxy_tensor", "test_fake_tensor", "functorch/test_vmap",
              "functorch/test_eager_transforms", "functorch/test_aotdispatch"}  # fmt: skip

# What a newer PyTorch needs: these would call themselves without end, and samples come with one context more.
RENEWED = (
    ("test_linalg", "super(self.__class__, self).setUp()", "TestCase.setUp(self)"),
    ("test_linalg", "super(self.__class__, self).tearDown()", "TestCase.tearDown(self)"),
    ("test_nestedtensor", "for sample, subtest_ctx in ", "for sample, subtest_ctx, skip_xfail_ctx in "),
    ("test_nestedtensor", "with subtest_ctx(self):", "with subtest_ctx(self), skip_xfail_ctx(self):"),
    ("functorch/test_vmap", "for sample_input, subtest_ctx in ", "for sample_input, subtest_ctx, skip_xfail_ctx in "),
    ("functorch/test_vmap", "with subtest_ctx(self):", "with subtest_ctx(self), skip_xfail_ctx(self):"),
)


def sources(folder):
    """The folder of the tests, downloaded when it is not there; complete or absent."""
    tests = folder / "test"
    if tests.exists():
        return tests
    folder.mkdir(parents=True, exist_ok=True)
    archive, part = folder / "pytorch.tar.xz", folder / "part"
    print(f"downloading {SOURCE} (27 MB)", flush=True)
    with urllib.request.urlopen(SOURCE, timeout=120) as response:
        archive.write_bytes(response.read())
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{archive} is not the archive that is expected (SHA-256)")
    with tarfile.open(archive) as tar:
        wanted = [m for m in tar if re.match(r"[^/]+/test/.*\.(py|txt|expect|json|pt)$", m.name) and m.isfile()]
        tar.extractall(part, wanted)  # the hash vouches for the names
    made = next(part.glob("*/test"))
    (made / "conftest.py").unlink(missing_ok=True)  # newer versions of pytest refuse it
    for file, former, mended in RENEWED:
        path = made / f"{file}.py"
        path.write_text(path.read_text().replace(former, mended))
    made.rename(tests)
    archive.unlink()
    return tests


def results(log):
    """{name: {outcome, message}} of a log: the last line of a test counts, but for a failure."""
    found = {}
    for line in log.open() if log.exists() else ():
        entry = json.loads(line)
        if found.get(entry["test"], {}).get("outcome") != "failed":
            found[entry["test"]] = entry
    return found


def run(options, tests, file, device, shard="0/1", only=()):
    """Runs a file's tests, again after a crash with what is left; returns their results."""
    log = options.output / f"{file.replace('/', '.')}.{shard.split('/')[0]}.{device}.jsonl"
    log.unlink(missing_ok=True)
    given = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    path = [ROOT / "tools", tests, (tests / file).parent, *given]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu" if device == "cpu" else "privateuse1",
        "PYTORCH_OCL_AUTOLOAD": "0",  # the plugin loads it
        "PYTORCH_OCL_FALLBACK": "error",
        "OMP_NUM_THREADS": "1",
        "UPSTREAM_DEVICE": device,
        "UPSTREAM_LOG": str(log),
        "UPSTREAM_LIMIT": str(options.limit),
        "UPSTREAM_MOST": str(options.most),
        "UPSTREAM_SHARD": shard,
    }
    if file in FOR_CUSTOM:
        environment["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"] = "cpu" if device == "cpu" else "privateuse1"
    if only:
        log.with_suffix(".only").write_text("\n".join(only))
        environment["UPSTREAM_ONLY"] = str(log.with_suffix(".only"))
    arguments = ["-q", "-p", "upstream_plugin", "-p", "no:cacheprovider", "--tb=short", f"{tests / file}.py"]
    while (left := options.deadline - time.monotonic()) > 0:
        environment["UPSTREAM_SECONDS"] = str(left)
        before = len(results(log))
        with log.with_suffix(".txt").open("a") as output:
            command = [sys.executable, "-m", "pytest", *arguments]
            ended = subprocess.run(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=options.output
            )
        if ended.returncode in (0, 1, 2, 5) or len(results(log)) == before:
            break
    return results(log)


def judged(options, tests, file, shard, known):
    """(counts, unexpected failures) of a shard of a file."""
    found = run(options, tests, file, "ocl", shard)
    failed = sorted(test for test, entry in found.items() if entry["outcome"] in ("failed", "crash"))
    on_cpu = run(options, tests, file, "cpu", shard, failed) if failed else {}
    real = [test for test in failed if on_cpu.get(test, {}).get("outcome") == "passed"]
    unexpected = [test for test in real if not any(re.search(pattern, test) for pattern in known)]
    counts = collections.Counter(entry["outcome"] for entry in found.values())
    row = {"passed": counts["passed"], "for reasons": len(real) - len(unexpected), "failed": len(unexpected)}
    if not found or failed and not on_cpu:  # such as a file that cannot be imported
        unexpected.append(f"{file}: no test ran{' on the CPU' if found else ''}, see {options.output}")
        row["failed"] += 1
    return row, [f"{test}: {found.get(test, {}).get('message', '')[:300]}" for test in unexpected]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="such as test_view_ops (default: those of the sample)")
    parser.add_argument("--all", action="store_true", help="every file that knows devices")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="tests of a file, chosen by a hash (0: all)")
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="processes that share a file (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes at once")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="of a test (default: 300)")
    parser.add_argument("--seconds", type=float, default=86400, help="no test starts later (default: a day)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/upstream", help="default: build/upstream")
    options = parser.parse_args()
    options.deadline = time.monotonic() + options.seconds
    options.output = options.folder / "results"
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        tests = sources(options.folder)
    except (OSError, http.client.HTTPException) as error:  # no network, or it broke off
        print(f"1 skipped: {SOURCE} cannot be had: {error}")
        return 0
    expected = yaml.safe_load((ROOT / "pytorch_ocl/tests/upstream.yaml").read_text())
    known = [pattern for entry in expected for pattern in entry["tests"]]
    files = options.files or [*QUICK, *(OTHERS if options.all else [])]
    total, failures = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = {}
        for file in files:
            for shard in range(options.shards):
                jobs[pool.submit(judged, options, tests, file, f"{shard}/{options.shards}", known)] = file
        for job in concurrent.futures.as_completed(jobs):
            row, unexpected = job.result()
            total.update(row)
            failures += unexpected
            print(f"{jobs[job]:32}", ", ".join(f"{count} {name}" for name, count in row.items()), flush=True)
    print(*failures, sep="\n")
    print(f"{total['for reasons']} fail for reasons of upstream.yaml")
    print(f"{total['failed']} failed, {total['passed']} passed" if failures else f"{total['passed']} passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
