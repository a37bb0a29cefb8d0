// SPDX-License-Identifier: MIT
#include "shapes.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <charconv>

namespace dlprim {

namespace {

std::optional<TileShape> parse_tile(const std::string& line) {
  const std::vector<double> n = tuning::numbers_in(line);
  if (n.size() != 9 || std::ranges::any_of(n, [](double x) { return !(x > 0 && x < 65536); })) return std::nullopt;
  auto size = [&](std::size_t i) { return std::uint16_t(n[i]); };
  const TileShape s{size(0),           size(1), size(2), size(3), size(4), float(n[6]), float(n[7]), std::uint8_t(n[8]),
                    std::uint8_t(n[5])};
  const bool sound = s.tm > 0 && s.tn > 0 && s.bm >= s.tm && s.bn >= s.tn && s.resident > 0 && s.stages > 0;
  return sound ? std::optional(s) : std::nullopt;
}

template <class... Parts>
std::string joined(Parts... parts) {
  std::string text;
  ((text += (text.empty() ? "" : "x") + std::to_string(parts)), ...);
  return text;
}

}  // namespace

std::string text_of(const TileShape& s) { return joined(s.bm, s.bn, s.bk, s.tm, s.tn, s.stages); }
std::string text_of(const PanelShape& s) { return joined(s.mr, s.nr, s.mb, s.nb, s.kb); }

std::string line_of(const TileShape& s) {
  char speeds[64];
  char* end = std::to_chars(speeds, speeds + 30, s.speed).ptr;
  *end++ = ' ';
  end = std::to_chars(end, end + 30, s.weights_speed).ptr;
  return text_of(s) + " " + std::string(speeds, end) + " " + std::to_string(s.resident);
}

std::string line_of(const PanelShape& s) { return text_of(s) + " 0"; }

TileTable read_tiles(const DeviceInfo& device, const std::string& tiles, const std::string& costs) {
  TileTable table;
  for (const std::string& line : tuning::values(device, "gemm.tiles." + tiles))
    if (const auto shape = parse_tile(line)) table.shapes.push_back(*shape);
  if (table.shapes.empty()) throw Error("[tuning] no tiles for '" + tiles + "' on " + tuning::scope_of(device));
  std::array<double, 7> c;
  tuning::read_numbers(device, "gemm.costs." + costs, c);
  table.costs = {c[0], c[1], c[2], c[3], c[4], c[5], c[6]};
  if (const std::string ring = "gemm.rings." + tiles; !tuning::values(device, ring).empty()) {
    std::array<double, 10> r;
    tuning::read_numbers(device, ring, r);
    table.ring = {r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9]};
  }
  return table;
}

std::vector<PanelShape> read_panels(const DeviceInfo& device, const std::string& type) {
  std::vector<PanelShape> fitting;
  for (const std::string& line : tuning::values(device, "gemm.panels." + type)) {
    const std::vector<double> n = tuning::numbers_in(line);
    if (n.size() != 6 || std::any_of(n.begin(), n.end() - 1, [](double x) { return !(x > 0 && x < 65536); })) continue;
    auto size = [&](std::size_t i) { return std::uint16_t(n[i]); };
    if (n[5] <= double(device.local_memory)) fitting.push_back({size(0), size(1), size(2), size(3), size(4)});
  }
  if (fitting.empty()) throw Error("[tuning] no panels for '" + type + "' on " + tuning::scope_of(device));
  return fitting;
}

}  // namespace dlprim
