#!/bin/bash
# SPDX-License-Identifier: MIT
# Compiles the cores for matrix units (gemm/matrix.cl, gemm/matrix_bytes.cl) for AMD's architectures, with clang's own builtins, and checks
# it against Intel's, which are declared here as the extension's specification has them: no such device is needed.
# Prints, for each, matrix instructions, registers and spilled bytes. Debian: clang-19. CLANG names another compiler
# (19 or newer).
set -euo pipefail
cd "$(dirname "$0")/../dlprim/kernels"
clang=${CLANG:-clang-19}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/intel.h" <<'DECLARATIONS'
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
uint get_sub_group_local_id(void);
uint get_sub_group_id(void);
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(short8, int8, float8);
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(int8, int8, float8);
float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(short8, int8, float8);
float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(int8, int8, float8);
int8 __attribute__((overloadable)) intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8);
int8 __attribute__((overloadable)) intel_sub_group_i8_i8_matrix_mad_k32(short8, int8, int8);
int8 __attribute__((overloadable)) intel_sub_group_u8_u8_matrix_mad_k32(uint8, uint8, int8);
int8 __attribute__((overloadable)) intel_sub_group_u8_u8_matrix_mad_k32(ushort8, uint8, int8);
DECLARATIONS

# compile UNIT "BM BN WM WN" MODE TYPE TRANSPOSED ARGUMENTS...
compile() {
  local unit=$1 tile mode=$3 type=$4 transposed=$5
  read -ra tile <<< "$2"
  shift 5
  "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -O3 -w -I. "-DUNIT_$unit=1" -DEMULATED=0 -DFP16 \
    "-Dmul_hi(a,b)=((uint)((ulong)(a)*(b)>>32))" \
    -DTA="$type" -DTB="$type" -DTC="$type" -DTD="$type" -DT=float -DTT=f32 "-DTO_T(v)=((T)(v))" "-DACTIVATE(x)=(x)" \
    -DCOMPLEX=0 -DINDEX=int -DWIDE=0 -DMODE="$mode" -DRANK=2 -DCHECK=1 -DTAP_MASK=$((mode == 1)) -DCHANNEL_INNER=0 \
    -DADDEND=1 -DRESIDUAL=1 -DSPLIT=0 -DBM="${tile[0]}" -DBN="${tile[1]}" -DBK=32 -DWM="${tile[2]}" -DWN="${tile[3]}" -DVA=8 \
    -DVB=$((mode ? 1 : 8)) -DA_ALONG_K=1 -DB_ALONG_K=$((mode != 1)) -DTRANSPOSED="$transposed" "$@" gemm/matrix.cl
}

amd() {  # UNIT ARCHITECTURE TILE MODE TYPE TRANSPOSED
  compile "$1" "$3" "$4" "$5" "$6" -target amdgcn-amd-amdhsa "-mcpu=$2" -nogpulib -S -o "$work/out.s"
  local count
  count=$(grep -cE 'v_(wmma|mfma)_' "$work/out.s") || { echo "$2: no matrix instructions" >&2; exit 1; }
  echo "$2 mode $4 $5 transposed $6: $count matrix instructions$(sed -nE 's/^; (NumVgprs|ScratchSize): (.*)/, \1 \2/p' \
    "$work/out.s" | head -2 | tr -d '\n')"
}

for type in f16 bf16; do
  for mode in 0 1 2; do
    for transposed in 0 1; do
      amd RDNA3 gfx1100 "128 64 32 32" $mode $type $transposed
      amd RDNA4 gfx1200 "128 64 32 32" $mode $type $transposed
      for architecture in gfx90a gfx942; do amd CDNA $architecture "128 128 64 64" $mode $type $transposed; done
      for unit in INTEL8 INTEL16; do
        compile $unit "64 64 32 16" $mode $type $transposed -target spir64 -include "$work/intel.h" -fsyntax-only
        echo "$unit mode $mode $type transposed $transposed: accepted"
      done
    done
  done
done

for lanes in 8 16; do
  for type in i8 u8; do
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -O3 -Werror=implicit-function-declaration -w -I. \
      -target spir64 -include "$work/intel.h" -fsyntax-only -DTA=$type -DTB=$type -DTC=i32 -DTD=i32 -DT=float -DTT=f32 \
      "-DTO_T(v)=((T)(v))" "-DACTIVATE(x)=(x)" -DCOMPLEX=0 -DINDEX=int -DWIDE=0 -DMODE=0 -DRANK=1 -DCHECK=0 -DTAP_MASK=0 \
      -DCHANNEL_INNER=0 -DADDEND=1 -DRESIDUAL=0 -DSPLIT=0 -DBM=64 -DBN=64 -DBK=32 -DWM=32 -DWN=32 -DA_WORDS=1 -DB_WORDS=0 \
      -DLANES=$lanes -DSIGNED=$([ $type = i8 ] && echo 1 || echo 0) -DEMULATED=0 gemm/matrix_bytes.cl
    echo "bytes, $lanes lanes, $type: accepted"
  done
done
