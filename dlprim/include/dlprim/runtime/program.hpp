// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace dlprim {

class Compilers;

/// What a kernel is built from: a file of dlprim/kernels, the kernel's name in it, and definitions placed before it.
class KernelSource {
 public:
  KernelSource(std::string file, std::string kernel) : file(std::move(file)), kernel(std::move(kernel)) {}
  KernelSource& define(std::string_view name, std::string_view value = "1");
  KernelSource& define(std::string_view name, std::int64_t value);
  /// Adds a build option, e.g. "-cl-fast-relaxed-math".
  KernelSource& option(std::string_view text);
  /// On devices of this very architecture, such as NVIDIA's "sm_90a", lets the driver assemble for it. It has instructions
  /// that OpenCL's compiler does not accept: inline assembly writes them behind "//@", which is taken away in between.
  /// Registers are limited so that `resident` work-groups share a compute unit.
  KernelSource& ptx_target(std::string_view target, int resident = 1);
  /// Has who asks for the kernel wait until it is built, so that an error is theirs: for text that a caller wrote.
  KernelSource& build_now();
  /// Uses `text` instead of a file of dlprim/kernels; may #include those.
  static KernelSource from_text(std::string text, std::string kernel);

  std::string file, kernel, text, defines, options, target;
  bool waits = false;
};

/// While one lives, its thread waits for the kernels that it asks for: for who has another way where a build fails.
class BuildNow {
 public:
  BuildNow() noexcept { depth++; }
  BuildNow(const BuildNow&) = delete;
  ~BuildNow() { depth--; }
  static bool wanted() noexcept { return depth > 0; }

 private:
  static thread_local int depth;
};

/// A compiled kernel of one device. Launching is serialized by its own lock, as OpenCL kernels keep their arguments.
///
/// Of the kernels of a process, 1024 (DLPRIM_PROGRAM_LIMIT) are kept in memory: those not used for the longest time are
/// dropped and loaded or built again when they are launched.
///
/// A kernel may be on its way still, built by another thread (ProgramCache::begin): what needs it waits, and throws the
/// BuildError where it fails.
class Kernel {
 public:
  Kernel(Device& device, cl::Kernel kernel, KernelSource source);
  /// One that is not built yet: somebody calls build().
  Kernel(Device& device, KernelSource source);
  ~Kernel();
  Device& device() const noexcept { return device_; }
  void build() noexcept;
  /// Says that nobody will build it.
  void abandon() noexcept;
  /// OpenCL's kernel, loaded again if it was dropped. Expects the lock to be held for as long as it is used.
  cl_kernel get() {
    await();
    if (!kernel_()) load();
    return kernel_();
  }
  const std::string& name() const noexcept { return source_.kernel; }
  /// The largest work-group of at most `wish` work-items that this kernel can run with. Does not wait for the kernel
  /// where the device runs all kernels with as many.
  std::size_t work_group(std::size_t wish);
  /// Largest work-group this kernel can run with.
  std::size_t max_work_group() {
    await();
    return max_work_group_;
  }
  /// Whether its source requires a size of work-groups, as kernels do whose work-items work together.
  bool fixed_work_group() {
    await();
    return fixed_work_group_;
  }
  std::mutex& lock() noexcept { return lock_; }
  /// Notes a launch.
  void use() noexcept { used_.store(builds.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  /// How many kernels are in memory.
  static std::size_t loaded();

 private:
  enum class State { building, built, failed };
  void await() {
    if (state_.load(std::memory_order_acquire) != State::built) wait_until_built();
  }
  void wait_until_built();
  void adopt(cl::Kernel kernel);
  void become(State state) noexcept;
  void load();
  void keep();
  static std::atomic<std::uint64_t> builds;  // of the process: the clock of `used_`
  Device& device_;
  cl::Kernel kernel_;
  KernelSource source_;
  std::atomic<State> state_{State::building};
  std::exception_ptr error_;  // of a build that failed
  std::size_t max_work_group_ = 0;
  bool fixed_work_group_ = false;
  alignas(64) std::mutex lock_;  // this and the next by who calls the driver
  std::atomic<std::uint64_t> used_{0};
};

/// Builds programs of one device and keeps the binaries on disk (see disk_cache.hpp). Thread-safe.
class ProgramCache {
 public:
  explicit ProgramCache(Device& device);
  ~ProgramCache();
  /// Builds, or loads from disk. Throws BuildError with the compiler's log.
  std::unique_ptr<Kernel> build(const KernelSource& source);
  /// The same. Where commands go to the driver by a thread of their own (Submission), returns at once: threads build
  /// several kernels at a time, and launches wait in the ring. A BuildError is then thrown as errors of launches are.
  std::unique_ptr<Kernel> begin(const KernelSource& source);
  /// The same, as OpenCL's own kernel.
  cl::Kernel compile(const KernelSource& source);
  /// Whether the driver's compiler takes a source, found out in another process: some end the one that gives them what
  /// they do not know. False where no other process can compile. A yes is kept on disk.
  bool accepts(const KernelSource& source);
  /// Who compiles.
  Compilers& compilers() noexcept { return *compilers_; }
  /// The full text handed to the OpenCL compiler, includes resolved. Throws Error for an unknown file.
  static std::string preprocess(const KernelSource& source);

 private:
  void refuse_defects(const KernelSource& source) const;
  std::string key_of(const std::string& text, const std::string& options, const std::string& target) const;
  cl::Program program(const std::string& text, const std::string& options, const std::string& target,
                      const std::string& what);
  cl::Program compile_here(const std::string& text, const std::string& options, const std::string& what);
  Device& device_;
  std::unique_ptr<Compilers> compilers_;
  std::atomic<bool> compiled_{false};
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
    auto begun = device.programs().begin(make());
    std::unique_lock guard(mutex_);
    auto& entry = kernels_[slot];
    if (!entry) entry = begun.release();
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
