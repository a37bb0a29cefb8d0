// SPDX-License-Identifier: MIT
// The one launch path: no other file enqueues a kernel.
#pragma once
#include <dlprim/runtime/program.hpp>
#include <dlprim/runtime/queue.hpp>

#include <algorithm>
#include <bit>
#include <span>
#include <type_traits>

namespace dlprim {

/// Global and local sizes of 1 to 3 dimensions. A local size of 0 leaves the choice to the runtime.
/// Local sizes are wishes: where the device or the kernel allows only smaller groups they are halved, unless the kernel
/// requires its size (reqd_work_group_size), as every kernel must whose work-items share local memory.
/// Global sizes are rounded up to multiples of the local sizes: kernels guard their bounds.
struct NDRange {
  int dims = 1;
  std::size_t global[3] = {1, 1, 1};
  std::size_t local[3] = {0, 0, 0};
  explicit NDRange(std::size_t global_x, std::size_t local_x = 0) : global{global_x, 1, 1}, local{local_x, 0, 0} {}
  NDRange(std::size_t gx, std::size_t gy, std::size_t lx, std::size_t ly)
      : dims(2), global{gx, gy, 1}, local{lx, ly, 0} {}
  NDRange(std::size_t gx, std::size_t gy, std::size_t gz, std::size_t lx, std::size_t ly, std::size_t lz)
      : dims(3), global{gx, gy, gz}, local{lx, ly, lz} {}
};

/// The largest power of 2 of at most `wish` work-items that the device allows in a group.
inline std::size_t fitting_group(const DeviceInfo& device, std::size_t wish) {
  return std::bit_floor(std::min(wish, device.max_work_group));
}

/// An argument that reserves local memory.
struct LocalMemory {
  std::size_t bytes;
};

/// Bytes a launch moves, for the profiler's bandwidth column; optional.
struct Traffic {
  std::uint64_t bytes = 0;
};

namespace detail {

/// An argument of a launch: where it lies and what it is.
struct Argument {
  enum Kind : std::uint32_t { value, local, buffers };
  Kind kind;
  std::uint32_t size;  // bytes; of buffers, their number
  const void* data;  // null for local memory
};

inline Argument argument(const BufferRef& buffer) { return {Argument::buffers, 1, &buffer}; }
inline Argument argument(const LocalMemory& local) { return {Argument::local, std::uint32_t(local.bytes), nullptr}; }
inline Argument argument(const std::span<const std::byte>& structure) {
  return {Argument::value, std::uint32_t(structure.size()), structure.data()};
}
inline Argument argument(const std::span<const BufferRef>& buffers) {
  return {Argument::buffers, std::uint32_t(buffers.size()), buffers.data()};
}
template <class T>
Argument argument(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "plain values only");
  static_assert(!std::is_same_v<T, bool>, "bool is no OpenCL kernel argument type");
  return {Argument::value, sizeof value, &value};
}

void launch(Queue& queue, Kernel& kernel, const NDRange& range, Traffic traffic, std::span<const Argument> arguments);

// The two halves of a launch by the calling thread; expect the kernel's lock to be held and the queue submitted.
void set_argument(Kernel& kernel, cl_uint index, const void* value, std::size_t bytes);
void enqueue(Queue& queue, Kernel& kernel, const NDRange& range, Traffic traffic, bool profiled);

}  // namespace detail

/// Runs `kernel` with `arguments` in order. A BufferRef fills two parameters, GLOBAL(T, name) of lib/types.clh: the
/// buffer and its byte offset as ulong. Plain values, structs by value included, fill one, as does a span of bytes that
/// holds a struct laid out at run time; a span of BufferRefs fills two for each. Nothing runs for an empty range.
/// Throws DeviceError, where the queue has a Submission for a launch before this one.
template <class... Arguments>
void launch(Queue& queue, Kernel& kernel, const NDRange& range, const Traffic& traffic, const Arguments&... arguments) {
  if (range.global[0] == 0 || range.global[1] == 0 || range.global[2] == 0) return;
  const detail::Argument all[] = {detail::argument(arguments)...};
  detail::launch(queue, kernel, range, traffic, all);
}

template <class First, class... Arguments>
  requires(!std::is_same_v<First, Traffic>)
void launch(Queue& queue, Kernel& kernel, const NDRange& range, const First& first, const Arguments&... arguments) {
  launch(queue, kernel, range, Traffic{}, first, arguments...);
}

}  // namespace dlprim
