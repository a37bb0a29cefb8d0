// SPDX-License-Identifier: MIT
#include "tensors.hpp"

#include <dlprim/error.hpp>

#include <cstring>

#include "../element_type.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t uint4 = 21, int4 = 22;  // ONNX's numbers

template <class T, class Field>
void convert(std::vector<std::byte>& bytes, const Field& field) {
  for (const auto& element : field) {
    const T value = T(element);
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(T));
  }
}

// Elements of the field that holds this type's elements, each as wide as the type.
std::vector<std::byte> typed_data(const onnx_format::Tensor& t, DataType dtype) {
  std::vector<std::byte> bytes;
  switch (dtype) {
    case DataType::float32:
    case DataType::complex64: convert<float>(bytes, t.float_data()); break;
    case DataType::float64:
    case DataType::complex128: convert<double>(bytes, t.double_data()); break;
    case DataType::int64: convert<std::int64_t>(bytes, t.int64_data()); break;
    case DataType::uint64: convert<std::uint64_t>(bytes, t.uint64_data()); break;
    case DataType::uint32: convert<std::uint32_t>(bytes, t.uint64_data()); break;
    case DataType::int32: convert<std::int32_t>(bytes, t.int32_data()); break;
    case DataType::int16:
    case DataType::uint16:
    case DataType::float16:
    case DataType::bfloat16: convert<std::uint16_t>(bytes, t.int32_data()); break;
    default: convert<std::uint8_t>(bytes, t.int32_data());
  }
  return bytes;
}

std::size_t bytes_of(const onnx_format::Tensor& t, DataType dtype) {
  std::uint64_t bytes = size_of(dtype);
  for (std::int64_t size : t.dims()) {
    if (size < 0 || (size > 0 && bytes > (std::uint64_t(1) << 46) / std::uint64_t(size)))
      throw ValidationError("[onnx] tensor '" + t.name() + "' has an impossible shape");
    bytes *= std::uint64_t(size);
  }
  return bytes;
}

// Two numbers lie in a byte, the first in the low bits; here each has its own.
Tensor widened(const onnx_format::Tensor& t, ExternalData& external) {
  const bool negative = t.data_type() == int4;
  const DataType dtype = negative ? DataType::int8 : DataType::uint8;
  const std::size_t count = bytes_of(t, dtype), bytes = (count + 1) / 2;
  std::vector<std::byte> packed;
  if (t.data_location() == 1) packed = external.read(t, bytes);
  else if (t.has_raw_data()) {
    const auto* from = reinterpret_cast<const std::byte*>(t.raw_data().data());
    packed.assign(from, from + t.raw_data().size());
  } else convert<std::uint8_t>(packed, t.int32_data());
  if (packed.size() != bytes)
    throw ValidationError("[onnx] tensor '" + t.name() + "' expected " + std::to_string(bytes) + " bytes, got " +
                          std::to_string(packed.size()));
  std::vector<std::uint8_t> elements(count);
  for (std::size_t i = 0; i < count; i++) {
    const auto bits = std::uint8_t((std::uint8_t(packed[i / 2]) >> (i % 2 * 4)) & 15);
    elements[i] = negative && bits > 7 ? std::uint8_t(bits | 0xf0) : bits;
  }
  return Tensor::from_host(dtype, Shape(std::vector<std::int64_t>(t.dims().begin(), t.dims().end())), elements.data());
}

}  // namespace

bool is_four_bits(std::int64_t type) { return type == int4 || type == uint4; }

Tensor onnx_tensor(const onnx_format::Tensor& t, ExternalData& external) {
  if (is_four_bits(t.data_type())) return widened(t, external);
  const DataType dtype = element_type(t.data_type());
  const Shape shape(std::vector<std::int64_t>(t.dims().begin(), t.dims().end()));
  const std::size_t bytes = bytes_of(t, dtype);
  auto expect = [&](std::size_t got) {
    if (got != bytes)
      throw ValidationError("[onnx] tensor '" + t.name() + "' expected " + std::to_string(bytes) + " bytes for " +
                            shape.text() + ", got " + std::to_string(got));
  };
  if (t.data_location() == 1) return Tensor::from_host(dtype, shape, external.read(t, bytes).data());
  if (t.has_raw_data()) {
    expect(t.raw_data().size());
    return Tensor::from_host(dtype, shape, t.raw_data().data());
  }
  const std::vector<std::byte> data = typed_data(t, dtype);
  expect(data.size());
  return Tensor::from_host(dtype, shape, data.data());
}

Tensor onnx_tensor(const onnx_format::SparseTensor& sparse, Budget& budget) {
  const onnx_format::Tensor &v = sparse.values(), &at = sparse.indices();
  const DataType dtype = element_type(v.data_type());
  onnx_format::Tensor dense;
  *dense.mutable_dims() = sparse.dims();
  dense.set_name(v.name());
  const std::size_t width = size_of(dtype), bytes = bytes_of(dense, dtype);
  auto raw = [&](const onnx_format::Tensor& t, DataType type) {
    std::vector<std::byte> data(bytes_of(t, type));
    const std::vector<std::byte> typed = typed_data(t, type);
    const void* from = t.has_raw_data() ? static_cast<const void*>(t.raw_data().data()) : typed.data();
    if ((t.has_raw_data() ? t.raw_data().size() : typed.size()) != data.size())
      throw ValidationError("[onnx] sparse tensor '" + v.name() + "' has too little data");
    if (!data.empty()) std::memcpy(data.data(), from, data.size());
    return data;
  };
  const std::vector<std::byte> values = raw(v, dtype), indices = raw(at, DataType::int64);
  const int rank = sparse.dims_size(), columns = at.dims_size() == 2 ? checked_int(at.dims(1), "a rank") : 1;
  const std::size_t count = values.size() / width;
  if (columns < 1 || (columns != 1 && columns != rank) || indices.size() != count * std::size_t(columns) * 8)
    throw ValidationError("[onnx] sparse tensor '" + v.name() + "' has indices that do not fit");
  budget.spend(bytes, "[onnx] sparse tensor '" + v.name() + "'");
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < count; i++) {
    std::uint64_t place = 0;
    for (int c = 0; c < columns; c++) {
      std::int64_t index;
      std::memcpy(&index, indices.data() + (i * std::size_t(columns) + std::size_t(c)) * 8, 8);
      place = place * (columns == 1 ? 1 : std::uint64_t(sparse.dims(c))) + std::uint64_t(index);
    }
    if (place >= bytes / width)
      throw ValidationError("[onnx] sparse tensor '" + v.name() + "' has an index out of range");
    std::memcpy(result.data() + place * width, values.data() + i * width, width);
  }
  return Tensor::from_host(dtype, Shape(std::vector<std::int64_t>(dense.dims().begin(), dense.dims().end())),
                           result.data());
}

}  // namespace dlprim
