// SPDX-License-Identifier: MIT
// Random numbers: kernels behind PyTorch's shared host code, dropout and the distributions PyTorch has none for.
#include <ATen/MemoryOverlap.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <dlprim/primitives/check.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/random.hpp>

#include "generated/functions/random.h"
#include "ops/dtypes.hpp"
#include "runtime/generator.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using Generator = std::optional<at::Generator>;

dlprim::PhiloxState next_state(const Generator& generator) {
  const auto state = reserve_philox(generator, 1);
  return {state.seed, state.offset};
}

// The memory of a dense tensor in whatever order: which element gets which number does not matter.
dlprim::TensorView flat(const at::Tensor& tensor, const char* op) {
  return dlprim::TensorView(buffer_of(tensor), data_type_of(tensor, op), {tensor.numel()});
}

// Runs fill(view of dense memory) for any tensor.
template <class F>
void fill_dense(const at::Tensor& out, const char* op, F&& fill) {
  if (out.numel() == 0) return;
  if (out.is_non_overlapping_and_dense()) return fill(flat(out, op));
  const at::Tensor dense = at::empty(out.sizes(), out.options());
  fill(flat(dense, op));
  out.copy_(dense);
}

void fill_random(const at::TensorBase& base, dlprim::Distribution distribution, double a, double b,
                 const Generator& generator, const char* op) {
  const at::Tensor out(base);
  fill_dense(out, op, [&](const dlprim::TensorView& view) {
    dlprim::random_fill(current_queue(out.device()), view, distribution, a, b, next_state(generator));
  });
}

void check_continuous(const char* distribution, at::ScalarType type) {
  TORCH_CHECK(at::isFloatingType(type), distribution,
              " distribution is a continuous probability distribution. dtype "
              "must be a floating point but you specified ",
              type);
}

void uniform_kernel(at::TensorIteratorBase& iter, double from, double to, Generator generator) {
  check_dtype(iter.dtype(), served::floating_, "uniform_");
  fill_random(iter.tensor(0), dlprim::Distribution::uniform, from, to, generator, "uniform_");
}
void normal_kernel(const at::TensorBase& self, double mean, double std, Generator generator) {
  check_dtype(self, served::floating_, "normal_");
  fill_random(self, dlprim::Distribution::normal, mean, std, generator, "normal_");
}
void log_normal_kernel(at::TensorIteratorBase& iter, double mean, double std, Generator generator) {
  check_dtype(iter.dtype(), served::floating_, "log_normal_");
  fill_random(iter.tensor(0), dlprim::Distribution::log_normal, mean, std, generator, "log_normal_");
}
void exponential_kernel(at::TensorIteratorBase& iter, double rate, Generator generator) {
  check_continuous("Exponential", iter.dtype());
  fill_random(iter.tensor(0), dlprim::Distribution::exponential, rate, 0, generator, "exponential_");
}
void cauchy_kernel(at::TensorIteratorBase& iter, double median, double sigma, Generator generator) {
  check_continuous("Cauchy", iter.dtype());
  fill_random(iter.tensor(0), dlprim::Distribution::cauchy, median, sigma, generator, "cauchy_");
}
void geometric_kernel(at::TensorIteratorBase& iter, double p, Generator generator) {
  check_dtype(iter.dtype(), served::integers_ | served::floating_, "geometric_");
  fill_random(iter.tensor(0), dlprim::Distribution::geometric, p, 0, generator, "geometric_");
}
void bernoulli_kernel(const at::TensorBase& self, double p, Generator generator) {
  check_dtype(self, ~served::complex_, "bernoulli_");
  fill_random(self, dlprim::Distribution::bernoulli, p, 0, generator, "bernoulli_");
}

void bernoulli_tensor_kernel(const at::TensorBase& self, const at::TensorBase& p, Generator generator) {
  at::assert_no_partial_overlap(self, p);
  const at::Tensor out(self);
  at::assert_no_internal_overlap(out);
  check_dtype(self, ~served::complex_, "bernoulli_");
  check_dtype(p, served::floating_, "bernoulli_tensor_p_");
  const at::Tensor probability = at::Tensor(p).to(self.device()).expand(self.sizes()).contiguous();
  const at::Tensor target = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  if (out.numel() == 0) return;
  dlprim::check_range(current_queue(out.device()), flat(probability, "bernoulli_"), 0, 1,
                      "bernoulli_: expected every p within 0 <= p <= 1");
  dlprim::random_bernoulli(current_queue(out.device()), flat(target, "bernoulli_"), flat(probability, "bernoulli_"),
                           next_state(generator));
  if (!target.is_same(out)) out.copy_(target);
}

void fill_integers(const at::TensorBase& base, std::uint64_t range, std::int64_t first, const Generator& generator) {
  const at::Tensor out(base);
  fill_dense(out, "random_", [&](const dlprim::TensorView& view) {
    dlprim::random_integers(current_queue(out.device()), view, range, first, next_state(generator));
  });
}

void random_from_to_kernel(at::TensorIteratorBase& iter, std::uint64_t range, std::int64_t from, Generator generator) {
  fill_integers(iter.tensor(0), range, from, generator);
}
void random_full_range_kernel(at::TensorIteratorBase& iter, Generator generator) {
  fill_integers(iter.tensor(0), 0, 0, generator);
}

// 0 ... the largest number that the dtype, or its mantissa, holds.
std::uint64_t natural_range(at::ScalarType type) {
  switch (type) {
    case at::kBool: return 2;
    case at::kByte: return 1u << 8;
    case at::kChar: return 1u << 7;
    case at::kShort: return 1u << 15;
    case at::kInt: return 1u << 31;
    case at::kLong: return std::uint64_t(1) << 63;
    case at::kUInt16: return 1u << 16;
    case at::kUInt32: return std::uint64_t(1) << 32;
    case at::kHalf: return (1u << 11) + 1;
    case at::kBFloat16: return (1u << 8) + 1;
    case at::kFloat: return (1u << 24) + 1;
    case at::kDouble: return (std::uint64_t(1) << 53) + 1;
    default: return 0;
  }
}
void random_kernel(at::TensorIteratorBase& iter, Generator generator) {
  fill_integers(iter.tensor(0), natural_range(iter.dtype()), 0, generator);
}

void multinomial_kernel(at::Tensor& result, const at::Tensor& self, std::int64_t samples, Generator generator) {
  const at::Tensor weights = self.dim() == 1 ? self.unsqueeze(0) : self;
  at::_assert_async(weights.max().lt(std::numeric_limits<double>::infinity()).logical_and(weights.min().ge(0)),
                    "probability tensor contains either `inf`, `nan` or element < 0");
  const bool small = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const at::Tensor sums = at::cumsum(small ? weights.to(at::kFloat) : weights, 1).contiguous();
  const at::Tensor out = at::empty({weights.size(0), samples}, result.options());
  if (out.numel() > 0)
    dlprim::random_categorical(current_queue(self.device()), view_of(sums, "multinomial"), view_of(out, "multinomial"),
                               next_state(generator));
  result.copy_(self.dim() == 1 ? out.squeeze(0) : out);
}

// A distribution with parameters per element, all of `self`'s dtype.
template <class F>
at::Tensor sample_each(const at::Tensor& self, const Generator& generator, const char* op, F&& sample) {
  at::Tensor out = at::empty(self.sizes(), self.options());
  if (out.numel() > 0) sample(current_queue(self.device()), flat(out, op), next_state(generator));
  return out;
}

}  // namespace

namespace ops {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || input.numel() == 0)
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), "dropout: expected a floating dtype, got ", input.scalar_type());
  const at::Tensor dense = input.is_non_overlapping_and_dense() ? input : input.clone();  // in its order
  at::Tensor out = at::empty_like(dense), mask = at::empty_like(dense, dense.options().dtype(at::kBool));
  dlprim::dropout(current_queue(input.device()), flat(dense, "dropout"), flat(out, "dropout"), flat(mask, "dropout"), p,
                  next_state(std::nullopt));
  return {out, mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  if (!at::isFloatingType(grad_output.scalar_type())) return at::mul(grad_output, mask).mul(scale);
  at::Tensor grad_input = at::empty_like(grad_output);
  if (grad_input.numel() > 0)
    dlprim::pointwise_operation(
        current_queue(grad_output.device()),
        {view_of(grad_output, "native_dropout_backward"), view_of(mask, "native_dropout_backward")},
        {view_of(grad_input, "native_dropout_backward")}, {scale}, "y0 = x1 != 0 ? x0 * w0 : 0;",
        dlprim::compute_type(data_type_of(grad_output, "native_dropout_backward")));
  return grad_input;
}

// As on CUDA devices: `p` is the chance to keep an element, and the mask is of bytes.
std::tuple<at::Tensor, at::Tensor> _fused_dropout(const at::Tensor& self, double p, Generator generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "_fused_dropout: expected a floating dtype, got ",
              self.scalar_type());
  const at::Tensor dense = self.is_non_overlapping_and_dense() ? self : self.clone();
  at::Tensor out = at::empty_like(dense), mask = at::empty_like(dense, dense.options().dtype(at::kByte));
  if (self.numel() > 0)
    dlprim::dropout(current_queue(self.device()), flat(dense, "_fused_dropout"), flat(out, "_fused_dropout"),
                    flat(mask.view(at::kBool), "_fused_dropout"), 1 - p, next_state(generator));
  return {out, mask};
}

at::Tensor _masked_scale(const at::Tensor& self, const at::Tensor& mask, double scale) {
  TORCH_CHECK(mask.scalar_type() == at::kByte, "mask should be torch.uint8 dtype");
  return native_dropout_backward(self, mask, scale);
}

at::Tensor& randperm_generator_out(int64_t n, Generator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  const at::Tensor target = out.is_contiguous() ? out : at::empty({n}, out.options());
  if (n > 0) dlprim::random_permutation(current_queue(out.device()), flat(target, "randperm"), next_state(generator));
  if (!target.is_same(out)) out.copy_(target);
  return out;
}

at::Tensor _standard_gamma(const at::Tensor& self, Generator generator) {
  const at::Tensor shape = self.contiguous();
  return sample_each(self, generator, "_standard_gamma", [&](auto& queue, const auto& out, auto state) {
    dlprim::random_gamma(queue, out, flat(shape, "_standard_gamma"), state);
  });
}

at::Tensor _sample_dirichlet(const at::Tensor& self, Generator generator) {
  const at::Tensor gamma = _standard_gamma(self, std::move(generator));
  return gamma.div(gamma.sum(-1, true));
}

at::Tensor poisson(const at::Tensor& self, Generator generator) {
  const at::Tensor rate = self.contiguous();
  dlprim::check_range(current_queue(self.device()), flat(rate, "poisson"), 0, std::numeric_limits<float>::infinity(),
                      "invalid Poisson rate, expected rate to be non-negative");
  return sample_each(self, generator, "poisson", [&](auto& queue, const auto& out, auto state) {
    dlprim::random_poisson(queue, out, flat(rate, "poisson"), state);
  });
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, Generator generator) {
  TORCH_CHECK(count.scalar_type() == prob.scalar_type(), "binomial: expected count and prob of one dtype, got ",
              count.scalar_type(), " and ", prob.scalar_type());
  const auto sizes = at::infer_size(count.sizes(), prob.sizes());
  const at::Tensor trials = count.expand(sizes).contiguous(), chance = prob.expand(sizes).contiguous();
  return sample_each(trials, generator, "binomial", [&](auto& queue, const auto& out, auto state) {
    dlprim::random_binomial(queue, out, flat(trials, "binomial"), flat(chance, "binomial"), state);
  });
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                                 const at::Scalar& upper, bool training, Generator generator, at::Tensor& out) {
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  const double low = lower.to<double>(), high = upper.to<double>();
  if (!training) return at::leaky_relu_out(out, self, (low + high) / 2);
  TORCH_CHECK(low <= high, "Lower bound should be less than or equal to the upper bound");
  // Not by uniform_: where tangents are batched, PyTorch refuses calls of it.
  fill_random(noise, dlprim::Distribution::uniform, low, high, generator, "rrelu_with_noise");
  noise.masked_fill_(self.gt(0), 1);
  return at::mul_out(out, self, noise);
}

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                            bool training, Generator generator) {
  at::Tensor out = at::empty_like(self);
  rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
  return out;
}

at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                              bool training, Generator generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(uniform_stub, &pytorch_ocl::uniform_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(normal_stub, &pytorch_ocl::normal_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(log_normal_stub, &pytorch_ocl::log_normal_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(exponential_stub, &pytorch_ocl::exponential_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(cauchy_stub, &pytorch_ocl::cauchy_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(geometric_stub, &pytorch_ocl::geometric_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_scalar_stub, &pytorch_ocl::bernoulli_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_tensor_stub, &pytorch_ocl::bernoulli_tensor_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(random_from_to_stub, &pytorch_ocl::random_from_to_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(random_full_64_bits_range_stub, &pytorch_ocl::random_full_range_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(random_stub, &pytorch_ocl::random_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &pytorch_ocl::multinomial_kernel)
}  // namespace at::native
