// SPDX-License-Identifier: MIT
#include <dlprim/runtime/gate.hpp>

#include "gate_outcome.hpp"

namespace dlprim {

namespace {

Event user_event(Device& device, std::shared_ptr<GateOutcome> outcome) {
  cl_int code = CL_SUCCESS;
  cl::Event event(clCreateUserEvent(device.context()(), &code));
  check(code, "clCreateUserEvent");
  return Event(std::move(event), std::move(outcome));
}

}  // namespace

Gate::Gate(Device& device) : outcome_(std::make_shared<GateOutcome>()), event_(user_event(device, outcome_)) {}

Gate::Gate(const Event& event)
    : outcome_(std::make_shared<GateOutcome>()), event_(event.with(outcome_)), opens_itself_(true) {}

Gate::~Gate() { open(); }

// Drivers differ in what becomes of commands behind an event that failed, so it never does.
void Gate::open(std::exception_ptr error) noexcept {
  if (outcome_->close(std::move(error)) && !opens_itself_) clSetUserEventStatus(event_.get(), CL_COMPLETE);
}

void GateOutcomes::add(std::shared_ptr<GateOutcome> outcome) {
  std::lock_guard guard(mutex_);
  std::erase_if(waited_for_, [](const auto& known) { return known->is_known() && !known->error(); });
  waited_for_.push_back(std::move(outcome));
  any_.store(true, std::memory_order_relaxed);
}

void GateOutcomes::check() {
  if (!any_.load(std::memory_order_relaxed)) return;
  std::exception_ptr error;
  {
    std::lock_guard guard(mutex_);
    for (const auto& known : waited_for_)
      if (known->is_known() && !error) error = known->error();
    std::erase_if(waited_for_, [](const auto& known) { return known->is_known(); });
    any_.store(!waited_for_.empty(), std::memory_order_relaxed);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace dlprim
