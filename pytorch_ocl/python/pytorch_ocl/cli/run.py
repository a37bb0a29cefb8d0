# SPDX-License-Identifier: MIT
"""Runs a program written for CUDA on an OpenCL device, unchanged: its "cuda" is "ocl" (docs/cuda_programs.md).

python -m pytorch_ocl run train.py --epochs 3
python -m pytorch_ocl run -m package.module --epochs 3
"""

import argparse
import importlib
import os
import pathlib
import runpy
import sys


def add_arguments(parser):
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is the name of a module")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program gets")


def run(options):
    os.environ["PYTORCH_OCL_AS_CUDA"] = "1"  # for processes that the program starts
    importlib.import_module("pytorch_ocl.as_cuda")
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(pathlib.Path(options.program).resolve().parent))
        runpy.run_path(options.program, run_name="__main__")
    return 0
