// SPDX-License-Identifier: MIT
// The times of a step that DistributedDataParallel takes now and then for its log.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <map>

#include "runtime/device.hpp"

namespace c10d {

namespace {

class OclTimer final : public Timer {
 public:
  explicit OclTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);
    points_[event] = pytorch_ocl::translated(
        [&] { return pytorch_ocl::queue_of(pytorch_ocl::current_stream(device_.index())).mark_enqueued(); });
  }

  std::optional<std::int64_t> measureDifference(Event start, Event end) override {
    if (!points_.contains(start) || !points_.contains(end)) return std::nullopt;
    const auto [from, to] =
        pytorch_ocl::translated([&] { return std::pair(points_[start].nanoseconds(), points_[end].nanoseconds()); });
    if (to < from) return std::nullopt;  // of different iterations
    return std::int64_t(to - from);
  }

 private:
  c10::Device device_;
  std::map<Event, dlprim::Event> points_;
};

C10_REGISTER_TYPED_CLASS(TimerRegistry, pytorch_ocl::device_type, OclTimer)

}  // namespace

}  // namespace c10d
