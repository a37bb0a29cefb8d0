// SPDX-License-Identifier: MIT
// Matrix products.
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/pointwise_reduce.hpp>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "generated/functions/gemm.h"
#include "generated/structured/_addmm_activation_out.h"
#include "generated/structured/addmm_out.h"
#include "generated/structured/addmv_out.h"
#include "generated/structured/baddbmm_out.h"
#include "generated/structured/bmm_out.h"
#include "generated/structured/mm_out.h"
#include "ops/epilogue.hpp"
#include "ops/precision.hpp"
#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

// The product of a row and a column as a reduction: all of the device reads them once and adds as a tree.
void long_inner_product(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  using Operation = dlprim::PointwiseOperationBroadcastReduce;
  static std::mutex mutex;
  static auto& operations = *new std::unordered_map<dlprim::DataType, Operation>;
  const dlprim::TensorView x = view_of(a.squeeze(-2), op), y = view_of(b.squeeze(-1), op),
                           sum = view_of(out.squeeze(-1), op);
  const Operation* operation = nullptr;
  {
    const std::lock_guard lock(mutex);
    auto found = operations.find(x.dtype);
    if (found == operations.end())
      found = operations
                  .try_emplace(x.dtype, std::vector{x, y}, std::vector{sum}, 0, dlprim::DataType::float32,
                               "y0 = x0 * x1;", "reduce_y0 = 0;", "reduce_y0 += y0;")
                  .first;
    operation = &found->second;
  }
  operation->enqueue(current_queue(out.device()), {x, y}, {sum});
}

// out = activation(alpha * a b + beta * addend); the addend is expanded to out's shape and not read when beta is 0. Of
// one dtype, but out and the addend may be float32 where a and b are 16-bit floats.
void product(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
             const at::Tensor& addend = {}, const at::Scalar& beta = 0, const at::Scalar& alpha = 1,
             dlprim::Activation activation = dlprim::Activation::none) {
  TORCH_CHECK(a.dim() != 2 || a.scalar_type() == b.scalar_type(),
              "expected mat1 and mat2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  if (out.numel() == 0) return;
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, op, ": not implemented for 'Bool'");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected scalar type ", a.scalar_type(), " but found ",
              b.scalar_type());
  const bool wide = out.scalar_type() == at::kFloat && at::isReducedFloatingType(a.scalar_type());
  TORCH_CHECK(wide || a.scalar_type() == out.scalar_type(), op, ": expected operands of dtype ", out.scalar_type(),
              ", got ", a.scalar_type());
  const at::Tensor left = a.resolve_conj(), right = b.resolve_conj();
  dlprim::GemmOptions options;
  if (at::isIntegralType(out.scalar_type(), false)) alpha.toLong(), beta.toLong();  // raise for NaN and infinity
  options.alpha = std::complex<double>(alpha.toComplexDouble()),
  options.beta = std::complex<double>(beta.toComplexDouble());
  options.activation = activation, options.allow_tf32 = allows_tf32();
  at::Tensor expanded;
  if (options.beta != 0.0) {
    expanded = addend.resolve_conj().expand(out.sizes());
    TORCH_CHECK(expanded.scalar_type() == out.scalar_type(), op, ": expected input of dtype ", out.scalar_type(),
                ", got ", expanded.scalar_type());
    options.addend = view_of(expanded, op);
  }
  constexpr int64_t long_vectors = 4096;
  if (out.numel() == 1 && a.numel() >= long_vectors && !wide && !a.is_complex() && options.alpha == 1.0 &&
      options.beta == 0.0 && activation == dlprim::Activation::none)
    return long_inner_product(op, left, right, out);
  dlprim::gemm(current_queue(out.device()), view_of(left, op), view_of(right, op), view_of(out, op), options);
}

at::Tensor inner_product(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  if (a._is_zerotensor() || b._is_zerotensor()) return at::_efficientzerotensor({}, a.options());
  const at::Tensor out = at::empty({}, a.options());
  product(op, a.unsqueeze(0), b.unsqueeze(1), out.view({1, 1}));
  return out;
}

at::Tensor empty_of(const at::Tensor& like, at::ScalarType type) { return at::empty({0}, like.options().dtype(type)); }

// A product whose result's dtype is asked for; `dims` of each operand: 2, or 3 for batches.
at::Tensor product_in(const char* op, int64_t dims, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                      const at::Tensor& out, const at::Tensor& addend = {}, const at::Scalar& beta = 0,
                      const at::Scalar& alpha = 1) {
  TORCH_CHECK(a.dim() == dims && b.dim() == dims, op, ": expected operands of ", dims, " dims, got ", a.dim(), "D and ",
              b.dim(), "D tensors");
  TORCH_CHECK(dims == 2 || a.size(0) == b.size(0), op, ": expected batches of one size, got ", a.sizes(), " and ",
              b.sizes());
  TORCH_CHECK(a.size(-1) == b.size(-2), "mat1 and mat2 shapes cannot be multiplied (", a.size(-2), "x", a.size(-1),
              " and ", b.size(-2), "x", b.size(-1), ")");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": input dtypes must be the same, got ", a.scalar_type(), " and ",
              b.scalar_type());
  const bool wide = type == at::kFloat && at::isReducedFloatingType(a.scalar_type());
  TORCH_CHECK(type == a.scalar_type() || wide, op,
              ": out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, got ", type, " for ",
              a.scalar_type());
  TORCH_CHECK(out.scalar_type() == type, op,
              ": out_dtype must be the same as the dtype of the provided out tensor, got ", type, " and ",
              out.scalar_type());
  at::Tensor start;
  if (addend.defined()) {
    TORCH_CHECK(addend.scalar_type() == type || addend.scalar_type() == a.scalar_type(), op,
                ": self dtype must match either out_dtype or the dtype of the operands, got ", addend.scalar_type());
    start = addend.to(type);
  }
  c10::DimVector sizes(a.sizes());
  sizes.back() = b.size(-1);
  at::native::resize_output(out, sizes);
  product(op, a, b, out, start, beta, alpha);
  return out;
}

// What products of x (M, K) with weights (K, N) take for granted; gives the result's shape.
std::array<int64_t, 2> checked_product(const char* op, const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(0), op,
              ": expected matrices that can be multiplied, got ", x.sizes(), " and ", weight.sizes());
  TORCH_CHECK(x.device() == weight.device(), op, ": expected tensors on one device");
  TORCH_CHECK(x.scalar_type() == weight.scalar_type() && at::isFloatingType(x.scalar_type()), op,
              ": expected operands of one floating dtype, got ", x.scalar_type(), " and ", weight.scalar_type());
  return {x.size(0), weight.size(1)};
}

// activation(x weight + bias), of x (M, K), weight (K, N) and bias (N) or none, for compiled graphs.
at::Tensor product_activation(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              c10::string_view activation) {
  const char* op = "product_activation";
  const auto shape = checked_product(op, x, weight);
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == weight.size(1)), op, ": expected a bias of ",
              weight.size(1), " elements");
  TORCH_CHECK(!bias || x.device() == bias->device(), op, ": expected tensors on one device");
  const c10::DeviceGuard guard(x.device());
  const at::Tensor out = at::empty(shape, x.options());
  translated([&] {
    product(op, x, weight, out, bias.value_or(at::Tensor()), bias ? 1 : 0, 1, activation_of(op, activation));
  });
  return out;
}

// x (M, K) times each of the weights (K, N), for compiled graphs: one launch where x has few rows.
std::vector<at::Tensor> products(const at::Tensor& x, at::TensorList weights) {
  const char* op = "products";
  std::vector<at::Tensor> results;
  const c10::DeviceGuard guard(x.device());
  for (const at::Tensor& weight : weights) results.push_back(at::empty(checked_product(op, x, weight), x.options()));
  translated([&] {
    std::vector<dlprim::TensorView> operands, outputs;
    for (std::size_t i = 0; i < results.size(); i++)
      operands.push_back(view_of(weights[i], op)), outputs.push_back(view_of(results[i], op));
    dlprim::gemm(current_queue(x.device()), view_of(x, op), operands, outputs, allows_tf32());
  });
  return results;
}

// activation(x gate) * (x up), likewise.
at::Tensor gated_product(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                         c10::string_view activation) {
  const char* op = "gated_product";
  const auto shape = checked_product(op, x, gate);
  TORCH_CHECK(checked_product(op, x, up) == shape, op, ": expected weights of one shape, got ", gate.sizes(), " and ",
              up.sizes());
  const c10::DeviceGuard guard(x.device());
  const at::Tensor out = at::empty(shape, x.options());
  translated([&] {
    dlprim::gated_gemm(current_queue(x.device()), view_of(x, op), view_of(gate, op), view_of(up, op), view_of(out, op),
                       activation_of(op, activation), allows_tf32());
  });
  return out;
}

}  // namespace

void structured_mm_out::impl(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  product("mm", self, mat2, out);
}

void structured_bmm_out::impl(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  product("bmm", self, mat2, out);
}

void structured_addmm_out::impl(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  product("addmm", mat1, mat2, out, self, beta, alpha);
}

void structured__addmm_activation_out::impl(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                            const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu,
                                            const at::Tensor& out) {
  product("_addmm_activation", mat1, mat2, out, self, beta, alpha,
          use_gelu ? dlprim::Activation::gelu : dlprim::Activation::relu);
}

void structured_baddbmm_out::impl(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                                  const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  product("baddbmm", batch1, batch2, out, self, beta, alpha);
}

void structured_addmv_out::impl(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec,
                                const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  product("addmv", mat, vec.unsqueeze(1), out.unsqueeze(1), self.expand(out.sizes()).unsqueeze(1), beta, alpha);
}

at::Tensor& ops::_int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2, "_int_mm: expected two matrices, got ", self.dim(), "D and ",
              mat2.dim(), "D tensors");
  TORCH_CHECK(self.size(1) == mat2.size(0), "_int_mm: self.size(1) needs to match mat2.size(0), but got ", self.size(1),
              " and ", mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar && mat2.scalar_type() == at::kChar,
              "_int_mm: expected operands of dtype Char, got ", self.scalar_type(), " and ", mat2.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kInt, "_int_mm: expected a result of dtype Int, got ", out.scalar_type());
  at::native::resize_output(out, {self.size(0), mat2.size(1)});
  if (out.numel() == 0) return out;
  dlprim::gemm(current_queue(out.device()), view_of(self, "_int_mm"), view_of(mat2, "_int_mm"),
               view_of(out, "_int_mm"));
  return out;
}

at::Tensor ops::_int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kInt));
  return ops::_int_mm_out(self, mat2, out);
}

at::Tensor& ops::mm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype,
                              at::Tensor& out) {
  product_in("mm", 2, self, mat2, out_dtype, out);
  return out;
}

at::Tensor ops::mm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  return product_in("mm", 2, self, mat2, out_dtype, empty_of(self, out_dtype));
}

at::Tensor& ops::bmm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype,
                               at::Tensor& out) {
  product_in("bmm", 3, self, mat2, out_dtype, out);
  return out;
}

at::Tensor ops::bmm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  return product_in("bmm", 3, self, mat2, out_dtype, empty_of(self, out_dtype));
}

at::Tensor& ops::addmm_dtype_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                                 at::Tensor& out) {
  product_in("addmm", 2, mat1, mat2, out_dtype, out, self, beta, alpha);
  return out;
}

at::Tensor ops::addmm_dtype(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                            at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha) {
  return product_in("addmm", 2, mat1, mat2, out_dtype, empty_of(self, out_dtype), self, beta, alpha);
}

at::Tensor& ops::baddbmm_dtype_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                                   at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                                   at::Tensor& out) {
  product_in("baddbmm", 3, batch1, batch2, out_dtype, out, self, beta, alpha);
  return out;
}

at::Tensor ops::baddbmm_dtype(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                              at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha) {
  return product_in("baddbmm", 3, batch1, batch2, out_dtype, empty_of(self, out_dtype), self, beta, alpha);
}

at::Tensor ops::dot(const at::Tensor& self, const at::Tensor& tensor) { return inner_product("dot", self, tensor); }

at::Tensor ops::vdot(const at::Tensor& self, const at::Tensor& other) {
  return inner_product("vdot", self.is_complex() ? self.conj() : self, other);
}

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("product_activation(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor");
  m.def("products(Tensor x, Tensor[] weights) -> Tensor[]");
  m.def("gated_product(Tensor x, Tensor gate, Tensor up, str activation) -> Tensor");
}

TORCH_LIBRARY_IMPL(pytorch_ocl, PrivateUse1, m) {
  m.impl("product_activation", &product_activation);
  m.impl("products", &products);
  m.impl("gated_product", &gated_product);
}

}  // namespace pytorch_ocl
