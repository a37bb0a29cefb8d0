// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace pytorch_ocl {

/// Where a kernel's random numbers start: Philox key and counter.
struct PhiloxState {
  std::uint64_t seed = 0, offset = 0;
};

/// Philox 4x32-10 state of one device: a seed and a counter that moves on with every kernel.
class OclGenerator final : public c10::GeneratorImpl {
 public:
  explicit OclGenerator(c10::DeviceIndex index);
  void set_current_seed(std::uint64_t seed) override;
  std::uint64_t current_seed() const override;
  std::uint64_t seed() override;
  void set_offset(std::uint64_t offset) override;
  std::uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  /// Reserves `counters` Philox counters (4 numbers of 32 bits each). Hold mutex_.
  PhiloxState reserve(std::uint64_t counters);
  /// The state outside of captures. Hold mutex_.
  PhiloxState now() const noexcept { return state_; }
  void set_now(PhiloxState state) noexcept { state_ = state; }

 private:
  OclGenerator* clone_impl() const override;
  // Throws c10::Error where only a replay knows it, if `call` is what asks.
  PhiloxState philox(const char* call) const;
  void set_philox(PhiloxState state);
  PhiloxState state_{c10::default_rng_seed_val, 0};
};

/// The default generator of a device (-1: the current one).
const at::Generator& default_generator(c10::DeviceIndex index);

/// Reserves `counters` counters of `generator`, or of the current device's default one, under its lock.
PhiloxState reserve_philox(const std::optional<at::Generator>& generator, std::uint64_t counters);

/// What kernels are given for what reserve_philox() gave before: the same, but where that was in a graph.
PhiloxState philox_again(c10::Device device, PhiloxState drawn);

}  // namespace pytorch_ocl
