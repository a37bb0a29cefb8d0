// SPDX-License-Identifier: MIT
#include "generator.hpp"

#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <cstring>
#include <mutex>

#include "device.hpp"
#include "graph.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {
constexpr std::size_t state_bytes = 16;  // seed and offset
}

OclGenerator::OclGenerator(c10::DeviceIndex index)
    : c10::GeneratorImpl({device_type(), index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void OclGenerator::set_current_seed(std::uint64_t seed) { state_ = {seed, 0}; }
std::uint64_t OclGenerator::current_seed() const { return state_.seed; }

std::uint64_t OclGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(true));
  return state_.seed;
}

void OclGenerator::set_offset(std::uint64_t offset) { state_.offset = offset; }
std::uint64_t OclGenerator::get_offset() const { return state_.offset; }

void OclGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == state_bytes, "RNG state is wrong size: expected ", state_bytes, " bytes, got ",
              state.numel());
  const auto* bytes = static_cast<const std::uint8_t*>(state.data());
  std::memcpy(&state_.seed, bytes, 8);
  std::memcpy(&state_.offset, bytes + 8, 8);
}

c10::intrusive_ptr<c10::TensorImpl> OclGenerator::get_state() const {
  at::Tensor state = at::detail::empty_cpu({std::int64_t(state_bytes)}, at::kByte, std::nullopt, std::nullopt,
                                           std::nullopt, std::nullopt);
  auto* bytes = state.mutable_data_ptr<std::uint8_t>();
  std::memcpy(bytes, &state_.seed, 8);
  std::memcpy(bytes + 8, &state_.offset, 8);
  return state.getIntrusivePtr();
}

PhiloxState OclGenerator::reserve(std::uint64_t counters) {
  dlprim::Queue& queue = current_queue(device());
  if (auto* capture = dynamic_cast<GraphCapture*>(queue.capture())) return capture->draw(*this, counters);
  queue.run_once("it draws random numbers");
  const PhiloxState start = state_;
  state_.offset += counters;
  return start;
}

OclGenerator* OclGenerator::clone_impl() const {
  auto* copy = new OclGenerator(device().index());
  copy->state_ = state_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* all = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < device_count(); i++) all->push_back(at::make_generator<OclGenerator>(i));
    return all;
  }();
  return generators->at(std::size_t(resolve_device(index)));
}

PhiloxState reserve_philox(const std::optional<at::Generator>& generator, std::uint64_t counters) {
  auto* own = at::get_generator_or_default<OclGenerator>(generator, default_generator(-1));
  std::lock_guard guard(own->mutex_);
  return own->reserve(counters);
}

}  // namespace pytorch_ocl
