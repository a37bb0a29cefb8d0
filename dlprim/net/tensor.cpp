// SPDX-License-Identifier: MIT
#include <dlprim/net/tensor.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/runtime/memory.hpp>

#include <algorithm>
#include <cstring>

#include "checked.hpp"

namespace dlprim {

struct Tensor::Storage {
  Workspace device;
  std::vector<std::byte> host;
  bool on_device = false, on_host = false;
  std::size_t bytes = 0;
};

namespace {

constexpr std::size_t kept_on_host = 4096;  // bytes; larger ones are data, not shapes

// Elements a tensor may have: sizes come from files, and products must not overflow.
std::size_t checked_bytes(DataType dtype, const Shape& shape) {
  constexpr std::int64_t limit = std::int64_t(1) << 46;
  if (shape.size() > max_dims)
    throw ValidationError("[tensor] expected at most " + std::to_string(max_dims) + " dimensions, got " + shape.text());
  std::int64_t product = 1;  // without zeros: strides are products of some of the sizes
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0) throw ValidationError("[tensor] expected sizes of 0 or more, got " + shape.text());
    if (size > 0 && product > limit / size) throw ValidationError("[tensor] shape " + shape.text() + " is too large");
    product *= std::max<std::int64_t>(1, size), empty |= size == 0;
  }
  return empty ? 0 : std::size_t(product) * size_of(dtype);
}

}  // namespace

std::vector<std::int64_t> contiguous_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(std::size_t(shape.size()));
  std::int64_t stride = 1;
  for (int d = shape.size() - 1; d >= 0; d--)
    strides[std::size_t(d)] = stride, stride = checked_multiply(stride, shape[d]);
  return strides;
}

Tensor::Tensor(Queue& queue, DataType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  const std::size_t bytes = checked_bytes(dtype, shape);
  strides_ = contiguous_strides(shape);
  storage_ = std::make_shared<Storage>();
  storage_->device = Workspace(queue, std::max<std::size_t>(1, bytes));
  storage_->bytes = bytes, storage_->on_device = true;
}

Tensor::Tensor(const Context& context, const Shape& shape, DataType dtype)
    : Tensor(context.device().default_queue(), dtype, shape) {}

Tensor Tensor::from_host(DataType dtype, const Shape& shape, const void* elements) {
  Tensor result;
  const std::size_t bytes = checked_bytes(dtype, shape);
  result.dtype_ = dtype, result.shape_ = shape, result.strides_ = contiguous_strides(shape);
  result.storage_ = std::make_shared<Storage>();
  result.storage_->host.resize(bytes);
  if (bytes) std::memcpy(result.storage_->host.data(), elements, bytes);
  result.storage_->bytes = bytes, result.storage_->on_host = true;
  return result;
}

Tensor Tensor::from_integers(std::span<const std::int64_t> values) {
  return from_host(DataType::int64, {std::int64_t(values.size())}, values.data());
}

Tensor Tensor::clone(Queue& queue) const {
  const std::vector<std::byte> elements = read(queue);
  if (elements.size() <= kept_on_host) return from_host(dtype_, shape_, elements.data());
  Tensor result(queue, dtype_, shape_);
  queue.write(result.view(queue).data, elements.data(), elements.size(), true);
  return result;
}

void Tensor::check(DataType dtype, std::size_t elements) const {
  if (dtype != dtype_ || elements != std::size_t(numel()))
    throw ValidationError(std::string("[tensor] expected ") + std::to_string(numel()) + " elements of " + name(dtype_) +
                          ", got " + std::to_string(elements) + " of " + name(dtype));
}

void Tensor::to_device(const ExecutionContext& context, const void* elements, bool sync) {
  if (!is_contiguous()) throw ValidationError("[tensor] to_device needs a contiguous tensor");
  const BufferRef data = view(context.queue()).data;
  storage_->on_host = false;
  if (bytes()) context.queue().write(data, elements, bytes(), sync);
}

void Tensor::to_host(const ExecutionContext& context, void* elements, bool sync) const {
  if (!is_contiguous() || on_host()) {
    const std::vector<std::byte> host = read(context.queue());
    if (!host.empty()) std::memcpy(elements, host.data(), host.size());
  } else if (bytes()) {
    context.queue().read(elements, view(context.queue()).data, bytes(), sync);
  }
  if (sync) context.finish();
}

bool Tensor::on_host() const noexcept { return storage_ && storage_->on_host; }

TensorView Tensor::view(Queue& queue) const {
  if (!defined()) throw ValidationError("[tensor] the tensor is not defined");
  if (!storage_->on_device) {
    storage_->device = Workspace(queue, std::max<std::size_t>(1, storage_->bytes));
    if (storage_->bytes) queue.write(storage_->device.data(), storage_->host.data(), storage_->bytes, true);
    storage_->on_device = true;
    if (storage_->bytes > kept_on_host) storage_->host = {}, storage_->on_host = false;
  }
  BufferRef data = storage_->device.data();
  data.offset += std::size_t(offset_) * size_of(dtype_);
  return TensorView(data, dtype_, shape_, strides_);
}

std::vector<std::byte> Tensor::read(Queue& queue) const {
  if (on_host() || bytes() == 0) return host();
  std::vector<std::byte> result(bytes());
  Tensor source = *this;
  if (!is_contiguous()) source = Tensor(queue, dtype_, shape_), copy(queue, source.view(queue), view(queue));
  queue.read(result.data(), source.view(queue).data, result.size(), true);
  queue.finish();
  if (source.storage_ == storage_ && result.size() == storage_->bytes && result.size() <= kept_on_host)
    storage_->host = result, storage_->on_host = true;
  return result;
}

std::vector<std::byte> Tensor::host() const {
  const std::size_t element = size_of(dtype_);
  std::vector<std::byte> result(bytes());
  if (result.empty()) return result;
  if (!on_host()) throw ValidationError("[tensor] the elements are not on the host");
  if (is_contiguous()) {
    std::memcpy(result.data(), storage_->host.data() + std::size_t(offset_) * element, result.size());
    return result;
  }
  std::vector<std::int64_t> index(std::size_t(shape_.size()), 0);
  std::int64_t at = offset_;
  for (std::size_t i = 0; i < result.size(); i += element) {
    std::memcpy(result.data() + i, storage_->host.data() + std::size_t(at) * element, element);
    for (int d = shape_.size() - 1; d >= 0; d--) {
      const auto k = std::size_t(d);
      at += strides_[k];
      if (++index[k] < shape_[d]) break;
      at -= strides_[k] * shape_[d], index[k] = 0;
    }
  }
  return result;
}

Tensor Tensor::strided(const Shape& shape, std::vector<std::int64_t> strides, std::int64_t offset) const {
  Tensor result = *this;
  if (checked_bytes(dtype_, shape) > 0 && storage_) {
    std::int64_t first = checked_add(offset_, offset), last = first;
    for (int d = 0; d < shape.size(); d++) {
      const std::int64_t reach = checked_multiply(shape[d] - 1, strides.at(std::size_t(d)));
      (reach < 0 ? first : last) = checked_add(reach < 0 ? first : last, reach);
    }
    if (first < 0 || last >= std::int64_t(storage_->bytes / size_of(dtype_)))
      throw ValidationError("[tensor] a view of shape " + shape.text() + " reaches beyond the elements of " +
                            shape_.text());
  }
  result.shape_ = shape, result.strides_ = std::move(strides), result.offset_ += offset;
  return result;
}

Tensor Tensor::reinterpreted(DataType dtype) const {
  if (size_of(dtype) != size_of(dtype_))
    throw ValidationError(std::string("[tensor] ") + name(dtype_) + " cannot be read as " + name(dtype));
  Tensor result = *this;
  result.dtype_ = dtype;
  return result;
}

bool Tensor::is_contiguous() const noexcept {
  std::int64_t stride = 1;
  for (int d = shape_.size() - 1; d >= 0; d--) {
    if (shape_[d] != 1 && strides_[std::size_t(d)] != stride) return numel() == 0;
    stride *= shape_[d];
  }
  return true;
}

}  // namespace dlprim
