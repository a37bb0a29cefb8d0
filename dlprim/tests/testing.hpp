// SPDX-License-Identifier: MIT
// Helpers of dlprim's tests. The device is DLPRIM_TEST_DEVICE (an index, "platform:device" or name pattern; default 0).
#pragma once
#include <dlprim/runtime/memory.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

namespace dlprim::testing {

inline Device& device() {
  const char* name = std::getenv("DLPRIM_TEST_DEVICE");
  return name ? Device::find(name) : Device::get(0);
}

inline Queue& queue() { return device().default_queue(); }

/// Whether the device has Hopper's matrix units and copy engine.
inline bool has_hopper_units() { return device().info().nv_inline_ptx && device().info().nv_compute_capability == 90; }

/// PoCL and Mesa's rusticl take up to a second to build a kernel: there, tests of many cases in many dtypes and forms take
/// every third of these, which wanders over all of them. Other devices take all.
inline bool builds_slowly() { return device().info().vendor == Vendor::pocl || device().info().platform == "rusticl"; }
inline bool takes(int number) { return !builds_slowly() || number % 3 == 0; }

/// Device memory holding a vector; read() brings it back.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(std::size_t size) : size_(size), memory_(queue(), std::max<std::size_t>(size, 1) * sizeof(T)) {}
  explicit DeviceVector(const std::vector<T>& values) : DeviceVector(values.size()) {
    queue().write(data(), values.data(), size_ * sizeof(T), true);
  }
  BufferRef data() const { return memory_.data(); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    queue().read(values.data(), data(), size_ * sizeof(T), true);
    return values;
  }

 private:
  std::size_t size_;
  Workspace memory_;
};

/// Uniform numbers of [low, high), the same for the same seed.
inline std::vector<float> random_floats(std::size_t size, unsigned seed = 1, float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(size);
  for (float& value : values) value = distribution(engine);
  return values;
}

}  // namespace dlprim::testing
