// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/command_list.hpp>

#include <mutex>
#include <set>
#include <string>

namespace dlprim {

/// What events of captured queues refer to.
struct CaptureTie {
  std::mutex mutex;
  Capture* capture;  // null once that has ended
};

/// What any thread puts into a queue from when this is made until finish(): noted instead of run, and run by replay() as
/// often as wished, with the memory that it named. Memory allocated for the queue meanwhile is a MemoryPool's, as long as
/// that lives; other memory must be kept by the caller. A queue has one capture at a time. Queues of the device that wait
/// for events of a captured one are captured with it.
///
/// Work that cannot be noted, such as reading from the device, throws Error, and so does finish() behind it.
class Capture {
 public:
  /// `pool`, of the queue's device, may be other captures' too; null: one of its own. Throws Error where the queue is
  /// captured or the calling thread records.
  explicit Capture(Queue& queue, std::shared_ptr<MemoryPool> pool = nullptr);
  Capture(const Capture&) = delete;
  virtual ~Capture();

  /// A number that 64-bit arguments of kernels have the place of one by, which each replay is given: the first call's
  /// is the first of these.
  std::uint64_t placeholder();
  /// Whether a number is a placeholder of any capture.
  static bool is_placeholder(std::uint64_t number) noexcept;
  /// Ends the capture. Throws Error where something could not be noted, or a placeholder is nowhere an argument.
  void finish();
  /// Runs the commands, in any queue of the device. `numbers` are those of the placeholders. Throws as commands do.
  /// Thread-safe.
  void replay(std::span<const std::uint64_t> numbers, Queue& in);
  void replay(std::span<const std::uint64_t> numbers) { replay(numbers, queue_); }

  Queue& queue() const noexcept { return queue_; }
  const CommandList& commands() const noexcept { return commands_; }

  // For those who run commands.
  void add_launch(Kernel& kernel, const NDRange& range, std::span<const detail::Argument> arguments);
  void add_copy(BufferRef to, BufferRef from, std::size_t bytes);
  void add_fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes);
  void add_message(QueueStatus& status, const char* message);
  [[noreturn]] void fail(const char* why);
  const std::shared_ptr<MemoryPool>& pool() const noexcept { return pool_; }
  std::uint64_t id() const noexcept { return id_; }  ///< from 1
  BufferRef zeroed_counters();
  void keep(std::shared_ptr<MemoryPool> pool);  ///< of a capture that is replayed in this one
  const std::shared_ptr<CaptureTie>& tie() const noexcept { return tie_; }
  /// Has `queue` captured as well. Throws Error where the capture has ended or cannot have that.
  static void join(CaptureTie& tie, Queue& queue);

 protected:
  struct Later {};
  /// Begins with begin(), when a derived class is made. That ends it by end(), before it is destroyed.
  Capture(Queue& queue, std::shared_ptr<MemoryPool> pool, Later);
  void begin();
  void end() noexcept;
  /// A number that is_placeholder(), for which no argument is looked for.
  static std::uint64_t new_number();

 private:
  struct Place {
    std::byte* value;
    std::size_t number;
  };
  void add_queue(Queue& queue);
  void hold(std::span<const BufferRef> buffers);

  Queue& queue_;
  std::shared_ptr<MemoryPool> pool_;
  std::shared_ptr<CaptureTie> tie_;
  std::mutex mutex_;
  std::uint64_t id_;
  cl::Buffer counters_;
  std::vector<std::shared_ptr<MemoryPool>> kept_;
  std::vector<Queue*> joined_;  // besides queue_
  CommandList commands_;
  std::map<::_cl_mem*, cl::Memory> used_;  // that commands name
  std::vector<std::uint64_t> placeholders_;
  std::vector<Place> places_;
  std::set<std::pair<QueueStatus*, const char*>> messages_;
  std::string failure_;
};

}  // namespace dlprim
