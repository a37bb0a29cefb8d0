// SPDX-License-Identifier: MIT
// What was measured on devices: values by key. Everything that is tuned is here, choices among ways to solve a problem
// (choices.hpp) as well as sizes of tiles, costs and thresholds.
//
// Values ship with the library in dlprim/tuning/data/*.tsv, lines of scope, key and value separated by tabs; several
// lines of a scope and key list their values in order. A scope says where a value was measured: "vendor/architecture/
// device", or less of that, or "*". A device takes the values of the first of these that has any: itself, its
// architecture (whether said of it or measured on another device of it), its vendor, "*".
#pragma once
#include <dlprim/runtime/device.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlprim::tuning {

/// "nvidia/sm_90/NVIDIA H200". Architectures: NVIDIA's by compute capability, AMD's as it names them, CPUs (vendor
/// "cpu") by the length of their vectors of float32 ("vector16"), others by that of their sub-groups ("simd8").
std::string scope_of(const DeviceInfo& device);

/// The values of a key: set in this process, kept on disk by this or an earlier one for the same device and driver, or
/// shipped. Empty: there is none.
std::vector<std::string> values(const DeviceInfo& device, const std::string& key);
/// The shipped ones alone.
std::vector<std::string> shipped_values(const DeviceInfo& device, const std::string& key);
/// The numbers of a text, which blanks or the letter x separate, up to the first word that is not one ("8x16 0.5": 8, 16, 0.5).
std::vector<double> numbers_in(std::string_view text);
/// Reads the numbers of a key that every device has. Throws Error when there are not as many.
void read_numbers(const DeviceInfo& device, const std::string& key, std::span<double> numbers);

/// Sets values in this process. Nothing may be launched on the device at the same time.
void set(const DeviceInfo& device, const std::string& key, std::vector<std::string> values);
/// Keeps values on disk, for the processes to come.
void keep(const DeviceInfo& device, const std::string& key, const std::vector<std::string>& values);
/// Undoes both.
void forget(const DeviceInfo& device, const std::string& key);
/// Rises with every set() and forget(): what was made of values before is out of date.
unsigned generation() noexcept;

/// Whether choices (keys of more than one word, see choices.hpp) may be known for a device, on disk or shipped.
bool has_choices(const Device& device);

/// What `make` makes of a device's values, once for each device. Free of locks but for the first time.
template <class T>
class PerDevice {
 public:
  explicit PerDevice(std::function<T(const DeviceInfo&)> make)
      : make_(std::move(make)), slots_(std::make_unique<Slot[]>(std::size_t(Device::count()))) {}
  const T& operator()(const Device& device) {
    Slot& slot = slots_[std::size_t(device.index())];
    const Entry* entry = slot.load(std::memory_order_acquire);
    if (!entry || entry->generation != generation()) entry = renew(slot, device.info());
    return entry->value;
  }

 private:
  struct Entry {
    unsigned generation;
    T value;
  };
  using Slot = std::atomic<const Entry*>;

  const Entry* renew(Slot& slot, const DeviceInfo& info) {
    std::lock_guard guard(mutex_);
    const unsigned now = generation();
    entries_.push_back(std::make_unique<Entry>(Entry{now, make_(info)}));  // older ones may still be read
    slot.store(entries_.back().get(), std::memory_order_release);
    return entries_.back().get();
  }
  std::function<T(const DeviceInfo&)> make_;
  std::unique_ptr<Slot[]> slots_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<const Entry>> entries_;
};

/// The numbers of a key: static Numbers<2> limits("family.name"); const auto& [a, b] = limits(device);
template <std::size_t count>
class Numbers : public PerDevice<std::array<double, count>> {
 public:
  explicit Numbers(const char* key)
      : PerDevice<std::array<double, count>>([key](const DeviceInfo& device) {
          std::array<double, count> all;
          read_numbers(device, key, all);
          return all;
        }) {}
};

}  // namespace dlprim::tuning
