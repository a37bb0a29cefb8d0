#!/bin/bash
# SPDX-License-Identifier: MIT
# Steps of the Makefile; each leaves a file in $VENV/.setup when it is done.
#   setup.sh environment  system packages, virtual environment, PyTorch
#   setup.sh wheels       what wheels are compiled with
#   setup.sh demo         the backend, what the example needs, and a driver for the CPU when there is no other device
#   setup.sh test         the backend, networks and their C++ tests, what the tests need, both drivers for the CPU
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VENV:=.venv}" "${PYTHON:=python3}" "${TORCH:=torch==2.13.0}" "${TORCHVISION:=torchvision==0.28.0}"
python=$VENV/bin/python

say() { printf '== %s\n' "$*"; }

# Installs Debian packages that are missing; "name?" is one that we can do without.
system_packages() {
  command -v dpkg-query > /dev/null || { say "not a Debian system: expecting $* in some form"; return; }
  local package missing=() wanted=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "${package%\?}" 2> /dev/null | grep -q "ok installed" && continue
    wanted+=("${package%\?}")
    [[ $package == *\? ]] || missing+=("$package")
  done
  ((${#wanted[@]})) || return 0
  if ((EUID == 0)); then
    say "installing Debian packages: ${wanted[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" > /dev/null
  elif ((${#missing[@]})); then
    say "these Debian packages are missing: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
}

# Isolated: the folder cmake/ here would pass for a package.
has() { "$python" -I -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))" "$@"; }

pip_install() {
  say "installing Python packages: $*"
  "$python" -m pip install -qq --disable-pip-version-check "$@"
}

environment() {
  system_packages g++ opencl-c-headers opencl-clhpp-headers ocl-icd-libopencl1 libsqlite3-dev ccache?
  if [[ ! -x $python ]]; then
    "$PYTHON" -c "import ensurepip, venv" 2> /dev/null || system_packages python3-venv
    say "creating the virtual environment $VENV"
    "$PYTHON" -m venv "$VENV"
  fi
  has torch numpy || pip_install "$TORCH" numpy
  has scikit_build_core setuptools_scm yaml typing_extensions ninja ||
    pip_install scikit-build-core setuptools-scm pyyaml typing_extensions ninja
  command -v cmake > /dev/null || has cmake || pip_install cmake
  say "$("$python" -c 'import sys, torch; print(f"Python {sys.version.split()[0]}, torch {torch.__version__}")')"
}

# Builds in build/make and installs the wheel; prints every compiled file. $1: ON builds networks and the tests, too.
build() {
  local log=build/make.log start=$SECONDS
  mkdir -p build
  say "building (compiler output: $log)"
  PATH="$PWD/$VENV/bin:$VENV/bin:$PATH" "$python" -m pip install -v --no-build-isolation --no-deps --force-reinstall \
    --disable-pip-version-check --config-settings=build-dir=build/make --config-settings=cmake.define.BUILD_TESTS="$1" \
    --config-settings=cmake.define.DLPRIM_NET="$1" --config-settings=cmake.define.DLPRIM_PYTHON="$1" \
    . 2>&1 | tee "$log" | { grep --line-buffered -oE '\[[0-9]+/[0-9]+\] .*' || true; } ||
    { tail -n 60 "$log" >&2; exit 1; }
  say "built and installed in $((SECONDS - start)) s"
}

# Whether a device other than PoCL is there.
has_device() {
  "$python" - << 'END'
import sys, torch
names = [torch.ocl.get_device_properties(i).platform_name for i in range(torch.ocl.device_count())]
sys.exit(all("portable computing" in name.lower() for name in names))
END
}

cpu_driver() {
  if [[ $(uname -m) == x86_64 ]]; then
    pip_install intel-opencl-rt intel-cmplr-lib-rt
  else
    system_packages pocl-opencl-icd
  fi
}

python_headers() {
  "$python" -c "import os, sysconfig; os.stat(sysconfig.get_path('include') + '/Python.h')" 2> /dev/null ||
    system_packages python3-dev
}

wheels() {
  system_packages libprotobuf-dev protobuf-compiler nlohmann-json3-dev libcli11-dev libstb-dev libpcre2-dev
  python_headers
}

demo() {
  has sklearn matplotlib rich || pip_install scikit-learn matplotlib rich
  build OFF
  has_device || cpu_driver
}

# What the tests need of others, beside the build.
test_packages() {
  has sklearn matplotlib rich pytest xdist expecttest hypothesis scipy ||
    pip_install scikit-learn matplotlib rich pytest pytest-xdist expecttest hypothesis scipy
  has onnx onnxruntime onnxscript transformers ml_dtypes safetensors PIL ||
    pip_install onnx onnxruntime onnxscript transformers ml_dtypes safetensors pillow
  pip_install -r tools/style.txt
  # Their own requirements would replace the PyTorch chosen.
  has torchvision || pip_install --no-deps "$TORCHVISION"
  has timm || { pip_install huggingface_hub && pip_install --no-deps timm; }
  [[ -e $VENV/lib/libintelocl.so ]] || cpu_driver
}

test_() {
  system_packages libgtest-dev pocl-opencl-icd oclgrind libprotobuf-dev protobuf-compiler nlohmann-json3-dev \
    libcli11-dev libstb-dev libhdf5-dev libpcre2-dev g++-mingw-w64-x86-64-posix libclc-15 clang-19 debootstrap?
  python_headers
  has nanobind || pip_install nanobind
  mkdir -p build
  tools/rusticl.sh setup > build/rusticl.log 2>&1 &
  local rusticl=$!
  test_packages > build/packages.log 2>&1 &
  local packages=$!
  tools/intel_compiler.sh > build/intel_compiler.log 2>&1 &
  local ocloc=$!
  build ON
  wait $packages || { tail -n 60 build/packages.log >&2; exit 1; }
  wait $rusticl || say "no rusticl: $(tail -n 1 build/rusticl.log)"
  wait $ocloc || say "no ocloc: $(tail -n 1 build/intel_compiler.log)"
}

case ${1:-} in
  environment | wheels | demo) "$1" ;;
  test) test_ ;;
  *) sed -n '3,7s/^# \?//p' "$0"; exit 2 ;;
esac
mkdir -p "$VENV/.setup"
touch "$VENV/.setup/$1"
