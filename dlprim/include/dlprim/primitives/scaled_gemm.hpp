// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/small_floats.hpp>

namespace dlprim {

struct ScaledGemmOptions {
  /// float32: one number each, or, with `lines`, M numbers and N that lie side by side.
  BufferRef a_scale, b_scale;
  bool lines = false;
  TensorView bias;     ///< [N], of a floating type, any stride; none: no memory
  BufferRef c_scale;   ///< float32, one number; none: no memory
  std::optional<SmallFloat> c_kind;  ///< what the bytes of a uint8 result stand for
  /// Sums may keep as few bits as the matrix unit does (about 14 on NVIDIA's Hopper); else those of 128 products are
  /// added up in float32.
  bool fast_sums = false;
};

/// c = ((a b) * a_scale * b_scale + bias) * c_scale for matrices of 8-bit floats in uint8, a [M, K] and b [K, N]; c [M, N]
/// of a floating type, or of 8-bit floats. Any strides; c must not overlap a or b. Multiplied as they are where the
/// device has matrix units for them (Hopper: e4m3fn and e5m2), else in bfloat16, which holds them. Throws ValidationError.
void scaled_gemm(Queue& queue, const TensorView& a, SmallFloat a_kind, const TensorView& b, SmallFloat b_kind,
                 const TensorView& c, const ScaledGemmOptions& options);

}  // namespace dlprim
