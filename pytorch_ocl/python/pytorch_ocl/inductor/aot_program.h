// SPDX-License-Identifier: MIT
// The part of a generated C++ program that does not depend on the model. Names have internal linkage: a process may
// have many programs.
#pragma once
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "aot_abi.h"

namespace {
namespace ocl {

using pytorch_ocl::aot::Constant;
using pytorch_ocl::aot::Interface;
using pytorch_ocl::aot::KernelText;
using pytorch_ocl::aot::OperatorName;
using pytorch_ocl::aot::Value;

extern const std::int64_t kernels_version;

/// The library's functions. Throws std::runtime_error where it is not loaded, or is of another version.
inline const Interface& library() {
  static const Interface* found = [] {
    StableIValue address = 0;
    if (aoti_torch_call_dispatcher("pytorch_ocl::aot_interface", "", &address) != AOTI_TORCH_SUCCESS)
      throw std::runtime_error(
          "this program runs on ocl devices: load libpytorch_ocl_torch*.so, or import pytorch_ocl");
    const auto* interface = reinterpret_cast<const Interface*>(address);
    if (interface->version != pytorch_ocl::aot::abi_version || interface->kernels_version != kernels_version)
      throw std::runtime_error("this program was compiled by another version of pytorch_ocl: compile it again");
    return interface;
  }();
  return *found;
}

inline Value none() { return {}; }
inline Value make(Value::Kind kind, std::int64_t integer, std::int32_t count = 0) {
  Value value;
  value.kind = kind;
  value.count = count;
  value.integer = integer;
  return value;
}
inline Value integer(std::int64_t number) { return make(Value::Kind::integer, number); }
inline Value boolean(bool truth) { return make(Value::Kind::boolean, truth); }
inline Value device(std::int32_t type, std::int32_t index) { return make(Value::Kind::device, type, index); }
inline Value real(double number) {
  Value value = make(Value::Kind::real, 0);
  value.real = number;
  return value;
}
inline Value tensor(AtenTensorHandle handle) {
  Value value = make(Value::Kind::tensor, 0);
  value.tensor = handle;
  return value;
}
inline Value text(const char* characters) {
  Value value = make(Value::Kind::text, 0);
  value.text = characters;
  return value;
}
/// Valid until the end of the statement, as its elements are.
inline Value list(std::initializer_list<Value> values) {
  Value value = make(Value::Kind::list, 0, std::int32_t(values.size()));
  value.list = values.begin();
  return value;
}

extern const KernelText kernel_texts[];
extern const std::int64_t kernel_count;
extern const OperatorName operator_names[];
extern const std::int64_t operator_count;

/// The model's kernels on one device, and the operators that it calls.
class Program {
 public:
  explicit Program(std::int32_t device) : kernels_(kernel_count), operators_(operator_count) {
    for (std::int64_t i = 0; i < operator_count; i++)
      operators_[i] = library().find(operator_names[i].name, operator_names[i].overload);
    library().build(device, kernel_texts, kernel_count, kernels_.data());
  }

  /// The program of a device; the first call builds it.
  static const Program& on(std::int32_t device) {
    static std::mutex mutex;
    static std::map<std::int32_t, std::unique_ptr<Program>> programs;
    std::lock_guard<std::mutex> guard(mutex);
    std::unique_ptr<Program>& program = programs[device];
    if (!program) program = std::make_unique<Program>(device);
    return *program;
  }

  void launch(std::size_t kernel, std::initializer_list<AtenTensorHandle> tensors,
              std::initializer_list<std::int64_t> numbers, std::int64_t items) const {
    library().launch(kernels_[kernel], tensors.begin(), std::int64_t(tensors.size()), numbers.begin(),
                     std::int64_t(numbers.size()), items);
  }

  void call(std::size_t op, std::initializer_list<Value> arguments,
            std::initializer_list<AtenTensorHandle*> outputs = {}) const {
    library().call(operators_[op], arguments.begin(), std::int64_t(arguments.size()), outputs.begin(),
                   std::int64_t(outputs.size()));
  }

  void plan(AtenTensorHandle tensor, std::initializer_list<std::int64_t> sizes,
            std::initializer_list<std::int64_t> strides) const {
    library().plan(tensor, sizes.begin(), strides.begin(), std::int64_t(sizes.size()));
  }

 private:
  std::vector<std::int64_t> kernels_, operators_;
};

/// Throws std::runtime_error unless input `number` is where the program was compiled for.
inline void expect_device(AtenTensorHandle tensor, int number, std::int32_t type, std::int32_t index) {
  std::int32_t found_type = 0, found_index = 0;
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor, &found_type));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor, &found_index));
  const bool on_cpu = type == aoti_torch_device_type_cpu();
  if (found_type == type && (on_cpu || found_index == index)) return;
  const auto name = [](std::int32_t type, std::int32_t index) {
    if (type == aoti_torch_device_type_cpu()) return std::string("the CPU");
    const bool ours = type == aoti_torch_device_type_privateuse1();
    return (ours ? "ocl:" : "another accelerator: ") + std::to_string(index);
  };
  const std::string reason = "input " + std::to_string(number) + " of the model is expected on " + name(type, index) +
                             ", but is on " + name(found_type, found_index);
  library().refuse(reason.c_str());
}

/// A tensor of the CPU on a device.
inline torch::aot_inductor::RAIIAtenTensorHandle moved(AtenTensorHandle tensor_on_cpu, std::int32_t index) {
  static const std::int64_t copy = library().find("aten::_to_copy", "");
  AtenTensorHandle result = nullptr;
  AtenTensorHandle* const results[] = {&result};
  const Value arguments[] = {
      tensor(tensor_on_cpu), none(), none(), device(aoti_torch_device_type_privateuse1(), index), none(),
      boolean(false),        none()};
  library().call(copy, arguments, 7, results, 1);
  return torch::aot_inductor::RAIIAtenTensorHandle(result);
}

}  // namespace ocl

/// Named as Inductor names the function of a device.
inline AOTITorchError aoti_torch_ocl_view_dtype(AtenTensorHandle tensor, std::int32_t dtype, AtenTensorHandle* result) {
  static const std::int64_t view = ocl::library().find("aten::view", "dtype");
  AtenTensorHandle* const results[] = {result};
  const ocl::Value arguments[] = {ocl::tensor(tensor), ocl::integer(dtype)};
  ocl::library().call(view, arguments, 2, results, 1);
  return AOTI_TORCH_SUCCESS;
}
}  // namespace
