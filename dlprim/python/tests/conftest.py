# SPDX-License-Identifier: MIT
"""The module is taken from the source tree, where the build puts its library."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every exported network and operator set, not a small set")
