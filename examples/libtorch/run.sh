#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the example and runs it with the library of the pytorch_ocl that PYTHON (default: python3) finds.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${PYTHON:=python3}"
# The package also finds drivers that pip installed; the program is told of them by the environment.
{ read -r library; read -r vendors; } < <("$PYTHON" -c 'import os, torch, pytorch_ocl
print(pytorch_ocl._runtime.library_path(torch.__version__))
print(os.environ.get("OCL_ICD_VENDORS", ""))')
[[ -z $vendors ]] || export OCL_ICD_VENDORS=$vendors
mkdir -p build
# Another of these may be building.
{
  flock 9
  cmake -S examples/libtorch -B build/libtorch -DCMAKE_BUILD_TYPE=Release \
    -DPython3_EXECUTABLE="$(command -v "$PYTHON")" > build/libtorch.log
  cmake --build build/libtorch >> build/libtorch.log || { cat build/libtorch.log >&2; exit 1; }
} 9> build/libtorch.lock
build/libtorch/libtorch_example "$library" "$@"
