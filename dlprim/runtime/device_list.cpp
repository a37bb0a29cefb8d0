// SPDX-License-Identifier: MIT
#include "device_list.hpp"

#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/warning.hpp>

#include "driver_defects.hpp"
#include "simulate.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace dlprim {

namespace {

std::string text_of(cl_device_id id, cl_device_info what) {
  std::size_t size = 0;
  if (clGetDeviceInfo(id, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (clGetDeviceInfo(id, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::string name_of(cl_platform_id id) {
  std::size_t size = 0;
  if (clGetPlatformInfo(id, CL_PLATFORM_NAME, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  clGetPlatformInfo(id, CL_PLATFORM_NAME, size, text.data(), nullptr);
  return text.c_str();
}

template <class T>
T number_of(cl_device_id id, cl_device_info what, T otherwise = {}) {
  T value{};
  return clGetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return result;
}

Vendor vendor_of(const DeviceInfo& info) {
  const std::string text = lower(info.platform + " " + info.vendor_name);
  auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (has("portable computing language")) return Vendor::pocl;
  if (has("nvidia")) return Vendor::nvidia;
  if (has("advanced micro devices") || has("amd")) return has("intel(r)") ? Vendor::intel : Vendor::amd;
  if (has("intel")) return Vendor::intel;
  return has("arm") ? Vendor::arm : Vendor::other;
}

// DLPRIM_MEMORY_LIMIT: mebibytes of a device that may be used.
std::uint64_t memory_limit() {
  const auto mebibytes = environment::number("DLPRIM_MEMORY_LIMIT");
  return mebibytes ? std::uint64_t(*mebibytes) << 20 : ~std::uint64_t(0);
}

// The smallest sub-group, which Intel's GPUs run in lock-step.
unsigned smallest_subgroup(cl_device_id id, unsigned otherwise) {
  constexpr cl_device_info intel_sizes = 0x4108;
  std::array<std::size_t, 16> sizes;
  std::size_t bytes = 0;
  const cl_int code = clGetDeviceInfo(id, intel_sizes, sizeof sizes, sizes.data(), &bytes);
  if (code != CL_SUCCESS || bytes == 0) return otherwise;
  return unsigned(*std::min_element(sizes.begin(), sizes.begin() + bytes / sizeof(std::size_t)));
}

void read_vendor_limits(cl_device_id id, DeviceInfo& info) {
  constexpr cl_device_info nv_major = 0x4000, nv_minor = 0x4001, nv_warp = 0x4003, amd_wavefront = 0x4043;
  if (info.vendor == Vendor::nvidia && info.gpu) {
    info.nv_inline_ptx = true;
    info.nv_compute_capability = int(10 * number_of<cl_uint>(id, nv_major) + number_of<cl_uint>(id, nv_minor));
    info.warp = number_of<cl_uint>(id, nv_warp, 32);
  } else if (info.vendor == Vendor::amd && info.gpu) {
    info.warp = number_of<cl_uint>(id, amd_wavefront, 64);
  } else if (info.gpu) {
    info.warp = smallest_subgroup(id, 16);
  }
}

DeviceInfo read_info(cl_device_id id, const std::string& platform, std::string index) {
  DeviceInfo info;
  info.id = std::move(index);
  info.platform = platform;
  info.name = text_of(id, CL_DEVICE_NAME);
  info.vendor_name = text_of(id, CL_DEVICE_VENDOR);
  info.version = text_of(id, CL_DEVICE_VERSION);
  info.driver = text_of(id, CL_DRIVER_VERSION);
  info.extensions = text_of(id, CL_DEVICE_EXTENSIONS);
  const auto type = number_of<cl_device_type>(id, CL_DEVICE_TYPE);
  info.cpu = type & CL_DEVICE_TYPE_CPU, info.gpu = type & CL_DEVICE_TYPE_GPU;
  info.vendor = vendor_of(info);
  auto extension = [&](const char* name) { return info.extensions.find(name) != std::string::npos; };
  info.fp64 = number_of<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  info.fp16 = extension("cl_khr_fp16");
  info.subgroups = extension("cl_khr_subgroups") || extension("cl_intel_subgroups");
  info.int64_atomics = extension("cl_khr_int64_base_atomics");
  info.unified_memory = number_of<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
  info.compute_units = std::max<cl_uint>(1, number_of<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS));
  info.float_vector = number_of<cl_uint>(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1);
  info.max_work_group = number_of<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
  info.local_memory = number_of<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  info.max_parameters = number_of<std::size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE, 1024);
  info.global_memory = std::min<std::uint64_t>(number_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE), memory_limit());
  info.max_allocation = number_of<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  info.base_alignment = std::max<cl_uint>(1, number_of<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  read_vendor_limits(id, info);
  if (const char* settings = simulation()) simulate(info, settings);
  return info;
}

// GPUs first, then accelerators, then CPUs; of the same kind, PoCL after vendors' own drivers.
int rank(const ListedDevice& device) {
  const int kind = device.info.gpu ? 0 : device.info.cpu ? 2 : 1;
  return 2 * kind + (device.info.vendor == Vendor::pocl ? 1 : 0);
}

// Why the library cannot serve a device; null when it can.
const char* unusable(cl_device_id id) {
  if (!number_of<cl_bool>(id, CL_DEVICE_AVAILABLE)) return "it is not available";
  if (!number_of<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE)) return "its driver has no compiler";
  return refusal(number_of<cl_bool>(id, CL_DEVICE_ENDIAN_LITTLE), number_of<cl_uint>(id, CL_DEVICE_ADDRESS_BITS));
}

std::vector<ListedDevice> all_devices(std::string& reason) {
  cl_uint count = 0;
  const cl_int code = clGetPlatformIDs(0, nullptr, &count);
  if (code != CL_SUCCESS || count == 0) {
    reason = "no OpenCL platform was found: install a driver for your device (or the packages intel-opencl-rt and "
             "intel-cmplr-lib-rt, or pocl-opencl-icd, to run on the CPU) and an OpenCL loader (libOpenCL.so.1)";
    if (const char* chosen = environment::text("DLPRIM_OPENCL_LIBRARY"))
      reason += "; DLPRIM_OPENCL_LIBRARY=" + std::string(chosen) + " is used instead of the system's loader";
    return {};
  }
  std::vector<cl_platform_id> platforms(count);
  check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<ListedDevice> devices;
  std::string refused;
  for (cl_uint p = 0; p < count; p++) {
    const std::string platform = name_of(platforms[p]);
    cl_uint n = 0;
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, nullptr, &n) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(n);
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, n, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < n; d++) {
      if (const char* why = unusable(ids[d])) {
        refused += "; " + text_of(ids[d], CL_DEVICE_NAME) + " [" + platform + "] cannot be used: " + why;
        continue;
      }
      ListedDevice device{ids[d], read_info(ids[d], platform, std::to_string(p) + ":" + std::to_string(d))};
      if (const DriverDefect* defect = driver_defect(device.info, "*")) {
        const std::string why = device.info.name + " [" + platform + "] cannot be used with driver " +
                                device.info.driver + ": " + defect->reason;
        warn(why);
        refused += "; " + why;
        continue;
      }
      devices.push_back(std::move(device));
    }
  }
  std::stable_sort(devices.begin(), devices.end(), [](auto& a, auto& b) { return rank(a) < rank(b); });
  if (devices.empty()) reason = "the OpenCL platforms found have no usable device" + refused;
  return devices;
}

}  // namespace

const char* refusal(bool little_endian, unsigned address_bits) {
  if (!little_endian) return "it is big-endian, and tensors are exchanged with it byte by byte";
  return address_bits == 64 ? nullptr : "its addresses do not have 64 bits";
}

bool device_matches(const ListedDevice& device, int index, std::string_view text) {
  if (text.empty()) return false;
  const bool digits =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) || c == ':'; });
  if (digits) return text.find(':') == std::string_view::npos ? text == std::to_string(index) : text == device.info.id;
  return lower(device.info.platform + " " + device.info.name + " " + device.info.vendor_name).find(lower(text)) !=
         std::string::npos;
}

std::vector<ListedDevice> list_devices(const char* visible, std::string& reason) {
  auto devices = all_devices(reason);
  if (!visible || devices.empty()) return devices;
  std::vector<ListedDevice> chosen;
  std::vector<bool> taken(devices.size(), false);
  std::string_view rest = visible;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    std::string_view entry = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    for (std::size_t i = 0; i < devices.size(); i++)
      if (!taken[i] && device_matches(devices[i], int(i), entry)) taken[i] = true, chosen.push_back(devices[i]);
  }
  if (chosen.empty()) reason = "OCL_VISIBLE_DEVICES=" + std::string(visible) + " matches none of the OpenCL devices";
  return chosen;
}

}  // namespace dlprim
