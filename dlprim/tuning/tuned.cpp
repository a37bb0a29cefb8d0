// SPDX-License-Identifier: MIT
#include "tuned.hpp"

#include <dlprim/error.hpp>
#include <dlprim/runtime/cache.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

namespace dlprim {

namespace {

using Key = std::pair<std::string, std::size_t>;  // "name<tab>driver", bytes of an element

Key key_of(const DeviceInfo& device, std::size_t bytes) { return {device.name + '\t' + device.driver, bytes}; }

template <class Shape>
bool same(const Shape& shape, const unsigned (&sizes)[5]) {
  if constexpr (std::is_same_v<Shape, TileShape>)
    return shape.bm == sizes[0] && shape.bn == sizes[1] && shape.bk == sizes[2] && shape.tm == sizes[3] &&
           shape.tn == sizes[4];
  else
    return shape.mr == sizes[0] && shape.nr == sizes[1] && shape.mb == sizes[2] && shape.nb == sizes[3] &&
           shape.kb == sizes[4];
}

// Lines: name, driver, bytes, "tile" or "panel", sizes (128x64x8x8x8), for tiles two speeds; separated by tabs. Sizes
// that this version does not know are left out: the file may be of another one, or damaged.
std::map<Key, Tuned> read_file() {
  std::map<Key, Tuned> all;
  std::ifstream file(tuning_file());
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string field[5];
    for (std::string& word : field) std::getline(words, word, '\t');
    unsigned s[5];
    if (std::sscanf(field[4].c_str(), "%ux%ux%ux%ux%u", &s[0], &s[1], &s[2], &s[3], &s[4]) != 5) continue;
    const std::size_t bytes = field[2] == "8" ? 8 : 4;
    Tuned& entry = all[{field[0] + '\t' + field[1], bytes}];
    if (field[3] == "panel") {
      for (const PanelShape& shape : panel_candidates(bytes))
        if (same(shape, s)) entry.panel = shape;
    } else {
      float speed = 0, weights_speed = 0;
      if (!(words >> speed >> weights_speed) || !(speed > 0) || !(weights_speed > 0)) continue;
      for (TileShape shape : tile_candidates(bytes))
        if (same(shape, s)) shape.speed = speed, shape.weights_speed = weights_speed, entry.tiles.push_back(shape);
    }
  }
  return all;
}

std::map<Key, Tuned>& entries() {
  static std::map<Key, Tuned> all = read_file();
  return all;
}

}  // namespace

std::filesystem::path tuning_file() {
  return std::filesystem::path(program_cache_summary().file).parent_path() / "tuning.txt";
}

const Tuned* tuned(const DeviceInfo& device, std::size_t bytes) {
  const std::map<Key, Tuned>& all = entries();
  if (all.empty()) return nullptr;
  const auto it = all.find(key_of(device, bytes));
  return it == all.end() ? nullptr : &it->second;
}

void set_tuned(const DeviceInfo& device, std::size_t bytes, Tuned tuned) {
  if (tuned.tiles.empty() && !tuned.panel) entries().erase(key_of(device, bytes));
  else entries()[key_of(device, bytes)] = std::move(tuned);
}

void save_tuned() {
  std::ofstream file(tuning_file());
  for (const auto& [key, tuned] : entries()) {
    const std::string start = key.first + '\t' + std::to_string(key.second) + '\t';
    for (const TileShape& t : tuned.tiles)
      file << start << "tile\t" << t.bm << 'x' << t.bn << 'x' << t.bk << 'x' << t.tm << 'x' << t.tn << '\t' << t.speed
           << '\t' << t.weights_speed << '\n';
    if (const auto& p = tuned.panel)
      file << start << "panel\t" << p->mr << 'x' << p->nr << 'x' << p->mb << 'x' << p->nb << 'x' << p->kb << '\n';
  }
  file.close();
  if (!file) throw Error("cannot write " + tuning_file().string());
}

}  // namespace dlprim
