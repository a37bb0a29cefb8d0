// SPDX-License-Identifier: MIT
// A family's cores, each a way to do the same job: the first in their order that does not decline runs.
#pragma once
#include <dlprim/error.hpp>
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/program.hpp>
#include <dlprim/runtime/queue.hpp>
#include <dlprim/runtime/warning.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace dlprim {

/// What every core says of itself. A core is one file <name>.cpp of its family's folder cores/, which defines
/// void <family>_cores::<name>(Cores<...>&) to add it (some add several); the build finds the files.
template <class P>
struct Core {
  using Problem = P;
  const char* name;
  int order;  ///< cores are asked by rising order
  /// Why it cannot, or should not, serve the problem; null when it does. `forced`: only "cannot" counts.
  const char* (*decline)(const Device& device, const Problem& problem, bool forced);
  void (*run)(Queue& queue, const Problem& problem);
  bool copies = false;     ///< may find too little memory for copies of its operands: the next core serves then
  bool may_fail_to_build = false;  ///< some drivers' compilers refuse its kernel: the next core serves then
};

/// The cores of a family. `CoreType` is Core<Problem>, or has its members and more.
template <class CoreType>
class Cores {
 public:
  using Problem = typename CoreType::Problem;

  /// The environment variable `force` (such as DLPRIM_GEMM=tiled) names the only core to consider where it can run at
  /// all; DLPRIM_DEBUG_SELECT=1 prints each decision.
  Cores(const char* family, environment::Variable force, void (*add_all)(Cores&)) : family_(family), force_(force) {
    add_all(*this);
    std::ranges::sort(cores_, [](const CoreType* a, const CoreType* b) {
      return a->order != b->order ? a->order < b->order : std::strcmp(a->name, b->name) < 0;
    });
  }
  /// Adds a core, which must live on.
  void add(const CoreType& core) { cores_.push_back(&core); }

  /// In the order in which they are asked.
  std::span<const CoreType* const> all() const noexcept { return cores_; }
  /// The core of a name; null when there is none.
  const CoreType* find(std::string_view name) const noexcept {
    for (const CoreType* core : cores_)
      if (name == core->name) return core;
    return nullptr;
  }
  /// Whether the environment names the only core to consider.
  bool forced() const { return environment::text(force_) != nullptr; }
  /// Whether that is this one.
  bool forces(std::string_view name) const { return forced() && name == environment::text(force_); }

  const char* decline(const CoreType& core, const Device& device, const Problem& problem, bool forced) const {
    const char* reason = core.decline(device, problem, forced);
    if (!reason && any_refused_.load(std::memory_order_relaxed) && refused(device, core))
      reason = "the device's driver refuses its kernel, or computes it wrong";
    return reason;
  }
  /// The core to run; null when all decline.
  const CoreType* try_select(const Device& device, const Problem& problem) const {
    const char* name = environment::text(force_);
    const CoreType* forced = name ? find(name) : nullptr;
    if (forced && takes(*forced, device, problem, true)) return forced;
    return after(nullptr, device, problem);
  }
  /// The same, but throws NotImplementedError.
  const CoreType& select(const Device& device, const Problem& problem) const {
    return found(try_select(device, problem), device);
  }
  /// Runs `core`, or where it proves unable to (see Core), or the driver is known to compute it wrong, the next one in
  /// order that does not decline.
  void run(const CoreType* core, Queue& queue, const Problem& problem) const {
    while (!ran(*core, queue, problem)) core = &found(after(core, queue.device(), problem), queue.device());
  }
  void run(Queue& queue, const Problem& problem) const { run(&select(queue.device(), problem), queue, problem); }
  /// The same; false, and nothing has run, where no core takes the problem.
  bool try_run(Queue& queue, const Problem& problem) const {
    const CoreType* core = try_select(queue.device(), problem);
    while (core && !ran(*core, queue, problem)) core = after(core, queue.device(), problem);
    return core;
  }

 private:
  bool takes(const CoreType& core, const Device& device, const Problem& problem, bool forced) const {
    static const bool debug = environment::is_on("DLPRIM_DEBUG_SELECT");
    const char* reason = decline(core, device, problem, forced);
    if (debug) std::fprintf(stderr, "[%s] %s: %s\n", family_, core.name, reason ? reason : "chosen");
    return !reason;
  }
  const CoreType* after(const CoreType* core, const Device& device, const Problem& problem) const {
    auto next = core ? std::ranges::find(cores_, core) + 1 : cores_.begin();
    for (; next != cores_.end(); ++next)
      if (takes(**next, device, problem, false)) return *next;
    return nullptr;
  }
  const CoreType& found(const CoreType* core, const Device& device) const {
    if (core) return *core;
    throw NotImplementedError(std::string("[") + family_ + "] no kernel serves this on " + device.info().name);
  }
  bool ran(const CoreType& core, Queue& queue, const Problem& problem) const {
    try {
      std::optional<BuildNow> wait;
      if (core.may_fail_to_build && !proven(queue.device(), core)) wait.emplace();
      core.run(queue, problem);
      if (wait) prove(queue.device(), core);
      return true;
    } catch (const OutOfMemoryError&) {
      if (!core.copies) throw;
    } catch (const BuildError&) {
      if (!core.may_fail_to_build || is_forced(core)) throw;
      refuse(queue.device(), core);
    } catch (const DriverDefectError& error) {
      if (is_forced(core) || !after(&core, queue.device(), problem)) throw;
      if (refuse(queue.device(), core)) warn(std::string(error.what()) + "; other kernels are used");
    }
    return false;
  }
  // What is forced is not replaced in silence.
  bool is_forced(const CoreType& core) const {
    const char* name = environment::text(force_);
    return name && std::strcmp(name, core.name) == 0;
  }
  // False when it was before.
  bool refuse(const Device& device, const CoreType& core) const {
    std::lock_guard guard(mutex_);
    any_refused_.store(true, std::memory_order_relaxed);
    return refused_.insert({device.index(), &core}).second;
  }
  bool refused(const Device& device, const CoreType& core) const {
    std::lock_guard guard(mutex_);
    return refused_.contains({device.index(), &core});
  }
  // NVIDIA's compiler takes all kernels of a core or none, and that of newer drivers takes all cores.
  bool proven(const Device& device, const CoreType& core) const {
    constexpr int takes_all = 580;
    const DeviceInfo& info = device.info();
    if (!info.nv_inline_ptx) return false;
    if (std::atoi(info.driver.c_str()) >= takes_all) return true;
    std::lock_guard guard(mutex_);
    return proven_.contains({device.index(), &core});
  }
  void prove(const Device& device, const CoreType& core) const {
    std::lock_guard guard(mutex_);
    proven_.insert({device.index(), &core});
  }

  const char* family_;
  environment::Variable force_;
  std::vector<const CoreType*> cores_;
  mutable std::atomic<bool> any_refused_{false};
  mutable std::mutex mutex_;
  mutable std::set<std::pair<int, const CoreType*>> refused_, proven_;
};

}  // namespace dlprim
