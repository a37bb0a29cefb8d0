// SPDX-License-Identifier: MIT
// torch.autocast("ocl"): PyTorch's own lists of operators per casting policy.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace at::autocast {

namespace {

// Its gradient overflows float16, and a sigmoid before it has already lost precision.
Tensor binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false, "binary_cross_entropy is unsafe under autocast: expected ",
              "binary_cross_entropy_with_logits (BCEWithLogitsLoss), which may be autocast, or a region ",
              "with autocast disabled");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define SINGLE_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define SINGLE_PRECISION_OPTION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(SINGLE_PRECISION)
  AT_FORALL_FP32_SET_OPT_DTYPE(SINGLE_PRECISION_OPTION)
  AT_FORALL_PROMOTE(WIDEST)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  m.impl("binary_cross_entropy", &binary_cross_entropy);
}

}  // namespace

}  // namespace at::autocast
