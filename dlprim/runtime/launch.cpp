// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/profile.hpp>
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/recording.hpp>

#include <algorithm>
#include <cstring>

#include "simulate.hpp"

namespace dlprim::detail {

namespace {

void set_arguments(Kernel& kernel, std::span<const Argument> arguments) {
  cl_uint index = 0;
  for (const Argument& argument : arguments) {
    if (argument.kind != Argument::buffers) {
      set_argument(kernel, index++, argument.data, argument.size);
      continue;
    }
    for (const BufferRef& buffer : std::span(static_cast<const BufferRef*>(argument.data), argument.size)) {
      const cl_ulong offset = buffer.offset;
      set_argument(kernel, index++, &buffer.memory, sizeof(cl_mem));
      set_argument(kernel, index++, &offset, sizeof offset);
    }
  }
}

void run(Queue& queue, Kernel& kernel, const NDRange& range, Traffic traffic, std::span<const Argument> arguments,
         bool profiled) {
  if (computes_nothing(kernel.device().info())) return;
  std::lock_guard guard(kernel.lock());
  set_arguments(kernel, arguments);
  enqueue(queue, kernel, range, traffic, profiled);
}

// A launch on its way through a Submission; its arguments follow, and after these what they point to.
struct alignas(16) Deferred {
  Queue* queue;
  Kernel* kernel;
  NDRange range;
  std::size_t count;
};

std::size_t bytes_of(const Argument& argument) {
  if (!argument.data) return 0;
  const std::size_t bytes = argument.kind == Argument::buffers ? argument.size * sizeof(BufferRef) : argument.size;
  return (bytes + 15) / 16 * 16;
}

void run_deferred(const std::byte* payload) {
  const auto& launch = *reinterpret_cast<const Deferred*>(payload);
  const auto* arguments = reinterpret_cast<const Argument*>(payload + sizeof launch);
  run(*launch.queue, *launch.kernel, launch.range, {}, {arguments, launch.count}, false);
}

void write_deferred(std::byte* payload, const Deferred& launch, std::span<const Argument> arguments) {
  auto* copy = reinterpret_cast<Argument*>(payload + sizeof launch);
  std::byte* data = reinterpret_cast<std::byte*>(copy) + (arguments.size_bytes() + 15) / 16 * 16;
  new (payload) Deferred(launch);
  for (const Argument& argument : arguments) {
    const std::size_t unit = argument.kind == Argument::buffers ? sizeof(BufferRef) : 1;
    new (copy++) Argument{argument.kind, argument.size, argument.data ? data : nullptr};
    if (argument.data) std::memcpy(data, argument.data, argument.size * unit);
    data += bytes_of(argument);
  }
}

// Halves a work-group until it has at most `most` work-items, the last dimensions first.
void fit(std::size_t* local, int dims, std::size_t most) {
  auto items = [&] {
    std::size_t product = 1;
    for (int d = 0; d < dims; d++) product *= local[d];
    return product;
  };
  for (int d = dims - 1; d >= 0; d--)
    while (local[d] > 1 && items() > most) local[d] = (local[d] + 1) / 2;
}

}  // namespace

void launch(Queue& queue, Kernel& kernel, const NDRange& range, Traffic traffic, std::span<const Argument> arguments) {
  if (const CapturePin capture(queue); capture) return capture->add_launch(kernel, range, arguments);
  queue.admit();
  if (Recording* recording = Recording::current()) recording->add_launch(queue, kernel, range, arguments);
  const bool profiled = Profiler::enabled();
  Submission* submission = queue.submission();
  if (!submission || profiled) {
    queue.submit();
    return run(queue, kernel, range, traffic, arguments, profiled);
  }
  std::size_t bytes = sizeof(Deferred) + (arguments.size_bytes() + 15) / 16 * 16;
  for (const Argument& argument : arguments) bytes += bytes_of(argument);
  submission->push(run_deferred, bytes, [&](std::byte* payload) {
    write_deferred(payload, {&queue, &kernel, range, arguments.size()}, arguments);
  });
}

void set_argument(Kernel& kernel, cl_uint index, const void* value, std::size_t bytes) {
  if (const cl_int code = clSetKernelArg(kernel.get(), index, bytes, value))
    throw DeviceError("clSetKernelArg(" + kernel.name() + ", " + std::to_string(index) + ")", code);
}

void enqueue(Queue& queue, Kernel& kernel, const NDRange& range, Traffic traffic, bool profiled) {
  std::size_t global[3], local[3];
  std::copy_n(range.local, 3, local);
  if (range.local[0] != 0 && !kernel.fixed_work_group()) fit(local, range.dims, kernel.max_work_group());
  for (int d = 0; d < range.dims; d++) {
    const std::size_t unit = range.local[0] == 0 ? 1 : local[d];
    global[d] = (range.global[d] + unit - 1) / unit * unit;
  }
  cl_event event = nullptr;
  const cl_int code =
      clEnqueueNDRangeKernel(queue.handle(), kernel.get(), cl_uint(range.dims), nullptr, global,
                             range.local[0] == 0 ? nullptr : local, 0, nullptr, profiled ? &event : nullptr);
  if (code != CL_SUCCESS) throw DeviceError("clEnqueueNDRangeKernel(" + kernel.name() + ")", code);
  if (event) Profiler::record(event, kernel.name().c_str(), queue.device().index(), queue.id(), traffic.bytes);
  kernel.use();
  queue.enqueued();
}

}  // namespace dlprim::detail
