// SPDX-License-Identifier: MIT
// Distances between rows, cross product.
#include <ATen/ExpandUtils.h>
#include <ATen/native/Cross.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <dlprim/primitives/distance.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "generated/functions/distance.h"
#include "ops/dtypes.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

at::Tensor as_batches(const at::Tensor& tensor) {
  const int64_t rows = tensor.size(-2), columns = tensor.size(-1), area = rows * columns;
  return tensor.contiguous().view({area == 0 ? 0 : tensor.numel() / area, rows, columns});
}

at::Tensor distances(const at::Tensor& a, const at::Tensor& b, double p) {
  const at::Tensor x = as_batches(a), y = as_batches(b);
  at::Tensor out = at::empty({x.size(0), x.size(1), y.size(1)}, x.options());
  if (out.numel() > 0)
    dlprim::distances(current_queue(a.device()), view_of(out, "cdist"), view_of(x, "cdist"), view_of(y, "cdist"), p);
  return out;
}

at::Tensor distances_backward(const at::Tensor& grad, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
                              double p) {
  const at::Tensor x = as_batches(a), y = as_batches(b), g = as_batches(grad), d = as_batches(out);
  at::Tensor result = at::empty_like(x);
  dlprim::distances_backward(current_queue(a.device()), view_of(result, "cdist"), view_of(g, "cdist"),
                             view_of(x, "cdist"), view_of(y, "cdist"), view_of(d, "cdist"), p);
  return result.view(a.sizes());
}

void cross_kernel(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, int64_t dim) {
  check_dtype(result, served::integers_ | served::floating_ | served::complex_, "cross");
  if (result.numel() == 0) return;
  std::vector<dlprim::TensorView> inputs, outputs;
  for (const at::Tensor* tensor : {&a, &b})
    for (int64_t k = 0; k < 3; k++) inputs.push_back(view_of(tensor->select(dim, k), "cross"));
  for (int64_t k = 0; k < 3; k++) outputs.push_back(view_of(result.select(dim, k), "cross"));
  // Component k of the product, from elements p, q, r, s of the six inputs: x_p x_q - x_r x_s.
  std::string code;
  const int factors[3][4] = {{1, 5, 2, 4}, {2, 3, 0, 5}, {0, 4, 1, 3}};
  for (int k = 0; k < 3; k++) {
    std::string x[4];
    for (int i = 0; i < 4; i++) x[i] = "x" + std::to_string(factors[k][i]);
    code += "y" + std::to_string(k) + " = ";
    if (!result.is_complex()) code += "ROUNDED(" + x[0] + " * " + x[1] + ") - ROUNDED(" + x[2] + " * " + x[3] + "); ";
    else
      code += "(T)(" + x[0] + ".x * " + x[1] + ".x - " + x[0] + ".y * " + x[1] + ".y - " + x[2] + ".x * " + x[3] +
              ".x + " + x[2] + ".y * " + x[3] + ".y, " + x[0] + ".x * " + x[1] + ".y + " + x[0] + ".y * " + x[1] +
              ".x - " + x[2] + ".x * " + x[3] + ".y - " + x[2] + ".y * " + x[3] + ".x); ";
  }
  dlprim::pointwise_operation(current_queue(result.device()), inputs, outputs, {}, code);
}

}  // namespace

namespace ops {

at::Tensor _cdist_forward(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t>) {
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1),
              "cdist: expected inputs of at least 2 dims with equally many columns, got ", x1.sizes(), " and ",
              x2.sizes());
  TORCH_CHECK(at::isFloatingType(x1.scalar_type()) && x1.scalar_type() == x2.scalar_type(),
              "cdist only supports floating-point dtypes, got ", x1.scalar_type(), " and ", x2.scalar_type());
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  std::vector<int64_t> batch = at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  auto expanded = [&](const at::Tensor& x) {
    std::vector<int64_t> sizes = batch;
    sizes.push_back(x.size(-2)), sizes.push_back(x.size(-1));
    return x.expand(sizes);
  };
  std::vector<int64_t> sizes = batch;
  sizes.push_back(x1.size(-2)), sizes.push_back(x2.size(-2));
  const int64_t columns = x1.size(-1);
  at::Tensor out = at::empty(sizes, x1.options());
  if (out.numel() == 0) return out;
  if (columns == 0) return out.zero_();
  return distances(expanded(x1), expanded(x2), p).view(sizes);
}

at::Tensor _cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p,
                           const at::Tensor& cdist) {
  std::vector<int64_t> batch = at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  auto expanded = [&](const at::Tensor& x) {
    std::vector<int64_t> sizes = batch;
    sizes.push_back(x.size(-2)), sizes.push_back(x.size(-1));
    return x.expand(sizes);
  };
  const at::Tensor a = expanded(x1), b = expanded(x2);
  if (a.numel() == 0 || b.numel() == 0) return at::zeros_like(x1);  // not of the batch's size, as torch.compile expects
  if (p == 0) return at::zeros(a.sizes(), x1.options());
  return distances_backward(grad, a, b, cdist, p);
}

at::Tensor _pdist_forward(const at::Tensor& self, double p) {
  const int64_t n = self.size(0);
  if (n <= 1) return at::empty({0}, self.options());
  if (self.size(1) == 0) return at::zeros({n * (n - 1) / 2}, self.options());
  const at::Tensor x = self.contiguous(), out = at::empty({n * (n - 1) / 2}, self.options());
  dlprim::pair_distances(current_queue(self.device()), view_of(out, "pdist"), view_of(x, "pdist"), p);
  return out;
}

at::Tensor _pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p, const at::Tensor& pdist) {
  if (self.size(0) <= 1 || self.numel() == 0 || p == 0) return at::zeros_like(self);
  const at::Tensor x = self.contiguous(), g = grad.contiguous(), d = pdist.contiguous(), result = at::empty_like(x);
  dlprim::pair_distances_backward(current_queue(self.device()), view_of(result, "pdist"), view_of(g, "pdist"),
                                  view_of(x, "pdist"), view_of(d, "pdist"), p);
  return result;
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(cross_stub, &pytorch_ocl::cross_kernel)
}
