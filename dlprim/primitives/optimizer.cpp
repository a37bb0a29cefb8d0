// SPDX-License-Identifier: MIT
#include <dlprim/primitives/foreach.hpp>

#include <initializer_list>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace dlprim {

namespace {

// Codes put together from options, by a number that tells these; kept for good.
class Codes {
 public:
  const ForeachCode* find(std::uint32_t options) {
    std::shared_lock guard(mutex_);
    const auto entry = all_.find(options);
    return entry == all_.end() ? nullptr : &entry->second;
  }
  const ForeachCode* add(std::uint32_t options, ForeachCode code) {
    std::unique_lock guard(mutex_);
    return &all_.try_emplace(options, std::move(code)).first->second;
  }
  static Codes& all() {
    static Codes codes;
    return codes;
  }

 private:
  std::shared_mutex mutex_;
  std::map<std::uint32_t, ForeachCode> all_;
};

enum class Optimizer : std::uint32_t { adam, sgd, adagrad };
constexpr const char* names[] = {"adam", "sgd", "adagrad"};

std::uint32_t option_bits(Optimizer optimizer, DataType type, const OptimizerInputs& inputs, bool maximize,
                          std::initializer_list<bool> others) {
  std::uint32_t bits = 0;
  auto add = [&](bool option) { bits = bits << 1 | std::uint32_t(option); };
  add(inputs.found_inf.memory), add(inputs.lr.memory), add(inputs.grad_scale.memory), add(maximize);
  for (const bool option : others) add(option);
  return std::uint32_t(optimizer) << 24 | bits << 8 | std::uint32_t(type);
}

// Collects the lists of one optimizer step, and the first time with these options the code.
class Step {
 public:
  Step(std::size_t tensors, std::uint32_t options)
      : tensors_(tensors), options_(options), code_(Codes::all().find(options)) {
    held_.reserve(4);
  }

  // Adds a list as the variable `variable`.
  void list(const char* variable, TensorList tensors, ForeachMode mode) {
    if (!code_) {
      const std::string x = "x" + std::to_string(lists_.size());
      (mode == ForeachMode::broadcast ? once_ : each_) += "#VALUE " + std::string(variable) + " = " + x + "; ";
      if (mode == ForeachMode::update) stores_ += x + " = " + variable + "; ";
    }
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
    if (!code_) once_ += "#VALUE " + std::string(variable) + " = s" + std::to_string(scalars_.size()) + "; ";
    scalars_.push_back(value);
  }

  void once(const char* text) {
    if (!code_) once_ += text;
  }
  void each(const char* text, bool when = true) {
    if (when && !code_) each_ += text;
  }

  void run(Queue& queue, std::span<const std::int64_t> sizes, DataType compute) {
    if (!code_) {
      const std::string value = std::string("value_") + tag(compute_type(compute));
      auto finish = [&](std::string text) {
        for (auto at = text.find("#VALUE"); at != std::string::npos; at = text.find("#VALUE"))
          text.replace(at, 6, value);
        return text;
      };
      code_ = Codes::all().add(options_, {names[options_ >> 24], finish(each_ + stores_), finish(once_)});
    }
    foreach(queue, *code_, compute, sizes, lists_, scalars_);
  }

 private:
  std::string each_, once_, stores_;
  std::size_t tensors_;
  std::uint32_t options_;
  const ForeachCode* code_;  // null until it is known
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
  Step step(sizes.size(), option_bits(Optimizer::adam, parameters.dtype, inputs, options.maximize,
                                      {options.amsgrad, options.weight_decay != 0, options.decoupled_decay}));
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
  Step step(sizes.size(),
            option_bits(Optimizer::sgd, parameters.dtype, inputs, options.maximize,
                        {options.momentum != 0, options.first_step, options.nesterov, options.weight_decay != 0}));
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
  Step step(sizes.size(),
            option_bits(Optimizer::adagrad, parameters.dtype, inputs, options.maximize, {options.weight_decay != 0}));
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
