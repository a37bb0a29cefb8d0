// SPDX-License-Identifier: MIT
#include "source.hpp"

#include <cstdio>
#include <set>

#include "tables.hpp"

namespace dlprim::fft_detail {

namespace {

struct Composite {
  int radix, a, b;
};
constexpr Composite composites[] = {{6, 2, 3}, {8, 2, 4}, {9, 3, 3}, {10, 2, 5}, {16, 4, 4}, {32, 4, 8}};

std::string literal(double value, bool doubles) {
  char text[40];
  std::snprintf(text, sizeof text, doubles ? "%.17e" : "%.9ef", value);
  return text;
}

// Tables and functions of a radix, after those that it is made of.
void append_radix(int radix, bool doubles, std::set<int>& known, std::string& text) {
  if (radix <= 2 || radix == 4 || !known.insert(radix).second) return;
  const Composite* parts = nullptr;
  for (const Composite& c : composites)
    if (c.radix == radix) parts = &c, append_radix(c.a, doubles, known, text), append_radix(c.b, doubles, known, text);
  std::string cosines, sines;
  for (int m = 0; m < radix; m++) {
    const auto root = root_of_unity(std::uint64_t(m), std::uint64_t(radix));
    cosines += (m ? ", " : "") + literal(root.real(), doubles);
    sines += (m ? ", " : "") + literal(-root.imag(), doubles);
  }
  const std::string r = std::to_string(radix);
  text += "__constant real_t cosines_" + r + "[] = {" + cosines + "}, sines_" + r + "[] = {" + sines + "}; ";
  text += parts ? "COMPOSITE(" + r + ", " + std::to_string(parts->a) + ", " + std::to_string(parts->b) + ") "
                : "ODD(" + r + ") ";
}

void define_types(KernelSource& source, bool doubles, bool wide) {
  source.define("T", doubles ? "double2" : "float2").define("real_t", doubles ? "double" : "float");
  if (wide) source.define("WIDE");
}

// The stages and the exchanges between them.
std::string stages(const PassShape& shape, bool sync_first, int mixed) {
  std::string text;
  std::uint32_t done = 1;
  std::size_t roots = 0;
  for (int s = 0; s < shape.stages; s++) {
    const std::uint32_t radix = shape.radices[std::size_t(s)];
    const std::string both = "(" + std::to_string(radix) + ", " + std::to_string(done);
    text += "STAGE" + both + ", " + std::to_string(roots) + ") ";
    if (s) roots += stage_root_count(radix, done);
    const bool moves = mixed == 1 ? s + 2 == shape.stages : mixed == 2 && s == 0;
    if (s + 1 < shape.stages)
      text += std::string(s || sync_first ? "SYNC " : "") + (moves ? "EXCHANGE_MIXED" : "EXCHANGE") + both + ", " +
              std::to_string(shape.radices[std::size_t(s + 1)]) + ") ";
    done *= radix;
  }
  return text;
}

}  // namespace

Kernel& pass_kernel(Device& device, const PassKey& key, const PassShape& shape) {
  static KernelCache<PassKey> cache;
  return cache.get(device, key, [&] {
    KernelSource source("fft/pass.cl", "fft_pass");
    define_types(source, key.doubles, key.wide);
    std::string functions;
    std::set<int> known;
    for (int s = 0; s < shape.stages; s++) append_radix(shape.radices[std::size_t(s)], key.doubles, known, functions);
    source.define("RADIX_FUNCTIONS", functions);
    const bool stored = key.staged_in || key.staged_out || shape.stages > 1 || key.store >= 3;
    const std::size_t bytes = (key.doubles ? 16 : 8) / (key.split ? 2 : 1), pad = padding(bytes);
    const std::size_t row = key.mixed ? padded_row(key.length, key.lines, pad) : 0;
    const std::size_t scratch = key.mixed ? key.lines * row
                                : stored  ? padded(key.lines * std::size_t(key.length), pad)
                                          : 0;
    source.define("MIXED", key.mixed).define("ROW", std::int64_t(row));
    source.define("LENGTH", key.length).define("LANES", key.lanes).define("LINES", key.lines);
    source.define("GROUP", std::int64_t(key.lanes) * key.lines).define("ITEMS", shape.items);
    source.define("SCRATCH", std::int64_t(scratch)).define("PAD", std::int64_t(pad)).define("SPLIT", key.split);
    source.define("FIRST", shape.stages ? shape.radices[0] : 1);
    source.define("LAST", shape.stages ? shape.radices[std::size_t(shape.stages - 1)] : 1);
    source.define("TRANSFORM", stages(shape, key.staged_in || key.chirp_both, key.mixed));
    source.define("COLUMNS", key.columns).define("STAGED_IN", key.staged_in).define("STAGED_OUT", key.staged_out);
    source.define("DIMS", key.dims).define("LOAD_KIND", key.load).define("STORE_KIND", key.store);
    source.define("SWAP_IN", key.swap_in).define("SWAP_OUT", key.swap_out).define("PART", key.part);
    source.define("CHIRP_IN", key.chirp_in).define("CHIRP_OUT", key.chirp_out).define("CHIRP_BOTH", key.chirp_both);
    source.define("SPECTRUM_IN", key.spectrum_in)
        .define("TWIST", key.twist)
        .define("LIMITED", key.limited)
        .define("IN_PLACE", key.in_place);
    source.define("UNIT_IN", key.unit_in).define("UNIT_OUT", key.unit_out).define("UNIT_PAIRS", key.unit_pairs);
    source.define("TURN_BITS", key.turn_bits).define("TWIST_BITS", key.twist_bits);
    return source;
  });
}

Kernel& untangle_kernel(Device& device, const UntangleKey& key) {
  static KernelCache<UntangleKey> cache;
  return cache.get(device, key, [&] {
    KernelSource source("fft/untangle.cl", "fft_untangle");
    define_types(source, key.doubles, key.wide);
    source.define("RADIX_FUNCTIONS", "").define("DIMS", key.dims).define("STORE_KIND", key.store).define("PART", 0);
    source.define("TURN_BITS", key.turn_bits);
    return source;
  });
}

}  // namespace dlprim::fft_detail
