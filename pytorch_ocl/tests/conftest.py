# SPDX-License-Identifier: MIT
import collections

import pytest
import torch

import pytorch_ocl


def pytest_addoption(parser):
    parser.addoption("--ocl-device", default="ocl:0", help="device under test (default: ocl:0)")
    parser.addoption("--every", type=int, default=1, metavar="N", help="of tests with more than 4 cases only each Nth")


def pytest_configure(config):
    config.addinivalue_line("markers", "representative: one of the few operators of op_db that stand for all")
    config.addinivalue_line("markers", "whole: long and seldom of use; only `make test-whole` runs it")
    config.addinivalue_line("markers", "sampled: a quarter of the cases of op_db")


def pytest_collection_modifyitems(config, items):
    def test_of(item):
        return item.nodeid.partition("[")[0]

    cases, seen, taken, left = collections.Counter(map(test_of, items)), collections.Counter(), [], []
    for item in items:
        test = test_of(item)
        (left if cases[test] > 4 and seen[test] % config.getoption("--every") else taken).append(item)
        seen[test] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = taken


@pytest.fixture
def device(request):
    """Name of the device under test."""
    return request.config.getoption("--ocl-device")


@pytest.fixture
def set_variable(monkeypatch):
    """Sets an environment variable of the library's for the test."""

    def set_to(name, value):
        monkeypatch.setenv(name, value)
        torch.ops.pytorch_ocl.reread_environment()

    yield set_to
    monkeypatch.undo()
    torch.ops.pytorch_ocl.reread_environment()


def pytest_report_header(config):
    if not torch.ocl.is_available():
        raise pytest.UsageError(f"no OpenCL device: {pytorch_ocl.unavailable_reason()}")
    name = torch.ocl.get_device_name(config.getoption("--ocl-device"))
    return f"device under test: {config.getoption('--ocl-device')} ({name})"
