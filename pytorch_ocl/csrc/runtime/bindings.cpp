// SPDX-License-Identifier: MIT
// What the Python package calls: torch.ops.pytorch_ocl.*
#include <torch/library.h>

#include "backward.hpp"
#include "device.hpp"
#include "device_index.hpp"
#include "errors.hpp"
#include "fallback.hpp"
#include "generator.hpp"
#include "host_allocator.hpp"

#include <dlprim/runtime/builds.hpp>
#include <dlprim/runtime/cache.hpp>
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>
#include <dlprim/tuning/tuning.hpp>

namespace pytorch_ocl {

namespace {

using Texts = c10::Dict<std::string, std::string>;
using Numbers = c10::Dict<std::string, std::int64_t>;

std::tuple<Texts, Numbers> device_info(std::int64_t index) {
  const auto& info = device(device_index(index)).info();
  Texts texts;
  texts.insert("id", info.id);
  texts.insert("name", info.name);
  texts.insert("vendor", info.vendor_name);
  texts.insert("platform_name", info.platform);
  texts.insert("version", info.version);
  texts.insert("driver_version", info.driver);
  texts.insert("extensions", info.extensions);
  texts.insert("type", info.gpu ? "gpu" : info.cpu ? "cpu" : "accelerator");
  Numbers numbers;
  numbers.insert("total_memory", std::int64_t(info.global_memory));
  numbers.insert("max_allocation", std::int64_t(info.max_allocation));
  numbers.insert("max_compute_units", info.compute_units);
  numbers.insert("max_work_group_size", std::int64_t(info.max_work_group));
  numbers.insert("local_mem_size", std::int64_t(info.local_memory));
  numbers.insert("warp_size", info.warp);
  numbers.insert("compute_capability", info.nv_compute_capability);
  numbers.insert("has_fp64", info.fp64);
  numbers.insert("has_fp16", info.fp16);
  numbers.insert("has_subgroups", info.subgroups);
  numbers.insert("has_int64_atomics", info.int64_atomics);
  numbers.insert("unified_memory", info.unified_memory);
  return {texts, numbers};
}

std::tuple<std::string, std::int64_t, std::int64_t> cache_summary() {
  const auto summary = dlprim::program_cache_summary();
  return {summary.file, summary.programs, summary.bytes};
}

void insert(Numbers& numbers, const std::string& name, const c10::CachingAllocator::Stat& stat) {
  numbers.insert(name + ".current", stat.current);
  numbers.insert(name + ".peak", stat.peak);
  numbers.insert(name + ".allocated", stat.allocated);
  numbers.insert(name + ".freed", stat.freed);
}

Numbers host_memory_stats() {
  const at::HostStats stats = host_allocator().get_stats();
  Numbers numbers;
  insert(numbers, "allocations", stats.allocations);
  insert(numbers, "allocated_bytes", stats.allocated_bytes);
  insert(numbers, "active_requests", stats.active_requests);
  insert(numbers, "active_bytes", stats.active_bytes);
  numbers.insert("num_host_alloc", stats.num_host_alloc);
  numbers.insert("num_host_free", stats.num_host_free);
  return numbers;
}

dlprim::Allocator& allocator(std::int64_t index) { return device(device_index(index)).allocator(); }

// For each segment: address, size, stream, whether it is for small blocks, number of blocks, and for each of
// them: address, size, bytes asked for, whether it is in use, whether other streams may still use it.
std::vector<std::int64_t> memory_segments(std::int64_t index) {
  std::vector<std::int64_t> numbers;
  for (const dlprim::SegmentInfo& segment : allocator(index).segments()) {
    for (const auto number : {std::int64_t(segment.address), std::int64_t(segment.size), segment.queue,
                              std::int64_t(segment.small), std::int64_t(segment.pieces.size())})
      numbers.push_back(number);
    for (const auto& piece : segment.pieces)
      for (const auto number : {std::int64_t(piece.address), std::int64_t(piece.size), std::int64_t(piece.requested),
                                std::int64_t(piece.used), std::int64_t(piece.waiting)})
        numbers.push_back(number);
  }
  return numbers;
}

Numbers fallbacks() {
  Numbers result;
  for (const auto& [name, count] : fallback_counts()) result.insert(name, count);
  return result;
}

}  // namespace

TORCH_LIBRARY(pytorch_ocl, m) {
  m.def("device_count() -> int", [] { return std::int64_t(device_count()); });
  m.def("missing_reason() -> str", [] { return dlprim::Device::missing_reason(); });
  m.def("device_info(int index) -> (Dict(str, str), Dict(str, int))", &device_info);
  m.def("current_device() -> int", [] { return std::int64_t(current_device()); });
  m.def("set_device(int index) -> ()", [](std::int64_t index) { set_device(device_index(index)); });
  m.def("initialized() -> bool", [] { return initialized(); });
  m.def("finish_backward_threads() -> ()", &backward::finish_threads);
  m.def("builds_under_way() -> bool", [] { return dlprim::builds_are_under_way(); });
  m.def("in_bad_fork() -> bool", [] { return in_bad_fork(); });
  m.def("current_stream(int index) -> Stream",
        [](std::int64_t index) { return current_stream(resolve_device(device_index(index))); });
  m.def("set_stream(Stream stream) -> ()", [](c10::Stream stream) { exchange_stream(stream); });
  m.def("default_generator(int index) -> Generator?",
        [](std::int64_t index) -> std::optional<at::Generator> { return default_generator(device_index(index)); });
  m.def("host_memory_stats() -> Dict(str, int)", &host_memory_stats);
  m.def("reset_peak_host_memory_stats() -> ()", [] { host_allocator().reset_peak_stats(); });
  m.def("reset_accumulated_host_memory_stats() -> ()", [] { host_allocator().reset_accumulated_stats(); });
  m.def("empty_host_cache() -> ()", [] { host_allocator().empty_cache(); });
  m.def("memory_segments(int index) -> int[]", &memory_segments);
  m.def("memory_fraction(int index) -> float", [](std::int64_t index) { return allocator(index).fraction(); });
  m.def("set_memory_fraction(int index, float fraction) -> ()",
        [](std::int64_t index, double fraction) { translated([&] { allocator(index).set_fraction(fraction); }); });
  m.def("benchmark() -> bool", [] { return dlprim::settings.benchmark.load(); });
  m.def("set_benchmark(bool wanted) -> ()", [](bool wanted) { dlprim::settings.benchmark = wanted; });
  m.def("tuning_progress() -> (int, int)", [] {
    const auto [choices, measured] = dlprim::tuning_progress();
    return std::tuple(std::int64_t(choices), std::int64_t(measured));
  });
  m.def("record_choices(bool wanted) -> ()", &dlprim::record_choices);
  m.def("tuned_choices() -> str", &dlprim::tuned_choices);
  m.def("fallbacks() -> Dict(str, int)", &fallbacks);
  m.def("reset_fallbacks() -> ()", [] { reset_fallback_counts(); });
  m.def("cache_summary() -> (str, int, int)", &cache_summary);
  m.def("reread_environment() -> ()", [] { dlprim::environment::reread(); });
  m.def("cache_clear() -> ()", [] { dlprim::program_cache_clear(); });
}

}  // namespace pytorch_ocl
