// SPDX-License-Identifier: MIT
// Memory that the ranks of one host share.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pytorch_ocl::distributed {

/// What a rank takes part in, so that ranks whose calls differ find out.
struct Signature {
  std::int32_t kind = 0, dtype = 0, operation = 0, root = 0;
  std::int64_t bytes = 0;
  bool operator==(const Signature&) const = default;
};

/// A count that other processes wait for. It wraps around: counts are compared by their difference.
class alignas(64) SharedCount {
 public:
  bool has_reached(std::uint32_t count) const noexcept;
  /// Sets the count and wakes whoever waits for it.
  void reach(std::uint32_t count) noexcept;
  /// Returns when the count may have reached `count`, at the latest after `most`.
  void await(std::uint32_t count, std::chrono::milliseconds most) const noexcept;

 private:
  alignas(64) mutable std::uint32_t value_;
};

/// The beginning of a segment. Only its owner writes to it.
struct SharedHeader {
  static constexpr std::size_t slots = 6;  ///< pieces that may be under way at once

  std::array<std::uint64_t, 2> secret;
  SharedCount sent;  ///< pieces whose input lies in the segment
  SharedCount reduced;  ///< pieces whose result lies in the segment
  SharedCount received;  ///< pieces that the owner needs nobody's segment for any more
  SharedCount failed;  ///< 1 once the owner takes part in nothing more
  alignas(64) std::array<Signature, slots> signatures;
};

/// A rank's segment, mapped by itself or by another rank. It has no name in any file system once the ranks have found
/// each other, so that nothing remains of processes that are killed.
class SharedSegment {
 public:
  static constexpr std::size_t header_bytes = 4096;

  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept { swap(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept { return swap(other), *this; }
  ~SharedSegment();

  /// A segment of this process: in memory without a name, or as a file of `folder`. Of its bytes, the first `taken` have
  /// memory at once. Throws c10::Error.
  static SharedSegment make(std::size_t bytes, const std::string& folder, std::size_t taken);
  static SharedSegment make(std::size_t bytes, const std::string& folder = {}) { return make(bytes, folder, bytes); }
  /// Another rank's, by what its place() and secret() say. Throws c10::Error where it cannot be reached from here.
  static SharedSegment open(std::size_t bytes, const std::string& place, const std::string& secret);

  /// Where other processes of the host find it.
  const std::string& place() const noexcept { return place_; }
  /// Tells it from whatever else may be found there.
  std::string secret() const;
  /// Takes memory for bytes of data(): where there was none, using them would end the process. Throws c10::Error.
  void take_memory(std::size_t begin, std::size_t bytes);
  /// Removes the file, if there is one.
  void remove_name() noexcept;

  SharedHeader& header() const noexcept { return *reinterpret_cast<SharedHeader*>(memory_); }
  std::byte* data() const noexcept { return memory_ + header_bytes; }
  /// What data() points to.
  std::size_t data_bytes() const noexcept { return bytes_ - header_bytes; }
  /// Whether the process that made it still runs.
  bool has_owner() const noexcept;

 private:
  void swap(SharedSegment& other) noexcept;
  void map(std::size_t bytes);

  int file_ = -1;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  bool own_ = false, named_ = false;
  std::string place_;
};
static_assert(sizeof(SharedHeader) <= SharedSegment::header_bytes);

/// What two processes of one host agree on.
std::string host_identity();
/// The number of this process, by which others of the host know it.
std::int32_t this_process() noexcept;
/// Whether a process of the host still runs.
bool is_running(std::int32_t process);

}  // namespace pytorch_ocl::distributed
