// SPDX-License-Identifier: MIT
#include <dlprim/primitives/foreach.hpp>

#include <map>
#include <mutex>
#include <vector>

namespace dlprim {

namespace {

// Codes put together from options; each text is kept for good, so that a ForeachCode may point to it.
const ForeachCode& remember(const std::string& each, const std::string& once) {
  struct Texts {
    std::string each, once;
    ForeachCode code{};
  };
  static std::mutex mutex;
  static std::map<std::string, Texts> all;
  std::lock_guard guard(mutex);
  auto [entry, added] = all.try_emplace(once + "|" + each);
  Texts& texts = entry->second;
  if (added) {
    texts = {each, once};
    texts.code = {entry->first.c_str(), texts.each.c_str(), texts.once.c_str()};
  }
  return texts.code;
}

// Collects the lists of one optimizer step and the code that depends on which of them are there.
class Step {
 public:
  explicit Step(std::size_t tensors) : tensors_(tensors) { held_.reserve(4); }

  // Adds a list as the variable `variable`.
  void list(const char* variable, TensorList tensors, ForeachMode mode) {
    const std::string x = "x" + std::to_string(lists_.size());
    (mode == ForeachMode::broadcast ? once_ : each_) += "#VALUE " + std::string(variable) + " = " + x + "; ";
    if (mode == ForeachMode::update) stores_ += x + " = " + variable + "; ";
    lists_.push_back({tensors.data, tensors.dtype, mode});
  }

  // Adds a float32 scalar of the device, if given.
  bool device_scalar(const char* variable, BufferRef scalar) {
    if (!scalar.memory) return false;
    held_.emplace_back(tensors_, scalar);
    list(variable, {held_.back(), DataType::float32}, ForeachMode::broadcast);
    return true;
  }

  void scalar(const char* variable, double value) {
    once_ += "#VALUE " + std::string(variable) + " = s" + std::to_string(scalars_.size()) + "; ";
    scalars_.push_back(value);
  }

  void once(const std::string& text) { once_ += text; }
  void each(const std::string& text, bool when = true) {
    if (when) each_ += text;
  }

  void run(Queue& queue, std::span<const std::int64_t> sizes, DataType compute) {
    const std::string value = std::string("value_") + tag(compute_type(compute));
    auto finish = [&](std::string text) {
      for (auto at = text.find("#VALUE"); at != std::string::npos; at = text.find("#VALUE")) text.replace(at, 6, value);
      return text;
    };
    foreach(queue, remember(finish(each_ + stores_), finish(once_)), compute, sizes, lists_, scalars_);
  }

 private:
  std::string each_, once_, stores_;
  std::size_t tensors_;
  std::vector<ForeachList> lists_;
  std::vector<std::vector<BufferRef>> held_;  // reserved: lists_ holds spans into it
  std::vector<double> scalars_;
};

// Learning rate, gradient scale and the "leave this step out" flag, common to all optimizers.
void common_inputs(Step& step, double lr, const OptimizerInputs& inputs, bool maximize) {
  if (step.device_scalar("skip", inputs.found_inf)) step.once("if (skip == 1) return; ");
  if (!step.device_scalar("lr", inputs.lr)) step.scalar("lr", lr);
  if (step.device_scalar("scale", inputs.grad_scale)) step.each("gradient /= scale; ");
  step.each("#VALUE g = gradient; ");
  step.each("g = -g; ", maximize);
}

}  // namespace

void adam(Queue& queue, std::span<const std::int64_t> sizes, TensorList parameters, TensorList gradients,
          TensorList averages, TensorList square_averages, TensorList max_square_averages, TensorList steps,
          const AdamOptions& options, const OptimizerInputs& inputs) {
  Step step(sizes.size());
  step.list("p", parameters, ForeachMode::update);
  step.list("gradient", gradients, inputs.grad_scale.memory ? ForeachMode::update : ForeachMode::read);
  step.list("m", averages, ForeachMode::update);
  step.list("v", square_averages, ForeachMode::update);
  if (options.amsgrad) step.list("largest", max_square_averages, ForeachMode::update);
  step.list("count", steps, ForeachMode::broadcast);
  common_inputs(step, options.lr, inputs, options.maximize);
  step.scalar("beta1", options.beta1);
  step.scalar("beta2", options.beta2);
  step.scalar("decay", options.weight_decay);
  step.scalar("eps", options.eps);
  step.once("const #VALUE size = lr / (1 - pow(beta1, count)), root = sqrt(1 - pow(beta2, count)); ");
  step.each("g += decay * p; ", options.weight_decay != 0 && !options.decoupled_decay);
  step.each("p -= lr * decay * p; ", options.weight_decay != 0 && options.decoupled_decay);
  step.each("m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g; ");
  step.each("largest = max(largest, v); ", options.amsgrad);
  step.each(options.amsgrad ? "p -= size * m / (sqrt(largest) / root + eps); "
                            : "p -= size * m / (sqrt(v) / root + eps); ");
  step.run(queue, sizes, parameters.dtype);
}

void sgd(Queue& queue, std::span<const std::int64_t> sizes, TensorList parameters, TensorList gradients,
         TensorList momenta, const SgdOptions& options, const OptimizerInputs& inputs) {
  Step step(sizes.size());
  step.list("p", parameters, ForeachMode::update);
  step.list("gradient", gradients, inputs.grad_scale.memory ? ForeachMode::update : ForeachMode::read);
  const bool momentum = options.momentum != 0;
  if (momentum) step.list("buffer", momenta, ForeachMode::update);
  common_inputs(step, options.lr, inputs, options.maximize);
  step.scalar("momentum", options.momentum);
  step.scalar("dampening", options.dampening);
  step.scalar("decay", options.weight_decay);
  step.each("g += decay * p; ", options.weight_decay != 0);
  step.each(options.first_step ? "buffer = g; " : "buffer = momentum * buffer + (1 - dampening) * g; ", momentum);
  step.each("g += momentum * buffer; ", momentum && options.nesterov);
  step.each("g = buffer; ", momentum && !options.nesterov);
  step.each("p -= lr * g; ");
  step.run(queue, sizes, parameters.dtype);
}

void adagrad(Queue& queue, std::span<const std::int64_t> sizes, TensorList parameters, TensorList gradients,
             TensorList square_sums, TensorList steps, const AdagradOptions& options, const OptimizerInputs& inputs) {
  Step step(sizes.size());
  step.list("p", parameters, ForeachMode::update);
  step.list("gradient", gradients, inputs.grad_scale.memory ? ForeachMode::update : ForeachMode::read);
  step.list("sum", square_sums, ForeachMode::update);
  step.list("count", steps, ForeachMode::broadcast);
  common_inputs(step, options.lr, inputs, options.maximize);
  step.scalar("lr_decay", options.lr_decay);
  step.scalar("decay", options.weight_decay);
  step.scalar("eps", options.eps);
  step.once("const #VALUE rate = lr / (1 + (count - 1) * lr_decay); ");
  step.each("g += decay * p; ", options.weight_decay != 0);
  step.each("sum += g * g; p -= rate * g / (sqrt(sum) + eps); ");
  step.run(queue, sizes, parameters.dtype);
}

}  // namespace dlprim
