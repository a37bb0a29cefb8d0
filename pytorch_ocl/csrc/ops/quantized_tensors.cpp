// SPDX-License-Identifier: MIT
// Tensors of quantized numbers (torch.quantize_per_tensor): PyTorch's quantizers over the arithmetic here. What the CUDA
// device has of them; networks of such tensors have no operators there either.
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/ops/_empty_affine_quantized_native.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_native.h>
#include <ATen/ops/_make_per_tensor_quantized_tensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/dequantize_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/empty_strided_native.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/max_native.h>
#include <ATen/ops/min_native.h>
#include <ATen/ops/q_per_channel_axis_native.h>
#include <ATen/ops/q_per_channel_scales_native.h>
#include <ATen/ops/q_per_channel_zero_points_native.h>
#include <ATen/ops/q_scale_native.h>
#include <ATen/ops/q_zero_point_native.h>
#include <ATen/ops/qscheme_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/squeeze_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <dlprim/primitives/pointwise.hpp>
#include <torch/library.h>

#include "generated/functions/quantized_tensors.h"
#include "runtime/device.hpp"
#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

constexpr const char* op = "quantize";

at::ScalarType number_type(const at::Tensor& quantized) {
  const at::ScalarType type = quantized.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kQInt8 || type == at::kQUInt8 || type == at::kQInt32, "\"", op,
                              "\" not implemented for '", type, "' on ", quantized.device());
  return at::toUnderlying(type);
}

// The numbers of a quantized tensor: the same memory as a plain tensor.
at::Tensor numbers(const at::Tensor& quantized) {
  if (!quantized.is_quantized()) return quantized;
  const auto key = quantized.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1;
  at::Tensor plain = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(quantized.storage()), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(number_type(quantized)));
  plain.unsafeGetTensorImpl()->set_storage_offset(quantized.storage_offset());
  plain.unsafeGetTensorImpl()->set_sizes_and_strides(quantized.sizes(), quantized.strides());
  return plain;
}

// Scales or zero points along `axis` of a tensor.
at::Tensor along(const at::Tensor& values, const at::Tensor& tensor, int64_t axis) {
  std::vector<int64_t> sizes(std::size_t(tensor.dim()), 1);
  sizes[std::size_t(axis)] = values.numel();
  return values.to(tensor.device(), at::kFloat).reshape(sizes);
}

void compute(const at::Tensor& out, at::ArrayRef<at::Tensor> inputs, std::initializer_list<dlprim::Scalar> scalars,
             const char* statements) {
  if (out.numel() == 0) return;
  translated([&] {
    std::vector<dlprim::TensorView> in;
    for (const at::Tensor& tensor : inputs) in.push_back(view_of(tensor, op));
    const dlprim::TensorView result = view_of(out, op);
    dlprim::pointwise_operation(current_queue(out.device()), in, {&result, 1},
                                std::span<const dlprim::Scalar>(scalars.begin(), scalars.size()), statements,
                                dlprim::DataType::float32);
  });
}

// The least and the largest float that the type holds.
std::pair<double, double> range_of(at::ScalarType type) {
  if (type == at::kByte) return {0, 255};
  if (type == at::kChar) return {-128, 127};
  return {-2147483648., 2147483520.};
}

void quantize_tensor(const at::Tensor& rtensor, at::Tensor& qtensor, double scale, int64_t zero_point) {
  const at::Tensor out = numbers(qtensor);
  const auto [least, most] = range_of(out.scalar_type());
  compute(out, {rtensor}, {1.0f / float(scale), zero_point, least, most},
          "y0 = fmin(fmax(rint(x0 * w0) + w1, w2), w3);");
}

void dequantize_tensor(const at::Tensor& qtensor, at::Tensor& rtensor, double scale, int64_t zero_point) {
  compute(rtensor, {numbers(qtensor)}, {scale, zero_point}, "y0 = (x0 - w1) * w0;");
}

// By an expression of x0 and the channel's scale x1 and zero point x2, between the limits w0 and w1.
void quantize_channels_as(const char* expression, const at::Tensor& rtensor, at::Tensor& qtensor,
                          const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis) {
  const at::Tensor out = numbers(qtensor);
  const auto [least, most] = range_of(out.scalar_type());
  compute(out, {rtensor, along(scales, rtensor, axis), along(zero_points, rtensor, axis)}, {least, most}, expression);
}

void quantize_channels(const at::Tensor& rtensor, at::Tensor& qtensor, const at::Tensor& scales,
                       const at::Tensor& zero_points, int64_t axis) {
  quantize_channels_as("y0 = fmin(fmax(rint(x0 * (1 / x1)) + x2, w0), w1);", rtensor, qtensor, scales, zero_points,
                       axis);
}

// Zero points that are no integers are added before rounding.
void quantize_channels_by_floats(const at::Tensor& rtensor, at::Tensor& qtensor, const at::Tensor& scales,
                                 const at::Tensor& zero_points, int64_t axis) {
  quantize_channels_as("y0 = fmin(fmax(rint(x0 * (1 / x1) + x2), w0), w1);", rtensor, qtensor, scales, zero_points,
                       axis);
}

void dequantize_channels(const at::Tensor& qtensor, at::Tensor& rtensor, const at::Tensor& scales,
                         const at::Tensor& zero_points, int64_t axis) {
  compute(rtensor, {numbers(qtensor), along(scales, rtensor, axis), along(zero_points, rtensor, axis)}, {},
          "y0 = (x0 - x2) * x1;");
}

at::QuantizerPtr quantizer_of(const at::Tensor& quantized) { return at::get_qtensorimpl(quantized)->quantizer(); }

// The quantizer of `tensor` for a tensor of another device.
at::QuantizerPtr quantizer_for(const at::Tensor& tensor, c10::Device device) {
  const auto scheme = tensor.qscheme();
  if (scheme != at::kPerChannelAffine && scheme != at::kPerChannelAffineFloatQParams) return quantizer_of(tensor);
  return at::make_per_channel_affine_quantizer(tensor.q_per_channel_scales().to(device),
                                               tensor.q_per_channel_zero_points().to(device),
                                               tensor.q_per_channel_axis(), tensor.scalar_type());
}

at::Tensor int_repr(const at::Tensor& self) { return numbers(self).clone(self.suggest_memory_format()); }

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.is_quantized(), "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
                                   "dequantize to get a float Tensor from a quantized Tensor");
  if (src.is_quantized()) {
    TORCH_CHECK(self.scalar_type() == src.scalar_type(), "Quantized copy only works with Tensors of one dtype, got ",
                self.scalar_type(), " and ", src.scalar_type());
    if (!self.is_same(src)) at::set_quantizer_(self, quantizer_for(src, self.device()));
    numbers(self).copy_(numbers(src), non_blocking);
  } else {
    TORCH_CHECK(src.scalar_type() == at::kFloat, "Quantized copy only works with kFloat as source Tensor, got ",
                src.scalar_type());
    numbers(self).copy_(numbers(quantizer_of(self)->quantize(src.to(self.device()).expand(self.sizes()))));
  }
  return self;
}

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  at::Tensor result = at::native::empty_like_quantized(self, {}, {}, {}, {}, format);
  numbers(result).copy_(numbers(self));
  return result;
}

at::Tensor relu(const at::Tensor& self) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine, "relu: expected a tensor quantized with one scale");
  at::Tensor result = clone(self, std::nullopt);
  numbers(result).clamp_min_(self.q_zero_point());
  return result;
}

at::Tensor& relu_(at::Tensor& self) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine, "relu_: expected a tensor quantized with one scale");
  numbers(self).clamp_min_(self.q_zero_point());
  return self;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine, "Only per_tensor quantized quantized tensors are supported by "
                                                      "index_select.");
  return at::_make_per_tensor_quantized_tensor(numbers(self).index_select(dim, index), self.q_scale(),
                                               self.q_zero_point());
}

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine, "flip: expected a tensor quantized with one scale");
  return at::_make_per_tensor_quantized_tensor(numbers(self).flip(dims), self.q_scale(), self.q_zero_point());
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  if (!other.is_quantized() || self.device() != other.device() || self.sizes() != other.sizes() ||
      self.scalar_type() != other.scalar_type() || !quantizer_of(self)->equalTo(quantizer_of(other)))
    return false;
  return numbers(self).equal(numbers(other));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  using namespace at::native;  // NOLINT(google-build-using-namespace): a table of its functions
  m.impl("empty.memory_format", TORCH_FN(empty_unknown_quantized));
  m.impl("empty_strided", TORCH_FN(empty_strided_unknown_quantized));
  m.impl("empty_quantized", TORCH_FN(empty_quantized));
  m.impl("empty_like", TORCH_FN(empty_like_quantized));
  m.impl("_empty_affine_quantized", TORCH_FN(empty_affine_quantized));
  m.impl("_empty_per_channel_affine_quantized", TORCH_FN(empty_per_channel_affine_quantized));
  m.impl("as_strided", TORCH_FN(as_strided_qtensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(_reshape_alias));
  m.impl("unfold", TORCH_FN(unfold));
  m.impl("squeeze", TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&)>(squeeze_quantized)));
  m.impl("squeeze.dim", TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(squeeze_quantized)));
  m.impl("squeeze.dims", TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(squeeze_quantized)));
  m.impl("unsqueeze", TORCH_FN(unsqueeze_quantized));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_quantized_));
  m.impl("dequantize.self", TORCH_FN(dequantize_quantized));
  m.impl("qscheme", TORCH_FN(qscheme_quant));
  m.impl("q_scale", TORCH_FN(q_scale_quant));
  m.impl("q_zero_point", TORCH_FN(q_zero_point_quant));
  m.impl("q_per_channel_scales", TORCH_FN(at::native::q_per_channel_scales));
  m.impl("q_per_channel_zero_points", TORCH_FN(at::native::q_per_channel_zero_points));
  m.impl("q_per_channel_axis", TORCH_FN(at::native::q_per_channel_axis));
  m.impl("max.dim", TORCH_FN(qmax));
  m.impl("min.dim", TORCH_FN(qmin));
  m.impl("fill_.Scalar", TORCH_FN(static_cast<at::Tensor& (*)(at::Tensor&, const at::Scalar&)>(fill_quantized_)));
  m.impl("fill_.Tensor", TORCH_FN(static_cast<at::Tensor& (*)(at::Tensor&, const at::Tensor&)>(fill_quantized_)));
  m.impl("int_repr", TORCH_FN(pytorch_ocl::int_repr));
  m.impl("copy_", TORCH_FN(pytorch_ocl::copy_));
  m.impl("clone", TORCH_FN(pytorch_ocl::clone));
  m.impl("relu", TORCH_FN(pytorch_ocl::relu));
  m.impl("relu_", TORCH_FN(pytorch_ocl::relu_));
  m.impl("index_select", TORCH_FN(pytorch_ocl::index_select));
  m.impl("flip", TORCH_FN(pytorch_ocl::flip));
  m.impl("equal", TORCH_FN(pytorch_ocl::equal));
}

}  // namespace

at::Tensor ops::_make_per_tensor_quantized_tensor(const at::Tensor& self, double scale, int64_t zero_point) {
  at::Tensor result =
      at::new_qtensor(self.sizes(), self.options().dtype(at::toQIntType(self.scalar_type())),
                      at::make_per_tensor_affine_quantizer(scale, zero_point, at::toQIntType(self.scalar_type())));
  numbers(result).copy_(self);
  return result;
}

at::Tensor ops::_make_per_channel_quantized_tensor(const at::Tensor& self, const at::Tensor& scale,
                                                   const at::Tensor& zero_point, int64_t axis) {
  at::Tensor result = at::new_qtensor(
      self.sizes(), self.options().dtype(at::toQIntType(self.scalar_type())),
      at::make_per_channel_affine_quantizer(scale, zero_point, axis, at::toQIntType(self.scalar_type())));
  numbers(result).copy_(self);
  return result;
}

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_tensor_affine_stub, &pytorch_ocl::quantize_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_tensor_affine_stub, &pytorch_ocl::dequantize_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_affine_stub, &pytorch_ocl::quantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_affine_stub, &pytorch_ocl::dequantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_float_qparams_stub, &pytorch_ocl::quantize_channels_by_floats)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_float_qparams_stub, &pytorch_ocl::dequantize_channels)
}  // namespace at::native
