// SPDX-License-Identifier: MIT
// What C++ programs that Inductor generated and this package's library agree on. The programs contain this text.
#pragma once
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>

namespace pytorch_ocl::aot {

/// Changes whenever anything below does: programs of another number are refused.
inline constexpr std::int64_t abi_version = 2;

/// A fused kernel: its OpenCL C, form, length of rows (0 where it changes), neighbouring elements that it can take
/// together, and what it may report.
struct KernelText {
  const char* name;
  const char* source;
  const char* form;
  std::int64_t length;
  std::int64_t vector;
  const char* const* messages;
  std::int64_t message_count;
};

/// An operator as the dispatcher knows it.
struct OperatorName {
  const char* name;
  const char* overload;
};

/// A weight or buffer of the model. `bytes` is the size of its storage, which starts at the next multiple of
/// `constant_alignment` in the file of weights.
struct Constant {
  const char* name;
  std::int32_t dtype;
  bool on_cpu;
  bool is_parameter;
  std::int64_t dimensions;
  const std::int64_t* sizes;
  const std::int64_t* strides;
  std::int64_t offset;
  std::int64_t bytes;
};
inline constexpr std::int64_t constant_alignment = 64;

/// An argument of an operator.
struct Value {
  enum class Kind : std::int32_t { none, tensor, integer, real, boolean, text, device, list };
  Kind kind = Kind::none;
  std::int32_t count = 0;  // elements of a list, index of a device
  union {
    AtenTensorHandle tensor;
    std::int64_t integer;  // type of a device, 0 or 1 of a boolean
    double real;
    const char* text;
    const Value* list;
  };
};

/// What the library does for a program. Errors are C++ exceptions.
struct Interface {
  std::int64_t version;
  std::int64_t kernels_version;  // of what the text of kernels includes
  /// Builds kernels for a device, several at once, and writes their numbers, which hold for the process.
  void (*build)(std::int32_t device, const KernelText* texts, std::int64_t count, std::int64_t* numbers);
  /// Runs a kernel on its device's current stream for `items` elements, rows or columns.
  void (*launch)(std::int64_t kernel, const AtenTensorHandle* tensors, std::int64_t tensor_count,
                 const std::int64_t* numbers, std::int64_t number_count, std::int64_t items);
  /// The number of an operator, which holds for the process.
  std::int64_t (*find)(const char* name, const char* overload);
  /// Calls an operator. `outputs` gets new handles of the tensors among its results (lists are taken apart); null where
  /// one is not wanted.
  void (*call)(std::int64_t op, const Value* arguments, std::int64_t count, AtenTensorHandle* const* outputs,
               std::int64_t output_count);
  /// Replaces the tensor behind a handle by a copy with these strides, unless it has them.
  void (*plan)(AtenTensorHandle tensor, const std::int64_t* sizes, const std::int64_t* strides,
               std::int64_t dimensions);
  /// Throws std::runtime_error.
  void (*refuse)(const char* reason);
};

}  // namespace pytorch_ocl::aot
