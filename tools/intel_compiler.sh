#!/bin/bash
# SPDX-License-Identifier: MIT
# Puts Intel's compiler for its GPUs (ocloc, 14 MB of Debian packages, which are not installed) in the folder
# build/intel_compiler, for tools/check_kernels.py. Needs apt-get and a mirror; says why where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/intel_compiler
[[ -e $folder/usr/bin/ocloc ]] && exit
[[ $(uname -m) == x86_64 ]] || { echo "only for x86_64"; exit 1; }
command -v apt-get dpkg > /dev/null || { echo "not a Debian system"; exit 1; }

download=$(mktemp -d)
trap 'rm -rf "$download" "$folder.new"' EXIT
rm -rf "$folder.new"
mkdir -p "$folder.new"
# A simulation installs nothing: it names what is missing here.
packages=$(apt-get install -s -qq --no-install-recommends intel-opencl-icd | sed -n 's/^Inst \([^ ]*\).*/\1/p') ||
  { echo "Debian has no intel-opencl-icd here"; exit 1; }
(cd "$download" && apt-get download -qq intel-opencl-icd $packages) > /dev/null 2>&1 || { echo "no download"; exit 1; }
for package in "$download"/*.deb; do dpkg -x "$package" "$folder.new"; done
[[ -e $folder.new/usr/bin/ocloc ]] || { echo "no ocloc in $packages"; exit 1; }
mv "$folder.new" "$folder"
