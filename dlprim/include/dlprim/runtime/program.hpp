// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace dlprim {

/// What a kernel is built from: a file of dlprim/kernels, the kernel's name in it, and definitions placed before it.
class KernelSource {
 public:
  KernelSource(std::string file, std::string kernel) : file(std::move(file)), kernel(std::move(kernel)) {}
  KernelSource& define(std::string_view name, std::string_view value = "1");
  KernelSource& define(std::string_view name, std::int64_t value);
  /// Adds a build option, e.g. "-cl-fast-relaxed-math". Default: "-cl-std=CL1.2"-compatible, "-cl-mad-enable".
  KernelSource& option(std::string_view text);
  /// On devices of this very architecture, such as NVIDIA's "sm_90a", lets the driver assemble for it. It has instructions
  /// that OpenCL's compiler does not accept: inline assembly writes them behind "//@", which is taken away in between.
  /// Registers are limited so that `resident` work-groups share a compute unit.
  KernelSource& ptx_target(std::string_view target, int resident = 1);
  /// Uses `text` instead of a file of dlprim/kernels; may #include those.
  static KernelSource from_text(std::string text, std::string kernel);

  std::string file, kernel, text, defines, options, target;
};

/// A compiled kernel of one device. Launching is serialized by its own lock, as OpenCL kernels keep their arguments.
///
/// Of the kernels of a process, 1024 (DLPRIM_PROGRAM_LIMIT) are kept in memory: those not used for the longest time are
/// dropped and loaded or built again when they are launched.
class Kernel {
 public:
  Kernel(Device& device, cl::Kernel kernel, KernelSource source);
  ~Kernel();
  Device& device() const noexcept { return device_; }
  /// OpenCL's kernel, loaded again if it was dropped. Expects the lock to be held for as long as it is used.
  cl_kernel get() {
    if (!kernel_()) load();
    return kernel_();
  }
  const std::string& name() const noexcept { return source_.kernel; }
  /// Largest work-group this kernel can run with.
  std::size_t max_work_group() const noexcept { return max_work_group_; }
  /// Whether its source requires a size of work-groups, as kernels do whose work-items work together.
  bool fixed_work_group() const noexcept { return fixed_work_group_; }
  std::mutex& lock() noexcept { return lock_; }
  /// Notes a launch.
  void use() noexcept { used_.store(builds.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  /// How many kernels are in memory.
  static std::size_t loaded();

 private:
  void load();
  void keep();
  static std::atomic<std::uint64_t> builds;  // of the process: the clock of `used_`
  Device& device_;
  cl::Kernel kernel_;
  KernelSource source_;
  std::atomic<std::uint64_t> used_{0};
  std::size_t max_work_group_;
  bool fixed_work_group_;
  std::mutex lock_;
};

/// Builds programs of one device and keeps the binaries on disk (see disk_cache.hpp). Thread-safe.
class ProgramCache {
 public:
  explicit ProgramCache(Device& device) : device_(device) {}
  /// Builds, or loads from disk. Throws BuildError with the compiler's log.
  std::unique_ptr<Kernel> build(const KernelSource& source);
  /// The same, as OpenCL's own kernel.
  cl::Kernel compile(const KernelSource& source);
  /// The full text handed to the OpenCL compiler, includes resolved. Throws Error for an unknown file.
  static std::string preprocess(const KernelSource& source);

 private:
  cl::Program program(const std::string& text, const std::string& options, const std::string& target,
                      const std::string& what);
  Device& device_;
};

/// Kernels by a small key, a trivially copyable struct without padding holes (zero-initialize it) that determines the
/// source completely. One per family and process: `static KernelCache<Key> cache;`.
template <class Key>
class KernelCache {
  static_assert(std::has_unique_object_representations_v<Key>, "padding would make equal keys differ");

 public:
  /// The kernel of `key` on `device`, building `make()` -> KernelSource on first use.
  template <class Make>
  Kernel& get(Device& device, const Key& key, Make&& make) {
    const Slot slot{device.index(), key};
    {
      std::shared_lock guard(mutex_);
      if (auto it = kernels_.find(slot); it != kernels_.end()) return *it->second;
    }
    auto built = device.programs().build(make());
    std::unique_lock guard(mutex_);
    auto& entry = kernels_[slot];
    if (!entry) entry = built.release();
    return *entry;
  }

 private:
  struct Slot {
    int device;
    Key key;
    bool operator==(const Slot& other) const noexcept {
      return device == other.device && std::memcmp(&key, &other.key, sizeof key) == 0;
    }
  };
  struct Hash {
    std::size_t operator()(const Slot& slot) const noexcept {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&slot.key), sizeof slot.key}) ^
             std::size_t(slot.device);
    }
  };
  std::shared_mutex mutex_;
  // Kernels are never released: drivers may be gone when static objects are destroyed.
  std::unordered_map<Slot, Kernel*, Hash> kernels_;
};

}  // namespace dlprim
