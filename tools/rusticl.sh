#!/bin/bash
# SPDX-License-Identifier: MIT
# Mesa's rusticl on llvmpipe, of Debian 13 (Mesa 25) in the folder build/rusticl, which needs 800 MB: Mesa 22 of Debian 12
# computes wrong numbers and is refused.
#   rusticl.sh setup                     makes the folder if it is not there; needs root, debootstrap and a mirror
#   rusticl.sh run PROGRAM [ARGUMENT...] runs a program of this folder there; without it, one test counts as skipped
set -euo pipefail
cd "$(dirname "$0")/.."
system=$PWD/build/rusticl
packages=mesa-opencl-icd,ocl-icd-libopencl1,libclc-19,libsqlite3-0

setup() {
  [[ -e $system.done ]] && return
  ((EUID == 0)) || { echo "not root"; return 1; }
  command -v debootstrap > /dev/null || { echo "no debootstrap"; return 1; }
  unshare -m mount -t proc proc /proc || { echo "no mount namespaces"; return 1; }
  rm -rf "$system"
  timeout 900 debootstrap --variant=minbase --include="$packages" trixie "$system" ||
    { echo "debootstrap failed"; return 1; }
  rm -rf "$system"/var/cache/apt
  touch "$system.done"
}

# In a mount namespace of its own, so that nothing stays mounted.
run() {
  if [[ ! -e $system.done ]]; then
    echo "[  SKIPPED ] 1 test, rusticl: $(tail -n 1 build/rusticl.log 2> /dev/null || echo 'not set up')"
    return
  fi
  mkdir -p "$system$PWD" "$system/proc" "$system/dev"
  exec unshare -m bash -ec 'system=$1; shift
    mount --bind "$PWD" "$system$PWD"; mount -t proc proc "$system/proc"; mount --bind /dev "$system/dev"
    exec chroot "$system" env -u OCL_ICD_VENDORS RUSTICL_ENABLE=llvmpipe OCL_VISIBLE_DEVICES=rusticl \
      bash -ec "cd \"\$1\"; shift; exec \"\$@\"" run "$PWD" "$@"' run "$system" "$@"
}

case ${1:-} in
  setup) setup ;;
  run) shift; run "$@" ;;
  *) sed -n '3,6s/^# \?//p' "$0"; exit 2 ;;
esac
