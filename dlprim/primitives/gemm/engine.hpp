// SPDX-License-Identifier: MIT
// The engine under gemm and conv: C[m, n] = activation(alpha * sum over k of A[m, k] B[k, n] + beta * addend[m, n]).
#pragma once
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/indexing.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/small_floats.hpp>

#include <algorithm>

#include "../check.hpp"

namespace dlprim {

/// A size that kernels divide by, for dividends below 2^31, as a Divider of INDEX.
template <class Index>
struct Divisor {
  Index size = 1, magic = 1, shift = 0;
  constexpr Divisor() = default;
  constexpr Divisor(Index by) : size(by) {
    if (by < 2 || by >= std::int64_t(1) << 31) return;
    const Divider divider{std::uint32_t(by)};
    magic = Index(divider.multiplier), shift = Index(divider.shift);
  }
  constexpr operator Index() const { return size; }
};

/// Kernel parameters: the struct of gemm/operands.clh, every field of INDEX and in its order.
template <class Index>
struct GemmIndices {
  Index m = 0, n = 0, k = 0, splits = 1, k_split = 0;
  Index slices = 0, share = 0, shares = 0;
  Index tile_m = 0, tile_n = 0, tiles_m = 1, tiles_n = 1;
  Index a_batch = 0, a_m = 0, a_k = 0, b_batch = 0, b_k = 0, b_n = 0;
  Index c_batch = 0, c_m = 0, c_n = 0, d_batch = 0, d_m = 0, d_n = 0;
  Index x_size = 0, y_size = 0, x_n = 0, x_c = 0;
  Index x_stride[3]{}, in[3]{1, 1, 1}, step[3]{1, 1, 1}, start[3]{}, tap_step[3]{};
  Divisor<Index> channels, out[3], taps[3];
  Index y_n = 0, y_stride[3]{};
};

/// How A, B and C are addressed; MODE of gemm/operands.clh.
enum class GemmMode : std::uint8_t { plain, convolution, weights_gradient };

/// Of products of 8-bit floats: C = A B * a_scale * b_scale + addend.
struct ScaledFactors {
  SmallFloat a_kind, b_kind;
  DataType result;
  BufferRef a_scale, b_scale;  // float32: of all, or with `lines` of each row of A and each column of B
  bool lines, exact_sums;
};

/// Of products of bytes that CPUs have dot products for (kernels/gemm/points.cl): A and B hold quads as float32, what is
/// added to the sums int32, and alpha to what they are times `scale`, float32 of each row of A.
struct QuantizedSums {
  DataType x, result;  // uint8 or int8; the result also float32, without alpha, or int32, the sums
  BufferRef scale;
};

/// Groups of rows of A and C, each with its matrix of B, or of k, each with its matrix of C (kernels/gemm/groups.clh).
struct GemmGroups {
  BufferRef ends;  // int32, on the device
  std::int64_t count;
  bool of_k;
};

struct GemmProblem {
  GemmMode mode = GemmMode::plain;
  int rank = 1;  // spatial dimensions that matter
  bool check = false, channel_inner = false;
  DataType type = DataType::float32;
  bool wide_result = false;  // C and the addend are int32, of integers, or float32, of 16-bit floats
  BufferRef a, b, c, addend;  // no addend: null
  BufferRef residual;  // added before the activation, in C's layout; null: none
  Activation activation = Activation::none;
  bool allow_tf32 = false;
  std::optional<ScaledFactors> scaled;  // type, bfloat16, only says how sums are formed
  std::optional<QuantizedSums> quantized;
  std::optional<GemmGroups> groups;  // batches is their number with those of k, else 1
  std::complex<double> alpha = 1, beta = 0;
  std::optional<Workspace>*kept_a = nullptr, *kept_b = nullptr;  // GemmOptions::kept, of A or of B
  std::int64_t batches = 1;
  // Of all problems that shall run by the same kernel: a divisor of their k, and the longest; 0: of this one alone.
  std::int64_t k_unit = 0, k_longest = 0;
  GemmIndices<std::int64_t> p;
};

/// The type of C and the addend.
inline DataType result_type(const GemmProblem& problem) {
  if (problem.scaled) return problem.scaled->result;
  if (problem.quantized) return problem.quantized->result;
  if (!problem.wide_result) return problem.type;
  return is_floating(problem.type) ? DataType::float32 : DataType::int32;
}

/// Bytes of an element of A and B.
inline std::int64_t factor_bytes(const GemmProblem& problem) {
  return problem.scaled ? 1 : std::int64_t(size_of(problem.type));
}

/// Elements of C that cores for matrix units store at once where it lies well: 16 bytes of 16-bit floats, or pairs of
/// float32.
inline std::uint8_t stored_at_once(const GemmProblem& problem) {
  return result_type(problem) == DataType::float32 ? 2 : 8;
}

/// Runs a problem with sizes above 0 (k may be 0) by the first core that takes it.
void run_gemm(Queue& queue, const GemmProblem& problem);

/// Whether the core "gather" is the one for a convolution of 16-bit floats or tf32 whose channels lie side by side: a
/// result of so many rows (channels), sums of this length, all operations.
bool gather_pays(const Device& device, std::int64_t rows, std::int64_t sum, double operations);

/// Writes a plain problem as its transpose: C^T = B^T A^T.
void transpose(GemmProblem& problem);

/// The row of the pointwise table that an activation is.
std::optional<PointwiseId> activation_row(Activation activation);
/// The value of ACTIVATE(x0) in epilogues: that row over lib/activations.clh, with its type T.
const char* activation_code(Activation activation);

/// True when the kernels read offsets of the problem in 32 bits.
bool fits_32_bits(const GemmProblem& problem);

}  // namespace dlprim
