// SPDX-License-Identifier: MIT
// Registers torchvision's operators. PyTorch keeps registrations whose schemas come later, or never: so torchvision may
// be imported before or after, or its schemas be declared by others.
#include "ops/vision.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

#include "runtime/errors.hpp"

namespace pytorch_ocl::vision {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Values = std::vector<c10::IValue>;

// Tensors share a device, which is current during the call; dlprim's errors become PyTorch's.
template <auto function>
struct OnDevice;
template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct OnDevice<function> {
  static Result call(Arguments... arguments) {
    std::optional<c10::Device> device;
    auto visit = [&](const auto& argument) {
      if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, Tensor>) {
        TORCH_CHECK(!device || argument.device() == *device,
                    "Expected all tensors to be on the same device, but found at least two devices, ", *device, " and ",
                    argument.device(), "!");
        device = argument.device();
      }
    };
    (visit(arguments), ...);
    const c10::OptionalDeviceGuard guard(device);
    return translated([&] { return function(arguments...); });
  }
};

// By way of the dispatcher, boxed, so that fake tensors are served, too.
Values call(const std::string& name, Values stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(("torchvision::" + name).c_str(), "").callBoxed(&stack);
  return stack;
}

Values call_below(const std::string& name, Values stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(name, std::move(stack));
}

variable_list tensors_of(const Values& values) {
  variable_list tensors;
  for (const c10::IValue& value : values) tensors.push_back(value.toTensor());
  return tensors;
}

// input, rois, then numbers, of which the last `tail` follow the images' sizes in the arguments of the derivative.
struct Regions : torch::autograd::Function<Regions> {
  static variable_list forward(AutogradContext* context, const std::string& name, const Tensor& input,
                               const Tensor& rois, const Values& numbers, int64_t tail) {
    Values stack{input, rois};
    stack.insert(stack.end(), numbers.begin(), numbers.end());
    const variable_list results = tensors_of(call_below(name, std::move(stack)));
    variable_list saved{rois};
    if (results.size() > 1) saved.push_back(results[1]), context->mark_non_differentiable({results[1]});
    context->save_for_backward(saved);
    Values arguments(numbers.begin(), numbers.end() - tail);
    for (int d = 0; d < 4; d++) arguments.emplace_back(input.sym_size(d));
    arguments.insert(arguments.end(), numbers.end() - tail, numbers.end());
    for (std::size_t i = 0; i < arguments.size(); i++) context->saved_data[std::to_string(i)] = arguments[i];
    context->saved_data["name"] = name;
    return results;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    Values stack{grads[0]};
    for (const Tensor& saved : context->get_saved_variables()) stack.emplace_back(saved);
    for (std::size_t i = 0; context->saved_data.count(std::to_string(i)); i++)
      stack.push_back(context->saved_data[std::to_string(i)]);
    const std::string name = context->saved_data["name"].toStringRef();
    return {Tensor(), call("_" + name + "_backward", std::move(stack))[0].toTensor(), Tensor(), Tensor(), Tensor()};
  }
};

Values popped(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto last = torch::jit::last(*stack, op.schema().arguments().size());
  const Values arguments(last.begin(), last.end());
  torch::jit::drop(*stack, arguments.size());
  return arguments;
}

std::string base_name(const c10::OperatorHandle& op) {
  return op.schema().name().substr(std::string("torchvision::").size());
}

template <int tail>
void regions_with_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Values arguments = popped(op, stack);
  for (const Tensor& result : Regions::apply(base_name(op), arguments[0].toTensor(), arguments[1].toTensor(),
                                             Values(arguments.begin() + 2, arguments.end()), int64_t(tail)))
    stack->emplace_back(result);
}

struct Deformed : torch::autograd::Function<Deformed> {
  static variable_list forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                               const Tensor& offset, const Tensor& mask, const Tensor& bias, const Values& numbers) {
    Values stack{input, weight, offset, mask, bias};
    stack.insert(stack.end(), numbers.begin(), numbers.end());
    context->save_for_backward({input, weight, offset, mask, bias});
    for (std::size_t i = 0; i < numbers.size(); i++) context->saved_data[std::to_string(i)] = numbers[i];
    return tensors_of(call_below("deform_conv2d", std::move(stack)));
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    Values stack{grads[0]};
    for (const Tensor& saved : context->get_saved_variables()) stack.emplace_back(saved);
    for (std::size_t i = 0; context->saved_data.count(std::to_string(i)); i++)
      stack.push_back(context->saved_data[std::to_string(i)]);
    variable_list results = tensors_of(call("_deform_conv2d_backward", std::move(stack)));
    results.emplace_back();
    return results;
  }
};

void deformed_with_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Values arguments = popped(op, stack);
  stack->emplace_back(Deformed::apply(arguments[0].toTensor(), arguments[1].toTensor(), arguments[2].toTensor(),
                                      arguments[3].toTensor(), arguments[4].toTensor(),
                                      Values(arguments.begin() + 5, arguments.end()))[0]);
}

// What the derivatives return knows what it came from, so that deriving it again is refused and not taken for 0.
struct Derivative : torch::autograd::Function<Derivative> {
  static variable_list forward(AutogradContext* context, const std::string& name, at::TensorList, Values stack) {
    context->saved_data["name"] = name;
    return tensors_of(call_below(name, std::move(stack)));
  }
  static variable_list backward(AutogradContext* context, const variable_list&) {
    TORCH_CHECK(false, "double backwards on torchvision::", context->saved_data["name"].toStringRef(),
                " not supported");
  }
};

void derivative_with_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Values arguments = popped(op, stack);
  variable_list tensors;
  for (const c10::IValue& value : arguments)
    if (value.isTensor()) tensors.push_back(value.toTensor());
  for (const Tensor& result : Derivative::apply(base_name(op), at::TensorList(tensors), arguments))
    stack->emplace_back(result);
}

// As for CUDA: computed in float32, results in the dtype of the first argument.
void in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const std::size_t count = op.schema().arguments().size(), begin = stack->size() - count;
  const at::ScalarType type = (*stack)[begin].toTensor().scalar_type();
  for (std::size_t i = begin; i < begin + count; i++)
    if ((*stack)[i].isTensor())
      (*stack)[i] = at::autocast::cached_cast(at::kFloat, (*stack)[i].toTensor(), c10::DeviceType::PrivateUse1);
  op.callBoxed(stack);
  for (std::size_t i = begin; i < stack->size(); i++)
    if (const Tensor& result = (*stack)[i].toTensor(); result.is_floating_point()) (*stack)[i] = result.to(type);
}

template <auto function>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<function>();
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("nms", &OnDevice<&nms>::call);
  m.impl("roi_align", &OnDevice<&roi_align>::call);
  m.impl("_roi_align_backward", &OnDevice<&roi_align_backward>::call);
  m.impl("roi_pool", &OnDevice<&roi_pool>::call);
  m.impl("_roi_pool_backward", &OnDevice<&roi_pool_backward>::call);
  m.impl("ps_roi_align", &OnDevice<&ps_roi_align>::call);
  m.impl("_ps_roi_align_backward", &OnDevice<&ps_roi_align_backward>::call);
  m.impl("ps_roi_pool", &OnDevice<&ps_roi_pool>::call);
  m.impl("_ps_roi_pool_backward", &OnDevice<&ps_roi_pool_backward>::call);
  m.impl("deform_conv2d", &OnDevice<&deform_conv2d>::call);
  m.impl("_deform_conv2d_backward", &OnDevice<&deform_conv2d_backward>::call);
}

TORCH_LIBRARY_IMPL(torchvision, AutogradPrivateUse1, m) {
  m.impl("roi_align", boxed<&regions_with_gradient<2>>());
  for (const char* name : {"roi_pool", "ps_roi_align", "ps_roi_pool"}) m.impl(name, boxed<&regions_with_gradient<0>>());
  m.impl("deform_conv2d", boxed<&deformed_with_gradient>());
  for (const char* name : {"_roi_align_backward", "_roi_pool_backward", "_ps_roi_align_backward",
                           "_ps_roi_pool_backward", "_deform_conv2d_backward"})
    m.impl(name, boxed<&derivative_with_gradient>());
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  for (const char* name : {"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"})
    m.impl(name, boxed<&in_float32>());
}

}  // namespace

}  // namespace pytorch_ocl::vision
