// SPDX-License-Identifier: MIT
#include "weights.hpp"

#include <dlprim/error.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include "../array.hpp"
#include "blocks.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t part_bytes = std::int64_t(64) << 20;  // of a file in the host's memory at a time

DataType stored_type(WeightType type) {
  return type == WeightType::f32 ? DataType::float32 : type == WeightType::f16 ? DataType::float16 : DataType::bfloat16;
}

std::int64_t rows_of(const WeightTensor& tensor) { return tensor.elements() / tensor.sizes.back(); }

std::vector<std::byte> read(const WeightFile& file, const WeightTensor& tensor, std::int64_t from, std::int64_t bytes) {
  std::vector<std::byte> result(static_cast<std::size_t>(bytes));
  file.read(tensor, std::uint64_t(from), result);
  return result;
}

// Copies elements to the rows of `to` from `first` on; the host waits until it may forget them.
void write_rows(Queue& queue, const Tensor& to, std::int64_t first, std::int64_t rows, const void* elements) {
  const Tensor part = narrow(to, 0, first, rows);
  queue.write(part.view(queue).data, elements, part.bytes(), true);
}

// Numbers as float32, or as float16 or bfloat16 where the tensor has that.
void write_scales(Queue& queue, const Tensor& to, std::int64_t first, std::int64_t rows,
                  const std::vector<float>& values) {
  if (to.dtype() == DataType::float32) return write_rows(queue, to, first, rows, values.data());
  std::vector<std::uint16_t> halves(values.size());
  if (to.dtype() == DataType::bfloat16)  // powers of two
    std::ranges::transform(values, halves.begin(),
                           [](float x) { return std::uint16_t(std::bit_cast<unsigned>(x) >> 16); });
  else std::ranges::transform(values, halves.begin(), float_to_half);
  write_rows(queue, to, first, rows, halves.data());
}

}  // namespace

Weights::Weights(Queue& queue, const WeightFile& file, const std::vector<const WeightTensor*>& tensors, DataType dtype)
    : k_(tensors.at(0)->sizes.back()), dtype_(dtype), type_(tensors[0]->type) {
  for (const WeightTensor* t : tensors) n_ += rows_of(*t);
  const PackedLayout* layout = packed_layout(type_);
  if (layout) {
    const DataType scale = size_of(dtype) != 2 ? DataType::float32
                           : layout->table     ? DataType::bfloat16
                                               : DataType::float16;
    if (layout->table) {
      table_ = Tensor(queue, DataType::float32, {16});
      queue.write(table_.view(queue).data, layout->table, table_.bytes(), true);
    }
    data_ = Tensor(queue, DataType::uint8, {n_, k_ * layout->bits / 8});
    scales_ = Tensor(queue, scale, {n_, k_ / layout->group});
    if (layout->zeros) zeros_ = Tensor(queue, scale, {n_, k_ / layout->group});
  } else {
    data_ = Tensor(queue, dtype, {n_, k_});
  }
  std::int64_t first = 0;
  for (const WeightTensor* t : tensors) {
    layout ? read_packed(queue, file, *t, first) : read_dense(queue, file, *t, first);
    first += rows_of(*t);
  }
}

void Weights::read_dense(Queue& queue, const WeightFile& file, const WeightTensor& tensor, std::int64_t first) {
  const std::int64_t n = rows_of(tensor), row = std::int64_t(tensor.bytes) / n;
  const std::int64_t step = std::max<std::int64_t>(1, part_bytes / row);
  for (std::int64_t at = 0; at < n; at += step) {
    const std::int64_t rows = std::min(step, n - at);
    const std::vector<std::byte> elements = read(file, tensor, at * row, rows * row);
    if (stored_type(type_) == dtype_) {
      write_rows(queue, data_, first + at, rows, elements.data());
    } else {
      const Tensor stored(queue, stored_type(type_), {rows, k_});
      write_rows(queue, stored, 0, rows, elements.data());
      copy(queue, narrow(data_, 0, first + at, rows).view(queue), stored.view(queue));
    }
  }
}

void Weights::read_packed(Queue& queue, const WeightFile& file, const WeightTensor& tensor, std::int64_t first) {
  const PackedLayout& packed = *packed_layout(type_);
  const std::int64_t n = rows_of(tensor), row = std::int64_t(tensor.bytes) / n;
  const std::int64_t blocks = k_ / layout_of(type_).elements, groups = k_ / packed.group;
  const std::int64_t step = std::max<std::int64_t>(1, part_bytes / row);
  for (std::int64_t at = 0; at < n; at += step) {
    const std::int64_t rows = std::min(step, n - at);
    const std::vector<std::byte> stored = read(file, tensor, at * row, rows * row);
    std::vector<std::uint8_t> data(std::size_t(rows * k_ * packed.bits / 8));
    std::vector<float> scales(std::size_t(rows * groups)), zeros(packed.zeros ? scales.size() : 0);
    unpack_blocks(type_, stored.data(), rows * blocks, data.data(), scales.data(), zeros.data());
    write_rows(queue, data_, first + at, rows, data.data());
    write_scales(queue, scales_, first + at, rows, scales);
    if (packed.zeros) write_scales(queue, zeros_, first + at, rows, zeros);
  }
}

PackedWeights Weights::packed(Queue& queue, const Tensor& data, const Tensor& scales, const Tensor& zeros) const {
  const PackedLayout& layout = *packed_layout(type_);
  PackedWeights w;
  w.format = layout.bits == 8 ? WeightFormat::int8 : WeightFormat::int4;
  if (layout.table) w.format = WeightFormat::table4, w.table = table_.view(queue);
  w.n = data.shape()[0], w.k = k_, w.group = layout.group, w.middle = float(layout.middle);
  w.data = data.view(queue).data, w.scales = scales.view(queue);
  if (layout.zeros) w.zeros = zeros.view(queue), w.zero_points = ZeroPoints::added;
  return w;
}

std::size_t Weights::bytes() const noexcept {
  return data_.bytes() + (scales_.defined() ? scales_.bytes() : 0) + (zeros_.defined() ? zeros_.bytes() : 0);
}

void Weights::multiply(Queue& queue, const Tensor& x, const Tensor& out, const Tensor& addend) const {
  const TensorView result = out.view(queue);
  const bool adds = addend.defined();
  if (!packed_layout(type_)) {
    GemmOptions options;
    if (adds) options.addend = expand(addend, out.shape()).view(queue), options.beta = 1;
    return gemm(queue, x.view(queue), transpose(data_).view(queue), result, options);
  }
  const PackedWeights w = packed(queue, data_, scales_, zeros_);
  // The addend of one row is as good as a bias.
  if (!adds || addend.numel() == n_) {
    const TensorView bias = adds ? addend.view(queue).reshaped({n_}) : TensorView();
    return packed_product(queue, x.view(queue), w, result, bias);
  }
  packed_product(queue, x.view(queue), w, result);
  pointwise(queue, PointwiseId::add, {result}, {result, addend.view(queue)}, {1});
}

Tensor Weights::rows(Queue& queue, const Tensor& numbers) const {
  const std::int64_t m = numbers.numel();
  const auto chosen = [&](const Tensor& from) {
    const Tensor result(queue, from.dtype(), {m, from.shape()[1]});
    index_select(queue, result.view(queue), from.view(queue), 0, numbers.view(queue));
    return result;
  };
  if (!packed_layout(type_)) return chosen(data_);
  const Tensor data = chosen(data_), scales = chosen(scales_), zeros = zeros_.defined() ? chosen(zeros_) : Tensor();
  Tensor result(queue, dtype_, {m, k_});
  unpack(queue, packed(queue, data, scales, zeros), result.view(queue));
  return result;
}

Weights Weights::narrowed(std::int64_t first, std::int64_t count) const {
  Weights result = *this;
  result.n_ = count;
  for (Tensor* part : {&result.data_, &result.scales_, &result.zeros_})
    if (part->defined()) *part = narrow(*part, 0, first, count);
  return result;
}

Weights Weights::chosen(Queue& queue, const Tensor& numbers, std::int64_t each) const {
  Weights result = *this;
  const std::int64_t count = numbers.numel();
  result.n_ = count * each;
  for (Tensor* part : {&result.data_, &result.scales_, &result.zeros_}) {
    if (!part->defined()) continue;
    const std::int64_t row = part->shape()[1], block = each * row;
    const Tensor from = part->strided({n_ / each, block}, {block, 1}), to(queue, part->dtype(), {count, block});
    index_select(queue, to.view(queue), from.view(queue), 0, numbers.view(queue));
    *part = to.strided({count * each, row}, {row, 1});
  }
  return result;
}

std::vector<float> read_numbers(const WeightFile& file, const WeightTensor& tensor) {
  if (packed_layout(tensor.type)) throw ValidationError("[language] expected F32, F16 or BF16, got " + tensor.text());
  const std::vector<std::byte> bytes = read(file, tensor, 0, std::int64_t(tensor.bytes));
  std::vector<float> result(std::size_t(tensor.elements()));
  if (tensor.type == WeightType::f32) std::memcpy(result.data(), bytes.data(), bytes.size());
  else
    for (std::size_t i = 0; i < result.size(); i++) {
      std::uint16_t half;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      if (tensor.type == WeightType::f16) result[i] = half_to_float(half);
      else result[i] = std::bit_cast<float>(std::uint32_t(half) << 16);
    }
  return result;
}

Tensor read_vector(Queue& queue, const WeightFile& file, const WeightTensor& tensor, std::int64_t size, DataType dtype,
                   double offset) {
  if (tensor.sizes.size() != 1 || tensor.sizes[0] != size)
    throw ValidationError("[language] expected " + std::to_string(size) + " numbers, got " + tensor.text());
  std::vector<float> numbers = read_numbers(file, tensor);
  for (float& number : numbers) number += float(offset);
  const Tensor stored(queue, DataType::float32, {size});
  queue.write(stored.view(queue).data, numbers.data(), stored.bytes(), true);
  return cast(queue, stored, dtype);
}

}  // namespace dlprim
