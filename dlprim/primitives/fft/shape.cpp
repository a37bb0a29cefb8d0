// SPDX-License-Identifier: MIT
#include "shape.hpp"

#include <dlprim/error.hpp>
#include <dlprim/runtime/static_local_memory.hpp>

#include <algorithm>
#include <bit>
#include <mutex>
#include <string>
#include <unordered_map>

namespace dlprim::fft_detail {

namespace {

constexpr std::uint8_t all_radices[] = {32, 16, 13, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2};

// Tries every way to write the length as a product of radices, greatest first, and keeps the cheapest shape.
class Search {
 public:
  Search(const Device& device, std::uint32_t length, const PassNeeds& needs)
      : info_(device.info()), needs_(needs), vectors_(info_.cpu && info_.vendor == Vendor::intel && !needs.columns),
        large_registers_(needs.columns && !needs.doubles && !needs.chirped && length >= 512 &&
                         std::has_single_bit(length) &&
                         (info_.vendor == Vendor::nvidia || info_.vendor == Vendor::amd)),
        number_(needs.doubles ? 16 : 8),
        most_local_(large_registers_ ? static_local_memory(device)
                                     : std::min<std::size_t>(info_.local_memory, usual_local)) {
    best_.length = shape_.length = length;
  }

  std::optional<PassShape> run() {
    if (shape_.length == 1) consider();
    extend(shape_.length, 0);
    return cost_ < impossible ? std::optional(best_) : std::nullopt;
  }

 private:
  static constexpr double impossible = 1e9;

  void extend(std::uint32_t rest, std::size_t from) {
    if (rest == 1) return consider();
    if (shape_.stages == int(shape_.radices.size())) return;
    for (std::size_t i = from; i < std::size(all_radices); i++) {
      if (rest % all_radices[i] || (all_radices[i] == 32 && !large_registers_)) continue;
      shape_.radices[std::size_t(shape_.stages++)] = all_radices[i];
      extend(rest / all_radices[i], i);
      shape_.stages--;
    }
  }

  void consider() {
    if (shape_.stages == 0) return take(1);
    for (int s = 0; s < shape_.stages; s++)
      for (std::uint32_t each = 1; each <= 4; each++) {
        const std::uint32_t lanes = (shape_.length / shape_.radices[std::size_t(s)] + each - 1) / each;
        take(lanes);
        if (vectors_) take((lanes + vector_lanes - 1) / vector_lanes * vector_lanes);
      }
  }

  // Every stage costs a way through local memory; idle lanes and many registers cost, too.
  void take(std::uint32_t lanes) {
    const std::uint32_t length = shape_.length, usual = needs_.doubles ? 8 : large_registers_ ? 32 : 16;
    if (lanes > info_.max_work_group) return;
    std::uint32_t items = 1;
    double work = 0;
    for (int s = 0; s < shape_.stages; s++) {
      const std::uint32_t radix = shape_.radices[std::size_t(s)];
      const std::uint32_t own = (length / radix + lanes - 1) / lanes * radix;
      items = std::max(items, own), work += double(own) * lanes / length;
    }
    if (items > 2 * usual) return;
    shape_.lanes = std::uint16_t(lanes), shape_.items = std::uint16_t(items);
    if (!place_lines()) return;
    const double cost = shape_.stages + (shape_.stages ? work / shape_.stages - 1 : 0) +
                        0.02 * (large_registers_ ? std::min(items, 16u) : items) +
                        std::max(0., double(items) / usual - 1) + (shape_.split ? large_registers_ ? 0.3 : 1.2 : 0) +
                        (needs_.columns ? 8. / shape_.lines : 0);
    if (cost * steps(lanes) < cost_) best_ = shape_, cost_ = cost * steps(lanes);
  }

  // What a work-item costs, as a share of a vector's lane: those that fill no vector run one by one.
  double steps(std::uint32_t lanes) const {
    if (!vectors_ || (lanes == 1 && shape_.lines > 1)) return 1;
    return double(lanes / vector_lanes + lanes % vector_lanes) * vector_lanes / lanes;
  }

  // Whether a group can take so many lines; if so, that becomes the shape's.
  bool choose(std::size_t lines, bool split, std::size_t local) {
    const std::size_t bytes = number_ / (split ? 2 : 1), lanes = shape_.lanes, pad = padding(bytes);
    const std::size_t length = shape_.length, most = needs_.columns ? 512 : info_.max_work_group;
    const bool rows = needs_.mixed && shape_.stages > 1;
    const std::size_t numbers = rows ? lines * padded_row(length, lines, pad) : padded(lines * length, pad);
    if (lines * lanes > std::min(most, info_.max_work_group) || numbers * bytes + 64 > local) return false;
    if (split && needs_.whole) return false;
    shape_.split = split, shape_.lines = std::uint16_t(lines);
    return true;
  }

  // How many lines a group takes: rows until it is large, columns until their pieces of memory are long.
  bool place_lines() {
    const std::size_t local = std::min<std::size_t>(info_.local_memory, usual_local);
    if (!needs_.columns) {
      constexpr std::size_t alone = 64;  // lines of a CPU's group that are a work-item's each, and a vector's lane
      std::size_t lines = std::max<std::size_t>(1, 256 / shape_.lanes);
      if (info_.cpu) lines = shape_.lanes == 1 ? alone : 1;
      while (lines > 1 && !choose(lines, false, local)) lines--;
      return choose(lines, false, local) || choose(lines, true, local);
    }
    if (large_registers_ && needs_.mixed) {
      for (std::size_t lines = 16; lines >= 4; lines /= 2)
        if (choose(lines, false, lines > 4 ? local : most_local_)) return true;
    }
    for (std::size_t lines = 16; lines * number_ >= 32; lines /= 2) {
      if (choose(lines, false, local) || choose(lines, true, local)) return true;
      if (lines <= 8 && (choose(lines, true, most_local_) || choose(lines, false, most_local_))) return true;
    }
    return false;
  }

  static constexpr std::size_t usual_local = 48 << 10;
  static constexpr std::uint32_t vector_lanes = 16;  // of compilers for CPUs, which make vectors of work-items

  const DeviceInfo& info_;
  PassNeeds needs_;
  bool vectors_;
  bool large_registers_;  // 32 numbers a work-item cost no more than 16 where that saves a stage
  std::size_t number_, most_local_;
  PassShape shape_, best_;
  double cost_ = impossible;
};

// Answers are kept by length, device and needs.
template <class Answer, class Find>
Answer remembered(std::uint64_t key, Find&& find) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::uint64_t, Answer>;
  {
    std::lock_guard guard(mutex);
    if (auto it = known.find(key); it != known.end()) return it->second;
  }
  const Answer answer = find();
  std::lock_guard guard(mutex);
  return known.try_emplace(key, answer).first->second;
}

std::uint64_t key_of(const Device& device, std::uint32_t length, const PassNeeds& needs) {
  return std::uint64_t(length) << 32 | std::uint64_t(device.index()) << 5 | std::uint64_t(needs.chirped) << 4 |
         std::uint64_t(needs.mixed) << 3 | std::uint64_t(needs.doubles) << 2 | std::uint64_t(needs.columns) << 1 |
         std::uint64_t(needs.whole);
}

}  // namespace

bool is_smooth(std::uint64_t length) {
  for (const std::uint64_t prime : {2, 3, 5, 7, 11, 13})
    while (length % prime == 0) length /= prime;
  return length == 1;
}

std::uint64_t padded_length(std::uint64_t least) {
  std::uint64_t best = 1;
  while (best < least) best *= 2;
  for (const std::uint64_t odd : {3, 5, 9, 15}) {
    std::uint64_t length = odd * 16;
    while (length < least) length *= 2;
    best = std::min(best, length);
  }
  return best;
}

std::optional<PassShape> pass_shape(const Device& device, std::uint32_t length, const PassNeeds& needs) {
  const std::size_t most = std::min<std::size_t>(device.info().local_memory, 48 << 10) / (needs.doubles ? 8 : 4);
  if (length > most || !is_smooth(length)) return std::nullopt;
  return remembered<std::optional<PassShape>>(key_of(device, length, needs),
                                              [&] { return Search(device, length, needs).run(); });
}

std::uint32_t first_part(const Device& device, std::uint32_t length, bool doubles, bool chirped) {
  const PassNeeds needs{.doubles = doubles, .columns = true, .whole = true, .chirped = chirped};
  return remembered<std::uint32_t>(key_of(device, length, needs), [&] {
    std::uint32_t best = 1;
    auto fits = [&](std::uint32_t part) { return pass_shape(device, part, needs).has_value(); };
    for (std::uint32_t part = 2; std::uint64_t(part) * part <= length; part++)
      if (length % part == 0 && fits(part)) best = part;
    if (best > 1 && fits(length / best)) return best;
    for (std::uint32_t part = best + 1; part < length && part <= 4096;
         part++)  // three parts or more: a great one first
      if (length % part == 0 && fits(part)) best = part;
    if (best == 1)
      throw NotImplementedError("[fft] expected a device whose work-groups hold transforms, got " + device.info().name);
    return best;
  });
}

}  // namespace dlprim::fft_detail
