// SPDX-License-Identifier: MIT
// Weights quantized by blocks, their numbers being entries of a table: what adapters of libraries call as
// torch.ops.pytorch_ocl.*.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/quantized.hpp>
#include <torch/library.h>

#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

void check_device(const at::Tensor& like, const char* op, std::initializer_list<at::Tensor> others) {
  for (const at::Tensor& other : others)
    TORCH_CHECK(!other.defined() || other.device() == like.device(), op,
                ": expected all tensors to be on the same device, got ", like.device(), " and ", other.device());
}

dlprim::PackedWeights packed_weights(const char* op, const at::Tensor& packed, int64_t n, int64_t k,
                                     const at::Tensor& scales, const at::Tensor& table, int64_t block) {
  TORCH_CHECK(table.numel() == 16 || table.numel() == 256, op, ": expected a table of 16 or 256 numbers, got ",
              table.numel());
  TORCH_CHECK(n >= 0 && k >= 0, op, ": expected sizes of 0 and more, got ", n, " and ", k);
  dlprim::PackedWeights weights;
  weights.format = table.numel() == 16 ? dlprim::WeightFormat::table4 : dlprim::WeightFormat::table8;
  weights.n = n, weights.k = k, weights.group = block;
  TORCH_CHECK(packed.is_contiguous() && int64_t(packed.nbytes()) >= (table.numel() == 16 ? (n * k + 1) / 2 : n * k), op,
              ": expected contiguous weights for ", n, " x ", k, " numbers, got ", packed.nbytes(), " bytes");
  TORCH_CHECK(scales.is_contiguous() && table.is_contiguous(), op, ": expected contiguous scales and table");
  weights.data = buffer_of(packed), weights.table = view_of(table, op);
  weights.scales =
      dlprim::TensorView(buffer_of(scales), data_type_of(scales, op), {std::int64_t(1), std::int64_t(scales.numel())});
  return weights;
}

// x [..., k] times the transpose of weights [n, k].
at::Tensor table_product(const at::Tensor& x, const at::Tensor& packed, int64_t n, const at::Tensor& scales,
                         const at::Tensor& table, int64_t block, const std::optional<at::Tensor>& bias) {
  constexpr const char* op = "table_product";
  check_device(x, op, {packed, scales, table, bias.value_or(at::Tensor())});
  TORCH_CHECK(x.dim() > 0, op, ": expected at least one dimension");
  const c10::DeviceGuard guard(x.device());
  const int64_t k = x.size(-1);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = n;
  const at::Tensor rows = x.reshape({k ? x.numel() / k : 0, k}).contiguous();
  at::Tensor out = at::empty(sizes, x.options());
  const at::Tensor added = bias ? bias->contiguous() : at::Tensor();
  translated([&] {
    const dlprim::PackedWeights weights = packed_weights(op, packed, n, k, scales, table, block);
    dlprim::packed_product(current_queue(), view_of(rows, op), weights, view_of(out.view({rows.size(0), n}), op),
                           added.defined() ? view_of(added, op) : dlprim::TensorView());
  });
  return out;
}

// The first `out.numel()` weights.
void table_unpack(const at::Tensor& packed, const at::Tensor& scales, const at::Tensor& table, int64_t block,
                  at::Tensor& out) {
  constexpr const char* op = "table_unpack";
  check_device(out, op, {packed, scales, table});
  const c10::DeviceGuard guard(out.device());
  translated([&] {
    const dlprim::PackedWeights weights = packed_weights(op, packed, 1, out.numel(), scales, table, block);
    dlprim::unpack(current_queue(), weights, view_of(out, op));
  });
}

// Bytes and scales of `x`. `names` (uint8) are what is stored for the entries of `table`, which ascends.
std::tuple<at::Tensor, at::Tensor> table_pack(const at::Tensor& x, const at::Tensor& table,
                                              const std::optional<at::Tensor>& names, int64_t block) {
  constexpr const char* op = "table_pack";
  check_device(x, op, {table, names.value_or(at::Tensor())});
  TORCH_CHECK(block > 1, op, ": expected blocks of at least two elements, got ", block);
  TORCH_CHECK(
      !names || (names->scalar_type() == at::kByte && names->numel() == table.numel() && names->is_contiguous()), op,
      ": expected a byte for each entry of the table");
  const c10::DeviceGuard guard(x.device());
  const at::Tensor values = x.contiguous();
  const int64_t count = x.numel();
  at::Tensor bytes = at::empty({table.numel() == 16 ? (count + 1) / 2 : count}, x.options().dtype(at::kByte));
  at::Tensor scales = at::empty({(count + block - 1) / block}, x.options().dtype(at::kFloat));
  translated([&] {
    dlprim::quantize_blocks(current_queue(), buffer_of(bytes), view_of(scales, op), view_of(values, op),
                            view_of(table, op), names ? buffer_of(*names) : dlprim::BufferRef{}, block);
  });
  return {bytes, scales};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def(
      "table_product(Tensor x, Tensor packed, int n, Tensor scales, Tensor table, int block, Tensor? bias=None) -> Tensor");
  m.def("table_unpack(Tensor packed, Tensor scales, Tensor table, int block, Tensor(a!) out) -> ()");
  m.def("table_pack(Tensor x, Tensor table, Tensor? names, int block) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(pytorch_ocl, PrivateUse1, m) {
  m.impl("table_product", &table_product);
  m.impl("table_unpack", &table_unpack);
  m.impl("table_pack", &table_pack);
}

}  // namespace pytorch_ocl
