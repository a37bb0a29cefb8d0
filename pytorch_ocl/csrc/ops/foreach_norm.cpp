// SPDX-License-Identifier: MIT
// _foreach_norm of dense tensors of one dtype; the rest takes PyTorch's loop over single tensors.
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/as_strided_native.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/foreach.hpp>
#include <torch/library.h>

#include <cmath>

#include "generated/functions/tensor.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

std::optional<dlprim::NormOrder> order_of(const at::Scalar& ord) {
  if (ord.isComplex()) return {};
  const double p = ord.toDouble();
  if (p == 1) return dlprim::NormOrder::one;
  if (p == 2) return dlprim::NormOrder::two;
  if (p == INFINITY) return dlprim::NormOrder::infinity;
  return {};
}

bool fits(at::TensorList tensors, dlprim::NormOrder order) {
  if (tensors.empty() || !at::isFloatingType(tensors[0].scalar_type())) return false;
  for (const at::Tensor& tensor : tensors)
    if (tensor.scalar_type() != tensors[0].scalar_type() || tensor.device() != tensors[0].device() ||
        tensor.layout() != at::kStrided || !tensor.is_non_overlapping_and_dense() ||
        (order == dlprim::NormOrder::infinity && tensor.numel() == 0))
      return false;
  return true;
}

std::vector<at::Tensor> foreach_norm(at::TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype) {
  const auto order = order_of(ord);
  if (!order || dtype || !fits(self, *order)) return at::native::foreach_tensor_norm_slow(self, ord, dtype);
  const c10::DeviceGuard guard(self[0].device());
  std::vector<std::int64_t> sizes;
  std::vector<dlprim::BufferRef> data;
  sizes.reserve(self.size()), data.reserve(self.size());
  for (const at::Tensor& tensor : self) sizes.push_back(tensor.numel()), data.push_back(buffer_of(tensor));
  const at::Tensor norms =
      ops::empty_strided({std::int64_t(self.size())}, {1}, self[0].scalar_type(), {}, self[0].device(), {});
  dlprim::foreach_norm(current_queue(), *order, sizes, {data, data_type_of(norms, "_foreach_norm")}, buffer_of(norms));
  std::vector<at::Tensor> results;
  results.reserve(self.size());
  for (std::size_t i = 0; i < self.size(); i++)
    results.push_back(at::native::as_strided_tensorimpl(norms, {}, {}, std::int64_t(i)));
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_foreach_norm.Scalar", &foreach_norm); }

}  // namespace pytorch_ocl
