#!/bin/bash
# SPDX-License-Identifier: MIT
# Compiles a network into a package, builds the program that runs it, and runs it with the library of the pytorch_ocl
# that PYTHON (default: python3) finds.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${PYTHON:=python3}"
mkdir -p build/aot
"$PYTHON" examples/aot/export.py build/aot/network.pt2
# The package also finds drivers that pip installed; the program is told of them by the environment.
{ read -r library; read -r vendors; } < <("$PYTHON" -c 'import os, torch, pytorch_ocl
print(pytorch_ocl._runtime.library_path(torch.__version__))
print(os.environ.get("OCL_ICD_VENDORS", ""))')
[[ -z $vendors ]] || export OCL_ICD_VENDORS=$vendors
cmake -S examples/aot -B build/aot -DCMAKE_BUILD_TYPE=Release -DPython3_EXECUTABLE="$(command -v "$PYTHON")" \
  > build/aot.log
cmake --build build/aot >> build/aot.log || { cat build/aot.log >&2; exit 1; }
build/aot/aot_example "$library" build/aot/network.pt2 "$@"
