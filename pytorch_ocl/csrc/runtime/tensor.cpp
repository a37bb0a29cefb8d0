// SPDX-License-Identifier: MIT
#include "tensor.hpp"

#include <c10/core/DeviceGuard.h>

#include "device.hpp"
#include "errors.hpp"
#include "small_floats.hpp"

namespace pytorch_ocl {

dlprim::DataType data_type_of(at::ScalarType type, const char* op) {
  using dlprim::DataType;
  switch (type) {
    case at::kDouble: return DataType::float64;
    case at::kFloat: return DataType::float32;
    case at::kHalf: return DataType::float16;
    case at::kBFloat16: return DataType::bfloat16;
    case at::kLong: return DataType::int64;
    case at::kInt: return DataType::int32;
    case at::kShort: return DataType::int16;
    case at::kChar: return DataType::int8;
    case at::kUInt64: return DataType::uint64;
    case at::kUInt32: return DataType::uint32;
    case at::kUInt16: return DataType::uint16;
    case at::kByte: return DataType::uint8;
    case at::kBool: return DataType::boolean;
    case at::kComplexFloat: return DataType::complex64;
    case at::kComplexDouble: return DataType::complex128;
    default:
      if (storage_only(type) && moves_elements(op)) {
        const std::size_t bytes = c10::elementSize(type);
        return bytes == 1 ? DataType::uint8 : bytes == 2 ? DataType::uint16 : DataType::uint32;
      }
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"", op, "\" not implemented for '", c10::toString(type), "' on ocl");
  }
}

dlprim::BufferRef buffer_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == device_type,
              "Expected all tensors to be on the same device, an ocl device, but found one on ", tensor.device(), "!");
  return buffer_at(tensor.const_data_ptr(), tensor.numel());
}

dlprim::BufferRef buffer_at(const void* data, int64_t elements) {
  const dlprim::BufferRef buffer = dlprim::Allocator::locate(data);
  TORCH_CHECK(buffer.memory || elements == 0, "expected a tensor with memory on an ocl device, got one of ", elements,
              " elements without: its storage was freed, or it is a ZeroTensor");
  return buffer;
}

dlprim::TensorView view_of(const at::Tensor& tensor, const char* op) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  TORCH_CHECK(tensor.dim() <= dlprim::max_dims, op, ": tensor has too many (>", dlprim::max_dims, ") dims");
  return translated([&] {
    return dlprim::TensorView(buffer_of(tensor), data_type_of(tensor, op), std::span(sizes.data(), sizes.size()),
                              std::span(strides.data(), strides.size()));
  });
}

void materialize(const at::Tensor& tensor) {
  const c10::DeviceGuard guard(tensor.device());  // where the copy is made
  tensor.storage().mutable_data();
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t d = 0; d < a.dim(); d++)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

dlprim::Queue& current_queue() { return queue_of(current_stream(-1)); }

dlprim::Queue& current_queue(c10::Device device) { return queue_of(current_stream(device.index())); }

}  // namespace pytorch_ocl
