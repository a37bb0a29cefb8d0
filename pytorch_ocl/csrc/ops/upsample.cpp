// SPDX-License-Identifier: MIT
// Interpolation: every mode is one call of dlprim::resample under PyTorch's meta functions.
#include <dlprim/primitives/upsample.hpp>

#include "batched.hpp"
#include "generated/structured/_upsample_bicubic2d_aa_backward_grad_input.h"
#include "generated/structured/_upsample_bicubic2d_aa_out.h"
#include "generated/structured/_upsample_bilinear2d_aa_backward_grad_input.h"
#include "generated/structured/_upsample_bilinear2d_aa_out.h"
#include "generated/structured/_upsample_nearest_exact1d_backward_grad_input.h"
#include "generated/structured/_upsample_nearest_exact1d_out.h"
#include "generated/structured/_upsample_nearest_exact2d_backward_grad_input.h"
#include "generated/structured/_upsample_nearest_exact2d_out.h"
#include "generated/structured/_upsample_nearest_exact3d_backward_grad_input.h"
#include "generated/structured/_upsample_nearest_exact3d_out.h"
#include "generated/structured/upsample_bicubic2d_backward_grad_input.h"
#include "generated/structured/upsample_bicubic2d_out.h"
#include "generated/structured/upsample_bilinear2d_backward_grad_input.h"
#include "generated/structured/upsample_bilinear2d_out.h"
#include "generated/structured/upsample_linear1d_backward_grad_input.h"
#include "generated/structured/upsample_linear1d_out.h"
#include "generated/structured/upsample_nearest1d_backward_grad_input.h"
#include "generated/structured/upsample_nearest1d_out.h"
#include "generated/structured/upsample_nearest2d_backward_grad_input.h"
#include "generated/structured/upsample_nearest2d_out.h"
#include "generated/structured/upsample_nearest3d_backward_grad_input.h"
#include "generated/structured/upsample_nearest3d_out.h"
#include "generated/structured/upsample_trilinear3d_backward_grad_input.h"
#include "generated/structured/upsample_trilinear3d_out.h"
#if __has_include("generated/structured/_upsample_lanczos2d_aa_out.h")  // torch 2.13
#include "generated/structured/_upsample_lanczos2d_aa_backward_grad_input.h"
#include "generated/structured/_upsample_lanczos2d_aa_out.h"
#define WITH_LANCZOS
#endif

namespace pytorch_ocl {

namespace {

using Scale = std::optional<double>;
using Sizes = at::ArrayRef<int64_t>;

dlprim::Resampling how(dlprim::ResampleMode mode, bool align_corners, bool antialias,
                       std::initializer_list<Scale> scales) {
  dlprim::Resampling result{mode, align_corners, antialias};
  std::size_t axis = 3 - scales.size();
  for (const Scale& scale : scales) result.scale[axis++] = scale.value_or(0) > 0 ? 1 / *scale : 0;
  return result;
}

void forward(const at::Tensor& self, const at::Tensor& out, const dlprim::Resampling& resampling) {
  if (out.numel() == 0) return;
  dlprim::resample(current_queue(self.device()), view_of(self, "upsample"), view_of(out, "upsample"), resampling);
}

void backward(const at::Tensor& grad_output, const at::Tensor& grad_input, const dlprim::Resampling& resampling) {
  if (grad_input.numel() == 0) return;
  dlprim::resample_backward(current_queue(grad_input.device()), view_of(grad_output, "upsample_backward"),
                            view_of(grad_input, "upsample_backward"), resampling);
}

}  // namespace

// Parameters of the scale factors of one to three axes, and their names.
#define SCALES_1 Scale w
#define NAMES_1 {w}
#define SCALES_2 Scale h, Scale w
#define NAMES_2 {h, w}
#define SCALES_3 Scale d, Scale h, Scale w
#define NAMES_3 {d, h, w}

#define NEAREST(op, axes, mode)                                                                                \
  void structured_##op##_out::impl(const at::Tensor& self, Sizes, SCALES_##axes, const at::Tensor& out) {      \
    forward(self, out, how(dlprim::ResampleMode::mode, false, false, NAMES_##axes));                           \
  }                                                                                                            \
  void structured_##op##_backward_grad_input::impl(const at::Tensor& grad_output, Sizes, Sizes, SCALES_##axes, \
                                                   const at::Tensor& grad_input) {                             \
    backward(grad_output, grad_input, how(dlprim::ResampleMode::mode, false, false, NAMES_##axes));            \
  }

#define INTERPOLATE(op, axes, mode, antialias)                                                                \
  void structured_##op##_out::impl(const at::Tensor& self, Sizes, bool corners, SCALES_##axes,                \
                                   const at::Tensor& out) {                                                   \
    forward(self, out, how(dlprim::ResampleMode::mode, corners, antialias, NAMES_##axes));                    \
  }                                                                                                           \
  void structured_##op##_backward_grad_input::impl(const at::Tensor& grad_output, Sizes, Sizes, bool corners, \
                                                   SCALES_##axes, const at::Tensor& grad_input) {             \
    backward(grad_output, grad_input, how(dlprim::ResampleMode::mode, corners, antialias, NAMES_##axes));     \
  }

NEAREST(upsample_nearest1d, 1, nearest)
NEAREST(upsample_nearest2d, 2, nearest)
NEAREST(upsample_nearest3d, 3, nearest)
NEAREST(_upsample_nearest_exact1d, 1, nearest_exact)
NEAREST(_upsample_nearest_exact2d, 2, nearest_exact)
NEAREST(_upsample_nearest_exact3d, 3, nearest_exact)
INTERPOLATE(upsample_linear1d, 1, linear, false)
INTERPOLATE(upsample_bilinear2d, 2, linear, false)
INTERPOLATE(upsample_trilinear3d, 3, linear, false)
INTERPOLATE(upsample_bicubic2d, 2, cubic, false)
INTERPOLATE(_upsample_bilinear2d_aa, 2, linear, true)
INTERPOLATE(_upsample_bicubic2d_aa, 2, cubic, true)
#ifdef WITH_LANCZOS
INTERPOLATE(_upsample_lanczos2d_aa, 2, lanczos, true)
#endif

}  // namespace pytorch_ocl
