// SPDX-License-Identifier: MIT
// What C++ programs that Inductor generated call: their kernels, and operators by way of the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ScalarOps.h>
#include <dlprim/runtime/program.hpp>
#include <torch/csrc/inductor/aoti_torch/utils.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "aot_interface.hpp"
#include "device.hpp"
#include "fused_kernel.hpp"

namespace pytorch_ocl {

namespace {

struct ProgramKernel {
  std::int64_t number;
  c10::Device device;
};

// Kernels and operators live as long as the process: programs hold their numbers. A kernel that several programs have,
// or one that is loaded again, is one.
struct Tables {
  std::mutex mutex;
  std::map<std::string, std::int64_t> known;
  std::deque<ProgramKernel> kernels;
  std::deque<c10::OperatorHandle> operators;
};

Tables& tables() {
  static auto* instance = new Tables;
  return *instance;
}

// A number of the texts that those of kernels include.
std::int64_t kernels_version() {
  static const std::int64_t version = [] {
    std::string includes;
    for (const char* name : {"fused", "atomics", "math", "special"})
      includes += std::string("#include \"lib/") + name + ".clh\"\n";
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const char character : dlprim::ProgramCache::preprocess(dlprim::KernelSource::from_text(includes, "")))
      hash = (hash ^ std::uint8_t(character)) * 1099511628211u;
    return std::int64_t(hash >> 1);
  }();
  return version;
}

std::int64_t build_one(c10::DeviceIndex index, const aot::KernelText& text) {
  const std::vector<std::string> messages(text.messages, text.messages + text.message_count);
  std::string key =
      std::to_string(index) + " " + text.form + " " + std::to_string(text.length) + " " + std::to_string(text.vector);
  for (const std::string& message : messages) key += "\n" + message;
  key += std::string("\n") + text.source;
  {
    std::lock_guard guard(tables().mutex);
    const auto found = tables().known.find(key);
    if (found != tables().known.end()) return found->second;
  }
  const std::int64_t number =
      build_fused(text.source, text.name, text.form, text.length, text.vector, messages, index, false);
  std::lock_guard guard(tables().mutex);
  tables().kernels.push_back({number, c10::Device(device_type, index)});
  return tables().known[key] = std::int64_t(tables().kernels.size()) - 1;
}

void build(std::int32_t index, const aot::KernelText* texts, std::int64_t count, std::int64_t* numbers) {
  const c10::DeviceIndex owner = resolve_device(c10::DeviceIndex(index));
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    for (std::int64_t i; (i = next++) < count;) try {
        numbers[i] = build_one(owner, texts[i]);
      } catch (...) {
        std::lock_guard guard(mutex);
        error = std::current_exception();
        next = count;
      }
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(count, std::thread::hardware_concurrency()); i++)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

at::Tensor& tensor_of(AtenTensorHandle handle) { return *torch::aot_inductor::tensor_handle_to_tensor_pointer(handle); }

void launch(std::int64_t kernel, const AtenTensorHandle* handles, std::int64_t tensor_count,
            const std::int64_t* numbers, std::int64_t number_count, std::int64_t items) {
  const ProgramKernel* found;
  {
    std::lock_guard guard(tables().mutex);
    found = &tables().kernels.at(std::size_t(kernel));
  }
  if (!items) return;
  c10::SmallVector<at::Tensor, 8> tensors;
  for (std::int64_t i = 0; i < tensor_count; i++) {
    tensors.push_back(tensor_of(handles[i]));
    TORCH_CHECK(tensors.back().device() == found->device, "a kernel for ", found->device, " got a tensor on ",
                tensors.back().device());
  }
  run_fused(found->number, tensors, at::IntArrayRef(numbers, std::size_t(number_count)), items);
}

std::int64_t find(const char* name, const char* overload) {
  const c10::OperatorHandle found = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  std::lock_guard guard(tables().mutex);
  tables().operators.push_back(found);
  return std::int64_t(tables().operators.size()) - 1;
}

// An argument as the dispatcher takes it.
c10::IValue value_of(const aot::Value& value, const c10::TypePtr& type) {
  using Kind = aot::Value::Kind;
  if (const auto optional = type->cast<c10::OptionalType>())
    return value.kind == Kind::none ? c10::IValue() : value_of(value, optional->getElementType());
  const bool is_tensor = type->kind() == c10::TypeKind::TensorType;
  switch (value.kind) {
    case Kind::none: return is_tensor ? c10::IValue(at::Tensor()) : c10::IValue();
    case Kind::tensor: return tensor_of(value.tensor);
    case Kind::integer:
      if (is_tensor) return c10::scalar_to_tensor(value.integer);
      if (type->kind() == c10::TypeKind::FloatType) return double(value.integer);
      if (type->kind() == c10::TypeKind::BoolType) return value.integer != 0;
      return value.integer;
    case Kind::real: return is_tensor ? c10::IValue(c10::scalar_to_tensor(value.real)) : c10::IValue(value.real);
    case Kind::boolean:
      return is_tensor ? c10::IValue(c10::scalar_to_tensor(value.integer != 0)) : c10::IValue(value.integer != 0);
    case Kind::text: return std::string(value.text);
    case Kind::device: return c10::Device(c10::DeviceType(value.integer), c10::DeviceIndex(value.count));
    case Kind::list: break;
  }
  const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
  c10::impl::GenericList list(element);
  for (std::int32_t i = 0; i < value.count; i++) list.push_back(value_of(value.list[i], element));
  return list;
}

void take(const c10::IValue& value, AtenTensorHandle* const*& next, AtenTensorHandle* const* end) {
  if (value.isList() || value.isTuple()) {
    if (value.isTuple())
      for (const c10::IValue& element : value.toTupleRef().elements()) take(element, next, end);
    else
      for (const c10::IValue& element : value.toListRef()) take(element, next, end);
    return;
  }
  if (next == end) return;
  AtenTensorHandle* output = *next++;
  if (!output) return;
  at::Tensor tensor = value.isNone() ? at::Tensor() : value.toTensor();
  *output = torch::aot_inductor::new_tensor_handle(std::move(tensor));
}

void call(std::int64_t op, const aot::Value* arguments, std::int64_t count, AtenTensorHandle* const* outputs,
          std::int64_t output_count) {
  const c10::OperatorHandle* found;
  {
    std::lock_guard guard(tables().mutex);
    found = &tables().operators.at(std::size_t(op));
  }
  const std::vector<c10::Argument>& expected = found->schema().arguments();
  TORCH_CHECK(std::size_t(count) == expected.size(), found->schema(), ": ", count, " arguments given");
  torch::jit::Stack stack;
  stack.reserve(expected.size());
  for (std::int64_t i = 0; i < count; i++) stack.push_back(value_of(arguments[i], expected[std::size_t(i)].type()));
  found->callBoxed(stack);
  for (const c10::IValue& result : stack) take(result, outputs, outputs + output_count);
}

void plan(AtenTensorHandle handle, const std::int64_t* sizes, const std::int64_t* strides, std::int64_t dimensions) {
  at::Tensor& tensor = tensor_of(handle);
  const at::IntArrayRef planned_sizes(sizes, std::size_t(dimensions)), planned(strides, std::size_t(dimensions));
  TORCH_CHECK(tensor.sizes() == planned_sizes, "an operator's result has sizes ", tensor.sizes(), ", expected ",
              planned_sizes);
  bool same = true;
  for (std::size_t i = 0; i < planned.size(); i++) same &= sizes[i] <= 1 || tensor.strides()[i] == strides[i];
  if (!same) tensor = at::empty_strided(planned_sizes, planned, tensor.options()).copy_(tensor);
}

void refuse(const char* reason) { throw std::runtime_error(reason); }

// A function that keeps its error for whoever runs the program, which makes text of it on the way.
thread_local std::exception_ptr last_error;

template <auto function, class... Arguments>
auto keeping(Arguments... arguments) {
  try {
    return function(arguments...);
  } catch (...) {
    last_error = std::current_exception();
    throw;
  }
}

}  // namespace

std::exception_ptr take_aot_error() { return std::exchange(last_error, nullptr); }

const aot::Interface& aot_interface() {
  static const aot::Interface instance{
      .version = aot::abi_version,
      .kernels_version = kernels_version(),
      .build = [](auto... arguments) { keeping<&build>(arguments...); },
      .launch = [](auto... arguments) { keeping<&launch>(arguments...); },
      .find = [](auto... arguments) { return keeping<&find>(arguments...); },
      .call = [](auto... arguments) { keeping<&call>(arguments...); },
      .plan = [](auto... arguments) { keeping<&plan>(arguments...); },
      .refuse = [](auto... arguments) { keeping<&refuse>(arguments...); },
  };
  return instance;
}

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("aot_kernels_version() -> int", [] { return kernels_version(); });
  m.def("aot_interface() -> int", [] { return std::int64_t(reinterpret_cast<std::intptr_t>(&aot_interface())); });
}

}  // namespace pytorch_ocl
