#!/bin/bash
# SPDX-License-Identifier: MIT
# Mesa's rusticl on llvmpipe, of Debian 13 (Mesa 25) in the folder build/rusticl, which needs 800 MB: Mesa 22 of Debian 12
# computes wrong numbers and is refused.
#   rusticl.sh setup                     makes the folder if it is not there; needs root, debootstrap and a mirror
#   rusticl.sh run PROGRAM [ARGUMENT...] runs a program of this folder there, or the Python that PYTHON names (of .venv);
#                                        without the folder, one test counts as skipped
set -euo pipefail
cd "$(dirname "$0")/.."
system=$PWD/build/rusticl
packages=mesa-opencl-icd,ocl-icd-libopencl1,libclc-19,libsqlite3-0
python=${PYTHON:-${VENV:-.venv}/bin/python}

setup() {
  [[ -e $system.done ]] && return
  ((EUID == 0)) || { echo "not root"; return 1; }
  command -v debootstrap > /dev/null || { echo "no debootstrap"; return 1; }
  unshare -m mount -t proc proc /proc || { echo "no mount namespaces"; return 1; }
  rm -rf "$system"
  # What it mounts goes with it, also where it is stopped.
  timeout 900 unshare -m debootstrap --variant=minbase --include="$packages" trixie "$system" ||
    { echo "debootstrap failed"; return 1; }
  rm -rf "$system"/var/cache/apt
  touch "$system.done"
}

# What a Python consists of, wherever it lies: packages, standard library, shared library, programs.
python_files() {
  "$python" - << 'END'
import os, sys, sysconfig
variables = sysconfig.get_config_vars()
print(sys.prefix, sysconfig.get_path("stdlib"), os.path.join(variables["LIBDIR"], variables["INSTSONAME"]))
print(*(os.path.join(variables["BINDIR"], f"python{version}") for version in (3, variables["VERSION"])))
END
}

# In a mount namespace of its own, so that nothing stays mounted.
run() {
  if [[ ! -e $system.done ]]; then
    echo "[  SKIPPED ] 1 test, rusticl: $(tail -n 1 build/rusticl.log 2> /dev/null || echo 'not set up')"
    return
  fi
  local mounts=("$PWD" /dev /sys) path
  for path in $(python_files 2> /dev/null); do
    [[ -e $path && $path != /usr && $path/ != "$PWD"/* ]] && mounts+=("$path")
  done
  for path in "${mounts[@]}"; do
    if [[ -d $path ]]; then mkdir -p "$system$path"; else mkdir -p "$system${path%/*}"; touch "$system$path"; fi
  done
  mkdir -p "$system/proc"
  exec unshare -m bash -ec 'system=$1 count=$2; shift 2
    mount -t proc proc "$system/proc"
    for path in "${@:1:count}"; do mount --bind "$path" "$system$path"; done
    shift "$count"
    exec chroot "$system" env -u OCL_ICD_VENDORS RUSTICL_ENABLE=llvmpipe OCL_VISIBLE_DEVICES=rusticl \
      bash -ec "cd \"\$1\"; shift; exec \"\$@\"" run "$PWD" "$@"' run "$system" "${#mounts[@]}" "${mounts[@]}" "$@"
}

case ${1:-} in
  setup) setup ;;
  run) shift; run "$@" ;;
  *) sed -n '3,7s/^# \?//p' "$0"; exit 2 ;;
esac
