# SPDX-License-Identifier: MIT
"""The command `dlprim` (docs/networks.md), which sees the OpenCL drivers that pip installed."""

import os
import pathlib
import sys


def main():
    """Runs the program beside this file with the arguments of this process, in its place."""
    program = pathlib.Path(__file__).with_name("dlprim")
    if not program.exists():
        sys.exit(f"{program} does not exist: this module was built without the program dlprim")
    # What _runtime has loaded for Intel's own OpenCL loader is lost with this process.
    if loader := os.environ.get("DLPRIM_OPENCL_FALLBACK_LIBRARY"):
        folders = [str(pathlib.Path(loader).parent), os.environ.get("LD_LIBRARY_PATH")]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    os.execv(program, ["dlprim", *sys.argv[1:]])


if __name__ == "__main__":
    main()
