# SPDX-License-Identifier: MIT
"""Command line: python -m pytorch_ocl info | check | validate | tune | run | cache."""

import argparse
import importlib
import sys

COMMANDS = {
    "info": "platforms, devices, capabilities, versions and the program cache",
    "check": "compare every family of kernels with the CPU and measure speed, in a minute",
    "validate": "compare a torchvision or timm network on an OpenCL device with the CPU",
    "tune": "measure the kernels that a network uses and remember the fastest",
    "run": "run a program written for CUDA on an OpenCL device",
    "cache": "show or clear the cache of compiled kernels and measurements",
}


def main(arguments=None):
    """Runs one command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m pytorch_ocl", description="PyTorch on OpenCL devices.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"pytorch_ocl.cli.{name}")
        command = commands.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
