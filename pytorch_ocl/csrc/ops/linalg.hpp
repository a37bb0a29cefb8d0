// SPDX-License-Identifier: MIT
// Batches of matrices, as dlprim's linear algebra takes them.
#pragma once
#include <dlprim/primitives/linalg.hpp>

#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

/// A tensor [..., m, n] as [batch, m, n], a copy where its leading dimensions are no single stretch.
inline at::Tensor as_matrices(const at::Tensor& tensor) {
  int64_t batch = 1;
  for (int64_t d = 0; d + 2 < tensor.dim(); d++) batch *= tensor.size(d);
  return tensor.resolve_conj().resolve_neg().reshape({batch, tensor.size(-2), tensor.size(-1)});
}

/// A tensor [..., n] as [batch, n], contiguous.
inline at::Tensor as_vectors(const at::Tensor& tensor) {
  int64_t batch = 1;
  for (int64_t d = 0; d + 1 < tensor.dim(); d++) batch *= tensor.size(d);
  return tensor.resolve_conj().resolve_neg().contiguous().view({batch, tensor.size(-1)});
}

/// A view of matrices that are factored or solved for. Raises NotImplementedError, worded as PyTorch's, for dtypes that
/// have no such arithmetic.
inline dlprim::TensorView matrix_view(const at::Tensor& matrices, const char* op) {
  const at::ScalarType type = matrices.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(
      type == at::kFloat || type == at::kDouble || type == at::kComplexFloat || type == at::kComplexDouble, '"', op,
      "\" not implemented for '", type, "'");
  return view_of(matrices, op);
}

/// A tensor that is worked on in another form, into which it is copied only where it must be; the result of finish().
class InPlace {
 public:
  InPlace(const at::Tensor& tensor, at::Tensor (*form)(const at::Tensor&)) : tensor_(tensor), form_(form(tensor)) {}
  const at::Tensor& form() const { return form_; }
  dlprim::TensorView view(const char* op) const { return view_of(form_, op); }
  void finish() const {
    if (!form_.is_alias_of(tensor_)) tensor_.copy_(form_.view(tensor_.sizes()));
  }

 private:
  at::Tensor tensor_, form_;
};

inline dlprim::TensorView flipped(dlprim::TensorView m) {
  std::swap(m.sizes[1], m.sizes[2]), std::swap(m.strides[1], m.strides[2]);
  return m;
}

}  // namespace pytorch_ocl
