// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>

namespace dlprim {

struct DeviceInfo;

/// Commands on their way to the driver, in order, by a thread of their own: the thread that computes goes on at once
/// while the driver takes its time (4.8 us a kernel with NVIDIA's). Thread-safe; never destroyed, as devices are.
class Submission {
 public:
  /// Does what a command says; `payload` is what was written when it was handed over.
  using Run = void (*)(const std::byte* payload);

  /// For devices where it pays, GPUs beside four or more of the host's cores that this process may use; null elsewhere. DLPRIM_SUBMIT_THREAD
  /// of 0 or 1 says otherwise.
  static std::unique_ptr<Submission> make(const DeviceInfo& device);
  Submission();
  ~Submission();

  /// Hands over a command: `write(std::byte*)` fills its `bytes` of payload, which are aligned to 16. The calling thread
  /// waits only while a mebibyte is on its way. Throws what a command before this one threw, unless `quietly`: then a
  /// later call does. Returns where the command ends, for wait_for().
  template <class Write>
  std::size_t push(Run run, std::size_t bytes, Write&& write, bool quietly = false) {
    std::lock_guard guard(pushing_);
    write(reserve(run, bytes, quietly));
    const std::size_t end = next_;
    publish();
    return end;
  }

  /// Hands over a function object without resources.
  template <class Command>
  std::size_t push(const Command& command, bool quietly = false) {
    static_assert(std::is_trivially_copyable_v<Command> && alignof(Command) <= 16);
    return push([](const std::byte* payload) { (*reinterpret_cast<const Command*>(payload))(); }, sizeof command,
                [&](std::byte* payload) { new (payload) Command(command); }, quietly);
  }

  /// Returns when all commands handed over before have been run; the calling thread runs some of them itself if nobody
  /// else does.
  void wait() noexcept;
  /// The same for those up to the one that ends there.
  void wait_for(std::size_t end) noexcept { run_until(end); }
  /// Waits, then throws what the first failed command threw.
  void drain();
  /// Whether the caller is a command.
  static bool is_current() noexcept { return current_; }
  /// At the process' end: no command that has not begun will.
  static void halt_all() noexcept;

 private:
  struct Command;
  static inline thread_local bool current_ = false;
  std::byte* reserve(Run run, std::size_t bytes, bool quietly);
  void publish() noexcept;
  bool run_next() noexcept;
  void run_until(std::size_t end) noexcept;
  void rethrow();
  void work() noexcept;
  bool await_command() noexcept;
  void stop() noexcept;
  static void stop_all() noexcept;

  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  std::byte* at(std::size_t byte) noexcept { return ring_[byte / sizeof(Unit)].bytes; }
  std::unique_ptr<Unit[]> ring_;
  // What one side alone writes, and bytes ever published and run, each on a cache line of its own.
  alignas(64) std::mutex pushing_;
  std::size_t next_ = 0;  // where the command ends that is being written
  std::size_t ran_once_ = 0;  // what ran_ was when the ring last seemed to be full
  alignas(64) std::mutex running_;
  alignas(64) std::atomic<std::size_t> published_{0};
  alignas(64) std::atomic<std::size_t> ran_{0};
  alignas(64) std::atomic<int> asleep_{0};
  std::atomic<bool> stopping_{false}, stopped_{false}, failed_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace dlprim
