#!/bin/bash
# SPDX-License-Identifier: MIT
# Compiles dlprim, its networks, programs and tests for Windows with MinGW-w64; no code is generated, as Debian has no
# libraries to link it with (see cmake/compile_only.cmake). Without precompiled headers, so that a source which does not
# include what it needs is found. compile_mingw.sh [FOLDER]: build folder (build/mingw). Debian:
# g++-mingw-w64-x86-64-posix and what dlprim needs here. ONLY=TEXT in the environment: those objects whose paths have it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/mingw}")
root=$folder/root
export CCACHE_DISABLE=1  # it would preprocess everything first, and there is nothing to keep

# Headers that do not depend on the system, apart from those of this system beside them.
mkdir -p "$root/include" "$root/lib" "$root/share/cmake"
for headers in CL sqlite3.h google nlohmann CLI gtest stb; do
  ln -sfn "/usr/include/$headers" "$root/include/$headers"
done
for package in nlohmann_json CLI11; do
  [[ -d /usr/share/cmake/$package ]] && cp -rf "/usr/share/cmake/$package" "$root/share/cmake/"
done
for library in sqlite3 protobuf protobuf-lite gtest gtest_main; do  # CMake wants to see them
  touch "$root/lib/lib$library.a"
done

cmake -S . -B "$folder" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/mingw.cmake" -DCMAKE_FIND_ROOT_PATH="$root" \
  -DDLPRIM_ONLY=ON -DDLPRIM_NET=ON -DBUILD_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="-g0 -O0" \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)" \
  -DGTEST_LIBRARY="$root/lib/libgtest.a" -DGTEST_MAIN_LIBRARY="$root/lib/libgtest_main.a" \
  -DCMAKE_PROJECT_INCLUDE="$PWD/cmake/compile_only.cmake"
targets=()
[[ -z ${ONLY:-} ]] || mapfile -t targets < <(ninja -C "$folder" -t targets all | grep -o "^[^:]*$ONLY[^:]*\.obj")
ninja -C "$folder" -j"${JOBS:-2}" "${targets[@]}"
echo "compiled for Windows: $(find "$folder" -name '*.obj' | wc -l) objects"
