// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/cl.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dlprim {

class Allocator;
class HostMemory;
class ProgramCache;
class Queue;
class Staging;
class Submission;

enum class Vendor { nvidia, amd, intel, arm, pocl, other };

/// What a device offers; read once when devices are listed.
struct DeviceInfo {
  std::string id;  ///< "platform:device" in the loader's own numbering
  std::string name, vendor_name, platform, version, driver, extensions;
  Vendor vendor = Vendor::other;
  bool cpu = false, gpu = false;
  bool fp64 = false, fp16 = false, subgroups = false, int64_atomics = false, unified_memory = false;
  bool nv_inline_ptx = false;  ///< inline PTX assembly works (NVIDIA's own driver)
  int nv_compute_capability = 0;  ///< 90 for Hopper; 0 elsewhere
  unsigned compute_units = 1;
  std::size_t max_work_group = 1;
  std::size_t local_memory = 0;  ///< bytes a work-group may use
  std::size_t max_parameters = 1024;  ///< bytes of a kernel's parameters together
  std::uint64_t global_memory = 0, max_allocation = 0;
  unsigned base_alignment = 128;  ///< bytes
  unsigned float_vector = 1;  ///< native width of float vectors (16 with AVX-512)
  unsigned warp = 1;  ///< work-items that run in lock-step (32 NVIDIA, 64 AMD GCN, 1 on a CPU)

  /// Whether threads of the driver compile kernels when these are first run.
  bool compiles_at_launch() const { return vendor == Vendor::pocl || platform == "rusticl"; }
};

/// One OpenCL device with its context, default queue, allocator and programs. Never destroyed.
///
/// Devices of all platforms are listed once, GPUs before accelerators before CPUs, PoCL after vendors' own
/// drivers, otherwise in the loader's order.
/// OCL_VISIBLE_DEVICES restricts and orders them: a comma-separated list of indices ("0,2"), "platform:device" pairs
/// ("1:0") or case-insensitive patterns found in the platform's or device's name ("nvidia").
class Device {
 public:
  /// Number of visible devices; 0 when there is no OpenCL loader, platform or device. Never throws.
  static int count() noexcept;
  /// Why count() is 0, for people ("no OpenCL loader (libOpenCL.so.1) was found ...").
  static const std::string& missing_reason();
  /// The device of an index. Throws ValidationError naming the valid range.
  static Device& get(int index);
  /// The device of "2", "platform:device" or a name pattern. Throws ValidationError listing the devices.
  static Device& find(std::string_view text);

  int index() const noexcept { return index_; }
  const DeviceInfo& info() const noexcept { return info_; }
  cl_device_id id() const noexcept { return id_; }
  const cl::Context& context();
  /// True once a context exists; a process must not fork after that.
  bool initialized() const noexcept;
  Allocator& allocator();
  HostMemory& host_memory();
  ProgramCache& programs();
  /// Pinned memory that copies from and to other host memory pass through.
  Staging& staging();
  /// Null where commands go straight to the driver.
  Submission* submission();
  /// Queue 0, made on first use.
  Queue& default_queue();
  /// The queue of an id given by default_queue() or new_queue(). Throws ValidationError.
  Queue& queue(std::int64_t id);
  /// One of a fixed pool of queues, round robin, as CUDA's stream pool.
  Queue& pooled_queue();
  /// Whether all that was given to its queues is done; does not wait for it.
  bool idle();
  /// Finishes every queue of the device; raises what checked kernels reported.
  void synchronize();

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  Device(int index, cl_device_id id, DeviceInfo info);

 private:
  struct State;
  State& state();
  int index_;
  cl_device_id id_;
  DeviceInfo info_;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
