// SPDX-License-Identifier: MIT
// What the algorithms of this folder share.
#pragma once
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/linalg.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

namespace dlprim::linalg {

/// Matrix of linalg.clh.
struct Strides {
  cl_long batch, row, col;
};
inline Strides strides_of(const TensorView& m) { return {m.strides[0], m.strides[1], m.strides[2]}; }

/// Throws ValidationError unless `m` is a batch of matrices of a dtype that linear algebra knows.
void check_matrix(const char* op, const TensorView& m);
/// Throws ValidationError saying what was expected unless `good`.
void check(bool good, const char* op, const char* expected);

/// A source of kernels/linalg with the definitions of linalg.clh.
KernelSource source(const char* file, const char* kernel, DataType type);

/// Defines for a kernel that takes squares of columns of `type` which of them are zero, and which count
/// (rescaling.clh); `scaled`: elements are about 1 at most, and small squares are zero. Gives `kernel`.
KernelSource& define_squares(KernelSource& kernel, DataType type, bool scaled);
DataType real_of(DataType type);

inline TensorView block(const TensorView& m, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) {
  return m.narrowed(1, i, rows).narrowed(2, j, columns);
}
inline TensorView transposed(TensorView m) {
  std::swap(m.sizes[1], m.sizes[2]), std::swap(m.strides[1], m.strides[2]);
  return m;
}

/// c = alpha a b + beta c in the full precision of the type.
void multiply(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c, double alpha = 1,
              double beta = 0);

/// A contiguous tensor that lives as long as this object, in the order of the queue.
class Temporary {
 public:
  Temporary() = default;
  Temporary(Queue& queue, DataType type, std::initializer_list<std::int64_t> sizes);
  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }

 private:
  Workspace memory_;
  TensorView view_;
};

/// The conjugate of a complex matrix in `storage`; a real one as it is.
TensorView conjugated(Queue& queue, const TensorView& m, Temporary& storage);

}  // namespace dlprim::linalg
