// SPDX-License-Identifier: MIT
// One kernel's worth of transforms: lines of one length, or parts of longer ones.
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <array>

#include "shape.hpp"

namespace dlprim::fft_detail {

/// Lines along one dimension, as kernels have it: how their tensors, and where lines are parts of longer ones, their elements there follow.
struct LineDim {
  std::int64_t size = 1, in = 0, out = 0;
  std::uint64_t in_first = 0, out_first = 0, twist = 0;
};

enum class Load : std::uint8_t { complex, real, pairs, hermitian, tangled };
enum class Store : std::uint8_t { complex, real, pairs, untangled, untangled_full };

inline constexpr int max_line_dims = 20;

/// Lines to transform: kernels/fft/pass.cl and lib/fft_lines.clh describe the fields.
struct Pass {
  BufferRef x, y;
  std::uint32_t length = 1;  ///< numbers of a transform
  int dims = 0;
  std::array<LineDim, max_line_dims> dim{};
  std::int64_t in_stride = 1, out_stride = 1;
  std::uint64_t in_step = 1, out_step = 1, inputs = 1, outputs = 1;
  std::uint64_t twists = 0;  ///< length of the whole whose parts are twisted; 0: none are
  std::uint64_t padded = 0;  ///< length of the convolution of Bluestein's algorithm
  Load load = Load::complex;
  Store store = Store::complex;
  bool doubles = false, swap_in = false, swap_out = false;
  bool chirp_in = false, chirp_out = false, chirp_both = false, spectrum_in = false;
  double scale = 1;

  std::uint64_t count() const;  ///< lines
  bool untangles() const { return store >= Store::untangled; }
  bool chirps() const { return chirp_in || chirp_out || chirp_both || spectrum_in; }
  std::size_t bytes() const { return doubles ? 16 : 8; }  ///< of a complex number
  void add(const LineDim& more) { dim[std::size_t(dims++)] = more; }
};

/// Merges dimensions and puts first that along which memory is read or written in pieces.
void arrange(Pass& pass);

/// The shape in which a group can hold an arranged pass; nothing where it cannot.
std::optional<PassShape> shape_of(const Device& device, const Pass& pass);

void run(Queue& queue, const Pass& pass, const PassShape& shape);

/// The second half of a real transform: pass.x holds the transforms of pairs, pass.inputs long.
void run_untangle(Queue& queue, const Pass& pass);

}  // namespace dlprim::fft_detail
