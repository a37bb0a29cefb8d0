// SPDX-License-Identifier: MIT
#include "generator.hpp"

#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <cstring>
#include <mutex>

#include "device.hpp"
#include "errors.hpp"
#include "graph_capture.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {
constexpr std::size_t state_bytes = 16;  // seed and offset
}

OclGenerator::OclGenerator(c10::DeviceIndex index)
    : c10::GeneratorImpl({device_type(), index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

// Within a graph, the state is one that each replay finds out.
void OclGenerator::set_current_seed(std::uint64_t seed) { set_philox({seed, 0}); }

std::uint64_t OclGenerator::current_seed() const {
  const PhiloxState state = philox("initial_seed");
  return state.seed;
}

std::uint64_t OclGenerator::seed() {
  const std::uint64_t seed = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(seed);
  return seed;
}

void OclGenerator::set_offset(std::uint64_t offset) { set_philox({philox("set_offset").seed, offset}); }
std::uint64_t OclGenerator::get_offset() const { return philox("get_offset").offset; }

PhiloxState OclGenerator::philox(const char* call) const {
  const CurrentGraph capture(device());
  if (!capture) return state_;
  const PhiloxState state = translated([&] { return capture->state(const_cast<OclGenerator&>(*this)); });
  TORCH_CHECK(!call || !dlprim::Capture::is_placeholder(state.seed), call,
              "(): a generator's state is not known while the stream is capturing a graph");
  return state;
}

void OclGenerator::set_philox(PhiloxState state) {
  translated([&] {
    if (const CurrentGraph capture(device()); capture) capture->set_state(*this, state);
    else state_ = GraphCapture::last(state);
  });
}

void OclGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == state_bytes, "RNG state is wrong size: expected ", state_bytes, " bytes, got ",
              state.numel());
  const auto* bytes = static_cast<const std::uint8_t*>(state.data());
  PhiloxState given;
  std::memcpy(&given.seed, bytes, 8);
  std::memcpy(&given.offset, bytes + 8, 8);
  set_philox(given);
}

c10::intrusive_ptr<c10::TensorImpl> OclGenerator::get_state() const {
  at::Tensor state = at::detail::empty_cpu({std::int64_t(state_bytes)}, at::kByte, std::nullopt, std::nullopt,
                                           std::nullopt, std::nullopt);
  auto* bytes = state.mutable_data_ptr<std::uint8_t>();
  const PhiloxState own = philox(nullptr);
  std::memcpy(bytes, &own.seed, 8);
  std::memcpy(bytes + 8, &own.offset, 8);
  return state.getIntrusivePtr();
}

PhiloxState OclGenerator::reserve(std::uint64_t counters) {
  if (const CurrentGraph capture(device()); capture) return capture->draw(*this, counters);
  current_queue(device()).run_once("it draws random numbers");
  const PhiloxState start = state_;
  state_.offset += counters;
  return start;
}

OclGenerator* OclGenerator::clone_impl() const {
  const PhiloxState own = philox("clone");
  auto* copy = new OclGenerator(device().index());
  copy->state_ = own;
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

PhiloxState philox_again(c10::Device device, PhiloxState drawn) {
  const CurrentGraph capture(device);
  return translated([&] { return capture ? capture->draw_again(drawn) : GraphCapture::last(drawn); });
}

}  // namespace pytorch_ocl
