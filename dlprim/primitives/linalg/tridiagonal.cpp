// SPDX-License-Identifier: MIT
// tridiagonal.cl has a launch a column of the reduction; merge.cl solves what it leaves by divide and conquer: leaves by
// Jacobi's rotations, then twice the size with each level, where one product a level does most of the work.
#include "tridiagonal.hpp"

#include <dlprim/primitives/copy.hpp>

#include <utility>

#include "../narrow.hpp"
#include "jacobi.hpp"
#include "whole.hpp"

namespace dlprim::linalg {

namespace {

constexpr std::int64_t most_leaf = 32, most_whole_leaf = 64;

struct StepKey {
  DataType type;
  std::uint8_t rows;
  std::uint16_t group;
};

enum class MergeKernel : std::uint8_t { leaves, deflate, roots, weights, block_vectors };

struct MergeKey {
  DataType type;
  MergeKernel kernel;
  std::uint16_t group;
};

struct Level {
  cl_int n, padded, size, blocks;
};

// Divide and conquer of one batch of matrices.
class Merges {
 public:
  Merges(Queue& queue, const Tridiagonal& t);
  Eigenpairs run();

 private:
  template <class... Arguments>
  void run(MergeKernel which, std::int64_t groups, std::int64_t wish, const Arguments&... arguments);
  void solve_leaves();
  void merge();

  Queue& queue_;
  const Tridiagonal& t_;
  DataType type_;
  std::int64_t batch_, n_, leaf_, padded_;
  Level level_{};
  Temporary values_, vectors_, entries_, places_, ones_;
};

Merges::Merges(Queue& queue, const Tridiagonal& t)
    : queue_(queue), t_(t), type_(t.diagonal.view().dtype), batch_(t.diagonal.view().size(0)),
      n_(t.diagonal.view().size(1)) {
  const bool whole = eigen_is_whole(queue.device().info(), type_, most_whole_leaf, true);
  const std::int64_t most = whole ? most_whole_leaf : std::min(most_leaf, largest_jacobi(queue, type_));
  std::int64_t blocks = 1;
  while ((n_ + blocks - 1) / blocks > most) blocks *= 2;
  leaf_ = (n_ + blocks - 1) / blocks, padded_ = leaf_ * blocks;
  level_ = {narrow("eigen_hermitian", "rows", n_), narrow("eigen_hermitian", "rows", padded_), cl_int(leaf_),
            cl_int(blocks)};
  entries_ = Temporary(queue, type_, {batch_, padded_, 8});
  places_ = Temporary(queue, DataType::int32, {batch_, padded_, 8});
  ones_ = Temporary(queue, type_, {batch_ * blocks});
  fill(queue, ones_, 1);
}

template <class... Arguments>
void Merges::run(MergeKernel which, std::int64_t groups, std::int64_t wish, const Arguments&... arguments) {
  static KernelCache<MergeKey> cache;
  constexpr const char* names[] = {"leaves", "deflate", "roots", "weights", "block_vectors"};
  const DeviceInfo& device = queue_.device().info();
  const std::size_t group = fitting_group(device, std::size_t(device.cpu ? 16 : wish));
  Kernel& kernel = cache.get(queue_.device(), MergeKey{type_, which, std::uint16_t(group)}, [&] {
    const bool two = type_ == DataType::float64;
    return source("merge.cl", names[int(which)], type_)
        .define("GROUP", std::int64_t(group))
        .define("EPSILON", two ? "1.2e-16" : "6e-8f")
        .define("SMALLEST", two ? "2.3e-308" : "1.2e-38f")
        .define("TINY", two ? "1e-280" : "1e-30f");
  });
  launch(queue_, kernel, NDRange(std::size_t(groups) * group, group), arguments..., level_);
}

void Merges::solve_leaves() {
  const std::int64_t count = batch_ * level_.blocks;
  const Temporary matrices(queue_, type_, {count, leaf_, leaf_}), info(queue_, DataType::int32, {count});
  run(MergeKernel::leaves, count, 64, t_.diagonal.view().data, t_.beside.view().data, matrices.view().data);
  values_ = Temporary(queue_, type_, {count, leaf_}), vectors_ = Temporary(queue_, type_, {count, leaf_, leaf_});
  const bool whole = eigen_is_whole(queue_.device().info(), type_, leaf_, true);
  (whole ? eigen_whole : jacobi_eigen)(queue_, matrices, vectors_, values_, info, true);
}

// Pairs of blocks become one.
void Merges::merge() {
  level_.size *= 2, level_.blocks /= 2;
  const std::int64_t size = level_.size, half = size / 2, count = batch_ * level_.blocks;
  const TensorView values = values_.view().reshaped({count, size});
  const Temporary sorted(queue_, type_, {count, size}), basis(queue_, type_, {count, size, size});
  const Temporary order = rank(queue_, values, ones_, sorted, false, type_);
  const BufferRef entries = entries_.view().data, places = places_.view().data, beside = t_.beside.view().data;
  run(MergeKernel::deflate, count, 256, sorted.view().data, order.view().data, vectors_.view().data, beside, entries,
      places);
  run(MergeKernel::roots, count * size, 64, beside, entries, places);
  run(MergeKernel::weights, count * size, 64, entries, places);
  run(MergeKernel::block_vectors, count * size, 64, entries, places, values.data, basis.view().data);
  Temporary product(queue_, type_, {2 * count, half, size});
  multiply(queue_, vectors_.view().reshaped({2 * count, half, half}), basis.view().reshaped({2 * count, half, size}),
           product);
  vectors_ = std::move(product);
}

Eigenpairs Merges::run() {
  solve_leaves();
  while (level_.blocks > 1) merge();
  return {std::move(values_), std::move(vectors_), padded_};
}

}  // namespace

Tridiagonal make_tridiagonal(Queue& queue, const TensorView& a) {
  static KernelCache<StepKey> cache;
  const std::int64_t batch = a.size(0), n = a.size(1);
  Tridiagonal t{Temporary(queue, a.dtype, {batch, n}), Temporary(queue, a.dtype, {batch, n}),
                Temporary(queue, a.dtype, {batch, n, n}), Temporary(queue, a.dtype, {batch, n - 1})};
  if (tridiagonal_is_whole(queue.device().info(), a.dtype, n)) {
    tridiagonal_whole(queue, a, t);
    return t;
  }
  const Temporary products(queue, a.dtype, {2, batch, n});
  const DeviceInfo& device = queue.device().info();
  const StepKey key{a.dtype, std::uint8_t(n > 1024 || device.cpu ? 8 : 4),
                    std::uint16_t(fitting_group(device, device.cpu ? 16
                                                        : n > 256  ? 256
                                                                   : 128))};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    return source("tridiagonal.cl", "tridiagonal_step", a.dtype)
        .define("GROUP", std::int64_t(key.group))
        .define("ROWS", std::int64_t(key.rows))
        .define("TINY", a.dtype == DataType::float64 ? "1e-280" : "1e-28f");
  });
  for (std::int64_t j = 0; j < n; j++) {
    const struct {
      cl_int n, column;
    } p{narrow("eigen_hermitian", "rows", n), cl_int(j)};
    const std::int64_t groups = std::max<std::int64_t>(1, (n - j - 1 + key.rows - 1) / key.rows);
    launch(queue, kernel, NDRange(std::size_t(groups) * key.group, std::size_t(batch), key.group, 1), a.data,
           t.vectors.view().data, products.view().data, t.tau.view().data, t.diagonal.view().data, t.beside.view().data,
           p);
  }
  return t;
}

Eigenpairs tridiagonal_eigen(Queue& queue, const Tridiagonal& t) { return Merges(queue, t).run(); }

}  // namespace dlprim::linalg
