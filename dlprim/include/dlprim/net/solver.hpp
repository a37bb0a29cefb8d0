// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/net.hpp>
#include <dlprim/net/parameters.hpp>
#include <dlprim/primitives/foreach.hpp>

#include <functional>

namespace dlprim {

/// The learning rate at a step, counted from 0.
using Schedule = std::function<double(std::int64_t step)>;

namespace schedules {
Schedule constant(double lr);
/// lr * gamma^(step / size)
Schedule step(double lr, std::int64_t size, double gamma = 0.1);
/// lr * gamma for each milestone that is behind
Schedule multistep(double lr, std::vector<std::int64_t> milestones, double gamma = 0.1);
/// lr * gamma^step
Schedule exponential(double lr, double gamma);
/// Half a cosine from lr to `lowest` over `steps` (Loshchilov and Hutter 2017).
Schedule cosine(double lr, std::int64_t steps, double lowest = 0);
/// Linear from `start` * then(0) to then(0) in `steps`, then `then` from its step 0 on.
Schedule warm_up(std::int64_t steps, Schedule then, double start = 0);
/// From highest / division up to highest in the first `rise` of the steps, then down to that / final_division, both
/// along half a cosine (Smith and Topin 2018).
Schedule one_cycle(double highest, std::int64_t steps, double rise = 0.3, double division = 25,
                   double final_division = 1e4);
}  // namespace schedules

/// Changes a net's trainable parameters by their gradients. One round of training:
///   solver.zero_grad(); net.forward(ec); net.backward(ec); solver.step(ec);
class Solver {
 public:
  virtual ~Solver() = default;
  double lr;          ///< used while there is no schedule
  Schedule schedule;  ///< sets lr before each step

  /// Forgets the gradients: backward() adds to them.
  void zero_grad() { net_.zero_grad(); }
  /// Enqueues one step. Parameters that are frozen or have no gradient stay as they are.
  void step(const ExecutionContext& context);
  std::int64_t steps() const noexcept { return steps_; }
  Net& net() const noexcept { return net_; }

  /// What goes on from one step to the next, on the host: to go on training from a file with load_state.
  NamedTensors state() const;
  /// Throws ValidationError for tensors that do not fit the net.
  void load_state(const NamedTensors& state);

 protected:
  /// Parameters of one dtype with their gradients and `slots` tensors of state each, lists in the same order.
  struct Group {
    DataType dtype;
    std::vector<std::int64_t> sizes;
    std::vector<BufferRef> parameters, gradients, slots[2];
    TensorList list(const std::vector<BufferRef>& data) const { return {data, dtype}; }
  };
  Solver(Net& net, double learning_rate, int slots) : lr(learning_rate), net_(net), slots_(slots) {}
  /// One step of a group; steps() is the number of those before.
  virtual void update(Queue& queue, const Group& group) = 0;

 private:
  Net& net_;
  int slots_;
  std::int64_t steps_ = 0;
  std::map<std::string, std::vector<Tensor>> states_;
};

/// Momentum v = momentum v + g + weight_decay p, then p -= lr v, or lr (g + momentum v) by Nesterov's rule.
class SGD : public Solver {
 public:
  explicit SGD(Net& net, double lr = 0.1, double momentum = 0.9, double weight_decay = 5e-4, bool nesterov = false);
  double momentum, weight_decay;
  bool nesterov;

 private:
  void update(Queue& queue, const Group& group) override;
};

/// Kingma and Ba 2015, with weight decay as part of the gradient.
class Adam : public Solver {
 public:
  explicit Adam(Net& net, double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8,
                double weight_decay = 5e-4);
  double beta1, beta2, eps, weight_decay;

 protected:
  bool decoupled_ = false;

 private:
  void update(Queue& queue, const Group& group) override;
};

/// Loshchilov and Hutter 2019: decay apart from the gradient.
class AdamW : public Adam {
 public:
  explicit AdamW(Net& net, double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8,
                 double weight_decay = 1e-2)
      : Adam(net, lr, beta1, beta2, eps, weight_decay) {
    decoupled_ = true;
  }
};

}  // namespace dlprim
