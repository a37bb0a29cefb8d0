# SPDX-License-Identifier: MIT
"""Plugin of pytest for tools/upstream.py: PyTorch's own tests on one device, their results a line of JSON each.

Environment: UPSTREAM_DEVICE (ocl or cpu), UPSTREAM_LOG (file to append to), UPSTREAM_SECONDS (no test starts later),
UPSTREAM_LIMIT (seconds a test may take), UPSTREAM_MOST (tests, 0: all), UPSTREAM_SHARD ("2/5"), UPSTREAM_ONLY (file of
names)."""

import json
import os
import pathlib
import re
import signal
import sys
import time
import zlib

import pytest
import torch

DEVICE = os.environ["UPSTREAM_DEVICE"]
if DEVICE != "cpu":
    # These tests know one accelerator beside the CPU.
    torch.cuda.is_available, torch.cuda.device_count = lambda: False, lambda: 0
    import pytorch_ocl  # noqa: F401  before PyTorch's test utilities look for devices
else:
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):  # PyPI's needs CUDA's libraries, or the backend; the tests do without
        sys.modules["torchvision"] = None

from torch.testing._internal import common_cuda, common_methods_invocations, common_mkldnn, common_nn, common_utils  # noqa: E402, I001
from torch.nn.attention import flex_attention  # noqa: E402


def _decorator(*arguments, **_):
    """Stands for decorators that newer versions of PyTorch have no more: changes nothing."""
    return arguments[0] if arguments and callable(arguments[0]) else lambda function: function


# What the tests of PyTorch 2.6 import and newer versions have no more.
GONE = (
    (common_utils, "skipIfMps", _decorator),
    (common_utils, "dtype_abbrs", {}),
    (common_mkldnn, "bf32_on_and_off", _decorator),
    (common_cuda, "tf32_is_not_fp32", lambda: False),
    (common_nn, "new_module_tests", []),
    (common_methods_invocations, "skipOps", lambda *_, **__: _decorator),
    (common_methods_invocations, "skip", lambda *_, **__: None),
    (common_methods_invocations, "xfail", lambda *_, **__: None),
    (common_methods_invocations, "binary_ufuncs_and_refs", common_methods_invocations.binary_ufuncs),
    (flex_attention, "create_nested_block_mask", None),
)
for module, name, value in GONE:
    if not hasattr(module, name):
        setattr(module, name, value)

# Whose tests replace all variables of the environment, each: while Intel's runtime reads them at its launches, which
# glibc does not allow (docs/troubleshooting.md). Python's view of them changes, the process' own stays.
REPLACES_VARIABLES = "test_foreach"

CLASS_SUFFIX = re.compile("CPU$" if DEVICE == "cpu" else "(PRIVATEUSE1|OCL)$")
LOG = pathlib.Path(os.environ["UPSTREAM_LOG"])
START = time.monotonic()


def name_of(item):
    """Class and test without the device's name in them: the same on every device."""
    return f"{CLASS_SUFFIX.sub('', item.cls.__name__)}.{re.sub(rf'_{DEVICE}(?=_|$)', '_DEVICE', item.name)}"


def order(name):
    return zlib.crc32(name.encode())


def write(**line):
    with LOG.open("a") as log:
        log.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(items):
    known = {json.loads(line)["test"] for line in LOG.open()} if LOG.exists() else set()
    tests = {name_of(i): i for i in items if i.cls is not None and CLASS_SUFFIX.search(i.cls.__name__)}
    chosen = sorted(tests, key=order)
    if only := os.environ.get("UPSTREAM_ONLY"):
        wanted = set(pathlib.Path(only).read_text().split())
        chosen = [test for test in chosen if test in wanted]
    elif most := int(os.environ.get("UPSTREAM_MOST", "0")):
        chosen = chosen[:most]
    shard, shards = map(int, os.environ.get("UPSTREAM_SHARD", "0/1").split("/"))
    items[:] = [tests[t] for t in chosen if order(t) // 7 % shards == shard and t not in known]


def too_long(*_):
    raise TimeoutError("took longer than UPSTREAM_LIMIT")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    if time.monotonic() - START > float(os.environ["UPSTREAM_SECONDS"]):
        item.session.shouldstop = "out of time"
    if item.path.stem == REPLACES_VARIABLES:
        os.putenv = os.unsetenv = lambda *_: None
    write(test=name_of(item), outcome="crash")  # replaced when it ends
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(int(os.environ["UPSTREAM_LIMIT"]))
    yield
    signal.alarm(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call" and DEVICE != "cpu":
        try:  # an error of the device is of the test that made it
            torch.ocl.synchronize()
        except Exception as error:
            if report.outcome == "passed":
                report.outcome, report.longrepr = "failed", f"at the end: {error!r}"
    if call.when == "call" or report.outcome != "passed":
        message = repr(call.excinfo.value) if call.excinfo else str(report.longrepr or "")
        write(test=name_of(item), outcome=report.outcome, message=message[:600])
