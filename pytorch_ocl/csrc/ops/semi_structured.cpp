// SPDX-License-Identifier: MIT
// Matrices that keep two of four neighbors, in the forms of PyTorch's two classes for them: CUTLASS' (values, and words in
// its order) and cuSPARSELt's (one tensor; what follows the values is ours alone). Products unpack the matrix.
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <dlprim/primitives/semi_structured.hpp>

#include "generated/functions/semi_structured.h"
#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::TwoOfFour;

bool is_byte_float(at::ScalarType type) { return type == at::kFloat8_e4m3fn; }

void check_type(at::ScalarType type, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      type == at::kHalf || type == at::kBFloat16 || type == at::kFloat || type == at::kChar || is_byte_float(type),
      "\"", op, "\" not implemented for '", type, "'");
}

// Without the meaning of its bits where kernels have none for it.
at::Tensor plain(const at::Tensor& tensor) {
  return is_byte_float(tensor.scalar_type()) ? tensor.view(at::kByte) : tensor;
}

struct Packed {
  at::Tensor values, words;  // memory of both
  TwoOfFour form;
};

Packed packed_of(const at::Tensor& values, const at::Tensor& words, int64_t rows, int64_t columns, bool interleaved,
                 const char* op) {
  Packed packed{plain(values.contiguous()), words.contiguous(), {}};
  packed.form = {data_type_of(packed.values, op), rows, columns, buffer_of(packed.values), buffer_of(packed.words)};
  packed.form.interleaved = interleaved;
  packed.form.word_bytes = interleaved ? int(words.itemsize()) : 2;
  return packed;
}

at::Tensor unpacked(const Packed& packed, at::ScalarType type, const char* op) {
  const at::Tensor dense = at::empty({packed.form.rows, packed.form.columns}, packed.values.options());
  translated([&] { dlprim::expand(current_queue(dense.device()), packed.form, view_of(dense, op)); });
  return dense.view(type);
}

// Of CUTLASS' form.
at::Tensor unpacked(const at::Tensor& values, const at::Tensor& words, const char* op) {
  check_type(values.scalar_type(), op);
  TORCH_CHECK(values.dim() == 2 && words.dim() == 2, op, ": expected matrices of values and of their indices, got ",
              values.dim(), "D and ", words.dim(), "D tensors");
  const at::ScalarType word = values.scalar_type() == at::kChar ? at::kInt : at::kShort;
  TORCH_CHECK(words.scalar_type() == word, op, ": expected indices of dtype ", word, ", got ", words.scalar_type());
  const int64_t rows = values.size(0), columns = 2 * values.size(1);
  const int64_t bits = columns * (values.scalar_type() == at::kFloat ? 2 : 1);
  TORCH_CHECK(words.numel() * int64_t(words.itemsize()) * 8 == rows * bits, op, ": expected indices of ",
              rows * columns, " elements, got ", words.sizes());
  return unpacked(packed_of(values, words, rows, columns, true, op), values.scalar_type(), op);
}

Packed new_packed(const at::Tensor& dense, const char* op) {
  const int64_t rows = dense.size(0), columns = dense.size(1);
  const at::ScalarType word = dense.scalar_type() == at::kChar ? at::kInt : at::kShort;
  const int64_t bits = columns * (dense.scalar_type() == at::kFloat ? 2 : 1);
  const at::Tensor values = at::empty({rows, columns / 2}, dense.options());
  const at::Tensor words = at::empty({rows, bits / 8 / int64_t(c10::elementSize(word))}, dense.options().dtype(word));
  return packed_of(values, words, rows, columns, true, op);
}

// cuSPARSELt's tensors: values, then bits, row after row.
Packed in_one(const at::Tensor& tensor, int64_t rows, int64_t columns, const char* op) {
  const at::Tensor flat = tensor.contiguous().view({-1});
  const int64_t kept = rows * columns / 2;
  return packed_of(flat.narrow(0, 0, kept), flat.narrow(0, kept, flat.numel() - kept), rows, columns, false, op);
}

int64_t size_in_one(at::ScalarType type, int64_t elements) {
  return elements * (c10::elementSize(type) == 1 ? 10 : 9) / 16;
}

// What a product adds, and in which dtype it ends.
struct Finish {
  at::Tensor addend;  // broadcast to the product; may be undefined
  at::Scalar alpha = 1, beta = 1;
  at::Tensor scales;  // instead of alpha
  at::ScalarType type;
};

at::Tensor scaled(at::Tensor result, const Finish& f) {
  if (f.scales.defined()) result = result.mul(f.scales);
  else if (f.alpha.toDouble() != 1) result = result.mul(f.alpha);
  if (f.addend.defined()) result = result.add(f.addend, f.beta);
  if (f.type == at::kChar) result = (result.is_floating_point() ? result.round() : result).clamp(-128, 127);
  return result.to(f.type);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const Finish& f, const char* op) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), op, ": shapes cannot be multiplied, ", a.sizes(),
              " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected operands of one dtype, got ", a.scalar_type(),
              " and ", b.scalar_type());
  if (a.scalar_type() == at::kChar) return scaled(at::_int_mm(a.contiguous(), b), f);
  if (is_byte_float(a.scalar_type()) || f.scales.defined() || f.type != a.scalar_type())
    return scaled(at::mm(a.to(at::kFloat), b.to(at::kFloat)), f);
  if (f.addend.defined()) return at::addmm(f.addend, a, b, f.beta, f.alpha);
  return scaled(at::mm(a, b), f);
}

void check_dense(const at::Tensor& dense, const char* op) {
  check_type(dense.scalar_type(), op);
  TORCH_CHECK(dense.dim() == 2, op, ": expected a matrix, got a ", dense.dim(), "D tensor");
}

dlprim::TileMask mask_of(const at::Tensor& masks, bool transposed, const char* op) {
  TORCH_CHECK(masks.dim() == 4 && masks.scalar_type() == at::kByte && masks.size(2) == 4 && masks.size(3) == 2 &&
                  masks.stride(2) == 2 && masks.stride(3) == 1,
              op, ": expected a mask of bytes as _sparse_semi_structured_tile returns it, got ", masks.sizes());
  return {buffer_of(masks), masks.stride(0), masks.stride(1), transposed};
}

// The matrix (by columns: its transpose) as a mask keeps it, in CUTLASS' form or in one tensor.
Packed masked(const at::Tensor& input, const at::Tensor& masks, bool by_columns, bool in_two, const char* op) {
  const at::Tensor dense = by_columns ? input.t() : input;
  const dlprim::TileMask mask = mask_of(masks, by_columns, op);
  Packed packed;
  if (in_two) {
    packed = new_packed(dense, op);
  } else {
    const at::Tensor whole = at::empty({size_in_one(dense.scalar_type(), dense.numel())}, dense.options());
    packed = in_one(whole, dense.size(0), dense.size(1), op);
    packed.values = whole;
  }
  translated([&] { dlprim::compress(current_queue(dense.device()), packed.form, view_of(dense, op), &mask); });
  return packed;
}

void check_tiles(const at::Tensor& input, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16, "\"", op,
                              "\" not implemented for '", input.scalar_type(), "'");
  TORCH_CHECK(input.dim() == 2 && input.size(0) % 32 == 0 && input.size(1) % 32 == 0, op,
              ": expected a matrix, sizes multiples of 32, got ", input.sizes());
}

at::Tensor column(const std::optional<at::Tensor>& bias) {
  if (!bias || !bias->defined()) return {};
  return bias->dim() == 1 ? bias->unsqueeze(1) : *bias;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> ops::_to_sparse_semi_structured(const at::Tensor& dense) {
  constexpr const char* op = "_to_sparse_semi_structured";
  check_dense(dense, op);
  const at::Tensor matrix = dense.contiguous();
  const Packed packed = new_packed(matrix, op);
  translated([&] { dlprim::compress(current_queue(dense.device()), packed.form, view_of(matrix, op)); });
  return {packed.values, packed.words};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> ops::_sparse_semi_structured_tile(
    const at::Tensor& input, c10::string_view algorithm, bool use_cutlass) {
  constexpr const char* op = "_sparse_semi_structured_tile";
  check_tiles(input, op);
  const bool absolute = algorithm == "largest_abs_values_greedy";
  TORCH_CHECK(absolute || algorithm.empty() || algorithm == "largest_values_greedy", op, ": unknown algorithm \"",
              algorithm, "\"");
  const at::Tensor masks = at::empty({input.size(0) / 8, input.size(1) / 8, 4, 2}, input.options().dtype(at::kByte));
  translated([&] {
    dlprim::choose_tiles(current_queue(input.device()), view_of(input, op), mask_of(masks, false, op), absolute);
  });
  const Packed rows = masked(input, masks, false, use_cutlass, op),
               columns = masked(input, masks, true, use_cutlass, op);
  return {rows.values, rows.words, columns.values, columns.words, masks};
}

std::tuple<at::Tensor, at::Tensor> ops::_sparse_semi_structured_apply(const at::Tensor& input,
                                                                      const at::Tensor& thread_masks) {
  constexpr const char* op = "_sparse_semi_structured_apply";
  check_tiles(input, op);
  return {masked(input, thread_masks, false, true, op).values, masked(input, thread_masks, true, true, op).values};
}

at::Tensor ops::_sparse_semi_structured_apply_dense(const at::Tensor& input, const at::Tensor& thread_masks) {
  constexpr const char* op = "_sparse_semi_structured_apply_dense";
  check_tiles(input, op);
  at::Tensor out = at::empty(input.sizes(), input.options());
  translated([&] {
    dlprim::apply_mask(current_queue(input.device()), view_of(out, op), view_of(input, op),
                       mask_of(thread_masks, false, op));
  });
  return out;
}

at::Tensor ops::_sparse_semi_structured_mm(const at::Tensor& mat1, const at::Tensor& mat1_meta, const at::Tensor& mat2,
                                           std::optional<at::ScalarType> out_dtype) {
  constexpr const char* op = "_sparse_semi_structured_mm";
  Finish finish;
  finish.type = out_dtype.value_or(mat2.scalar_type());
  return product(unpacked(mat1, mat1_meta, op), mat2, finish, op);
}

at::Tensor ops::_sparse_semi_structured_addmm(const at::Tensor& input, const at::Tensor& mat1,
                                              const at::Tensor& mat1_meta, const at::Tensor& mat2,
                                              const at::Scalar& alpha, const at::Scalar& beta,
                                              std::optional<at::ScalarType> out_dtype) {
  constexpr const char* op = "_sparse_semi_structured_addmm";
  return product(unpacked(mat1, mat1_meta, op), mat2,
                 {column(input), alpha, beta, {}, out_dtype.value_or(mat2.scalar_type())}, op);
}

at::Tensor ops::_sparse_semi_structured_linear(const at::Tensor& input, const at::Tensor& weight,
                                               const at::Tensor& meta, const std::optional<at::Tensor>& bias,
                                               std::optional<c10::string_view> activation,
                                               std::optional<at::ScalarType> out_dtype) {
  constexpr const char* op = "_sparse_semi_structured_linear";
  const c10::string_view name = activation.value_or("none");
  TORCH_CHECK(name == "none" || name == "relu" || name == "silu", op, ": unknown activation \"", name, "\"");
  Finish finish;
  finish.type = out_dtype.value_or(input.scalar_type());
  if (bias && bias->defined()) finish.addend = *bias;
  const at::Tensor dense = unpacked(weight, meta, op);
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = dense.size(0);
  at::Tensor out = product(input.reshape({-1, input.size(-1)}), dense.t(), finish, op);
  if (name == "relu") out = at::relu(out);
  if (name == "silu") out = at::silu(out);
  return out.view(sizes);
}

at::Tensor ops::_cslt_compress(const at::Tensor& input) {
  constexpr const char* op = "_cslt_compress";
  check_dense(input, op);
  TORCH_CHECK(input.scalar_type() != at::kFloat, op, ": expected float16, bfloat16, float8_e4m3fn or int8, got Float");
  at::Tensor whole = at::empty({size_in_one(input.scalar_type(), input.numel())}, input.options());
  const Packed packed = in_one(whole, input.size(0), input.size(1), op);
  const at::Tensor dense = plain(input);
  translated([&] { dlprim::compress(current_queue(input.device()), packed.form, view_of(dense, op)); });
  return whole;
}

at::Tensor ops::_cslt_sparse_mm(const at::Tensor& compressed_A, const at::Tensor& dense_B,
                                const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& alpha,
                                std::optional<at::ScalarType> out_dtype, bool transpose_result, int64_t, int64_t,
                                int64_t) {
  constexpr const char* op = "_cslt_sparse_mm";
  check_type(compressed_A.scalar_type(), op);
  TORCH_CHECK(dense_B.dim() == 2 && dense_B.size(0) > 0, op, ": expected a matrix, got ", dense_B.sizes());
  const at::ScalarType type = compressed_A.scalar_type();
  const int64_t k = dense_B.size(0), m = compressed_A.numel() * 16 / (c10::elementSize(type) == 1 ? 10 : 9) / k;
  TORCH_CHECK(size_in_one(type, m * k) == compressed_A.numel(), op, ": a packed matrix of ", compressed_A.numel(),
              " elements does not fit a factor of ", k, " rows");
  Finish finish;
  finish.type = out_dtype.value_or(type);
  finish.addend = column(bias);
  if (alpha && alpha->defined()) finish.scales = alpha->numel() == 1 ? alpha->reshape({1, 1}) : alpha->reshape({-1, 1});
  const at::Tensor matrix = unpacked(in_one(compressed_A, m, k, op), type, op);
  if (!transpose_result) return product(matrix, dense_B, finish, op);
  if (finish.addend.defined()) finish.addend = finish.addend.t();
  if (finish.scales.defined()) finish.scales = finish.scales.t();
  return product(dense_B.t(), matrix.t(), finish, op);
}

// There is one way only.
int64_t ops::_cslt_sparse_mm_search(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                    const std::optional<at::Tensor>&, std::optional<at::ScalarType>, bool) {
  return 0;
}

}  // namespace pytorch_ocl
