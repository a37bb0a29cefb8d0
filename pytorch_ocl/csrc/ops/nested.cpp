// SPDX-License-Identifier: MIT
// Nested tensors in attention: sequences of unlike lengths are padded and attended to with a mask, so that the kernels
// for dense tensors serve them. Everything else about nested tensors is PyTorch's host code (operators/nested.yaml).
#include <ATen/native/nested/NestedTensorUtils.h>
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_transformer_encoder_layer_fwd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/to_padded_tensor_native.h>

#include "generated/functions/attention.h"
#include "generated/functions/nested.h"

namespace pytorch_ocl {

namespace {

// Sequences [length of each, width] as they lie in a padded tensor [sequences, longest, width]. All on the host.
struct PaddedSequences {
  std::vector<int64_t> lengths;
  int64_t longest = 0, width = 0, total = 0;

  // `sizes`: of the parts of a nested tensor; `longest` at least.
  explicit PaddedSequences(const at::Tensor& sizes, int64_t longest = 0) : longest(longest) {
    const auto rows = sizes.accessor<int64_t, 2>();
    for (int64_t i = 0; i < rows.size(0); i++) {
      lengths.push_back(rows[i][0]), total += rows[i][0], width = rows[i][1];
      this->longest = std::max(this->longest, rows[i][0]);
    }
  }
  // Parts of two dimensions and one width, of which there is at least one.
  static bool of(const at::Tensor& sizes) {
    if (sizes.dim() != 2 || sizes.size(0) == 0 || sizes.size(1) != 2) return false;
    const auto rows = sizes.accessor<int64_t, 2>();
    for (int64_t i = 1; i < rows.size(0); i++)
      if (rows[i][1] != rows[0][1]) return false;
    return true;
  }

  // Rows of [sequences * longest, width] that hold elements.
  at::Tensor rows(c10::Device device) const {
    const at::Tensor host = at::empty({total}, at::device(at::kCPU).dtype(at::kLong).pinned_memory(true));
    int64_t* next = host.mutable_data_ptr<int64_t>();
    for (std::size_t i = 0; i < lengths.size(); i++)
      for (int64_t k = 0; k < lengths[i]; k++) *next++ = int64_t(i) * longest + k;
    return host.to(device, /*non_blocking=*/true);
  }
  at::Tensor padded(const at::Tensor& buffer, double padding) const {
    const int64_t count = int64_t(lengths.size());
    const at::Tensor out = at::full({count * longest, width}, padding, buffer.options());
    if (buffer.numel() > 0) at::Tensor(out).index_copy_(0, rows(buffer.device()), buffer.view({total, width}));
    return out.view({count, longest, width});
  }
  // True where a padded tensor has padding: the masks of attention.
  at::Tensor padding(c10::Device device) const {
    at::Tensor mask = at::full({int64_t(lengths.size()) * longest}, true, at::device(device).dtype(at::kBool));
    if (total > 0) mask.index_fill_(0, rows(device), false);
    return mask.view({int64_t(lengths.size()), longest});
  }
};

const at::Tensor& sizes_of(const at::Tensor& nested) {
  return at::native::get_nested_tensor_impl(nested)->get_nested_sizes();
}

// What layers are normalized over, a row each.
at::Tensor rows_of(const at::Tensor& nested, at::IntArrayRef normalized_shape) {
  TORCH_CHECK(nested.is_nested() && nested.is_contiguous(), "layer_norm: expected a contiguous nested tensor");
  const at::Tensor& sizes = sizes_of(nested);
  const int64_t dims = sizes.dim() == 2 ? sizes.size(1) : 0, count = int64_t(normalized_shape.size());
  TORCH_CHECK(count > 0 && count <= dims, "Given normalized_shape=", normalized_shape,
              ", expected a nested tensor of parts with as many dimensions, got ", dims);
  for (int64_t d = 0; d < count; d++)
    for (int64_t i = 0; i < sizes.size(0); i++) {
      const auto rows = sizes.accessor<int64_t, 2>();
      const int64_t size = rows[i][dims - count + d], first = rows[0][dims - count + d];
      TORCH_CHECK(size == first, "normalized_shape extends into irregular dimensions for the nested tensor");
      TORCH_CHECK(size == normalized_shape[std::size_t(d)], "The shape at dimension ", d, " of normalized_shape is ",
                  normalized_shape[std::size_t(d)], ", that of the nested tensor's parts ", size);
    }
  std::vector<int64_t> shape = normalized_shape.vec();
  const int64_t elements = c10::multiply_integers(shape), total = at::native::get_buffer(nested).numel();
  shape.insert(shape.begin(), elements ? total / elements : 0);
  return at::native::get_buffer(nested).view(shape);
}

bool is_sequences(const at::Tensor& nested) {
  return nested.is_nested() && nested.is_contiguous() && PaddedSequences::of(sizes_of(nested));
}

}  // namespace

namespace ops {

at::Tensor _nested_from_padded(const at::Tensor& padded, const at::Tensor& cpu_nested_shape_example,
                               bool fuse_transform_0213) {
  if (fuse_transform_0213 || padded.dim() != 3 || !PaddedSequences::of(cpu_nested_shape_example))
    return at::native::nested_from_padded_generic(padded, cpu_nested_shape_example, fuse_transform_0213);
  const PaddedSequences sequences(cpu_nested_shape_example, padded.size(1));
  TORCH_CHECK(int64_t(sequences.lengths.size()) == padded.size(0) && sequences.width <= padded.size(2) &&
                  sequences.longest == padded.size(1),
              "_nested_from_padded: expected sizes within ", padded.sizes());
  const at::Tensor rows = padded.reshape({-1, padded.size(2)}).index_select(0, sequences.rows(padded.device()));
  return at::native::wrap_buffer(rows.narrow(1, 0, sequences.width).reshape({-1}), cpu_nested_shape_example);
}

}  // namespace ops

namespace nested {

at::Tensor to_padded_tensor(const at::Tensor& self, double padding, at::OptionalIntArrayRef output_size) {
  if (!is_sequences(self) || self.numel() == 0 || (output_size && output_size->size() != 3))
    return at::native::NestedTensor_to_padded_tensor_generic(self, padding, output_size);
  const PaddedSequences exact(sizes_of(self));
  const bool longer = output_size && (*output_size)[0] == int64_t(exact.lengths.size()) &&
                      (*output_size)[1] >= exact.longest && (*output_size)[2] == exact.width;
  if (output_size && !longer) return at::native::NestedTensor_to_padded_tensor_generic(self, padding, output_size);
  const PaddedSequences sequences(sizes_of(self), output_size ? (*output_size)[1] : 0);
  return sequences.padded(at::native::get_buffer(self), padding);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_layer_norm(const at::Tensor& input,
                                                                 at::IntArrayRef normalized_shape,
                                                                 const std::optional<at::Tensor>& weight,
                                                                 const std::optional<at::Tensor>& bias, double eps) {
  const auto [out, mean, rstd] =
      at::native_layer_norm(rows_of(input, normalized_shape), normalized_shape, weight, bias, eps);
  return {at::native::wrap_buffer(out.view({-1}), sizes_of(input)), mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_layer_norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape, const at::Tensor& mean,
    const at::Tensor& rstd, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
    std::array<bool, 3> output_mask) {
  auto [grad, weight_grad, bias_grad] =
      at::native_layer_norm_backward(rows_of(grad_out, normalized_shape), rows_of(input, normalized_shape),
                                     normalized_shape, mean, rstd, weight, bias, output_mask);
  if (grad.defined()) grad = at::native::wrap_buffer(grad.reshape({-1}), sizes_of(input));
  return {grad, weight_grad, bias_grad};
}

at::Tensor _transformer_encoder_layer_fwd(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                                          const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                          const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                          bool norm_first, double eps, const at::Tensor& norm_weight_1,
                                          const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                          const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                                          const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                                          const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                                          std::optional<int64_t>) {
  TORCH_CHECK(is_sequences(src) && !(mask && mask->defined()),
              "_transformer_encoder_layer_fwd: expected a nested tensor of sequences of one width, and no mask");
  const PaddedSequences sequences(sizes_of(src));
  const at::Tensor out = at::_transformer_encoder_layer_fwd(
      sequences.padded(at::native::get_buffer(src), 0), embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
      proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1,
      ffn_bias_1, ffn_weight_2, ffn_bias_2, sequences.padding(src.device()), /*mask_type=*/1);
  return ops::_nested_from_padded(out, sizes_of(src), false);
}

std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t>) {
  TORCH_CHECK(query.is_same(key) && key.is_same(value) && is_sequences(query) && !(mask && mask->defined()),
              "_native_multi_head_attention: expected self-attention of a nested tensor of sequences of one width, and "
              "no mask");
  const PaddedSequences sequences(sizes_of(query));
  const at::Tensor padded = sequences.padded(at::native::get_buffer(query), 0);
  const auto [out, weights] = at::_native_multi_head_attention(
      padded, padded, padded, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
      sequences.padding(query.device()), need_weights, average_attn_weights, /*mask_type=*/1);
  return {ops::_nested_from_padded(out, sizes_of(query), false), weights};
}

}  // namespace nested

}  // namespace pytorch_ocl
