// SPDX-License-Identifier: MIT
// One-sided Jacobi in blocks (M. Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958; in
// blocks, M. Becka, G. Oksa, M. Vajtersic, "Dynamic ordering for a parallel block-Jacobi SVD algorithm", 2002): pairs of
// blocks of columns meet in a round robin; Gram's matrix of a pair gives rotations, which products apply to the columns.
#include <dlprim/primitives/copy.hpp>

#include <limits>

#include "../grid.hpp"
#include "jacobi.hpp"

namespace dlprim::linalg {

namespace {

struct Key {
  DataType type;
  ColumnKernel kernel;
  std::uint16_t group;
};

// Slots of columns.cl for a [B, m, n], with columns of zeros added, and the rotations so far below the columns.
class Columns {
 public:
  Columns(Queue& queue, const TensorView& a, const TensorView& scales);
  std::int64_t slots() const { return slots_; }
  int sweep(int inner);  ///< meets all blocks once; the bits of jacobi.cl's measure if there are several slots
  void begin();  ///< of real matrices: with the eigenvectors of Gram's matrix, after which few rotations are left
  void orthogonalize();  ///< makes the rotations' product unitary again, and the columns what it gives
  Temporary take(std::int64_t from, std::int64_t rows) const;  ///< rows of the slots as matrices [B, rows, padded n]

 private:
  TensorView slot_rows(const TensorView& slots, std::int64_t from, std::int64_t rows) const;
  TensorView matrices(const Temporary& matrix, std::int64_t rows) const;
  void orthogonalize(const Temporary& v);

  Queue& queue_;
  DataType type_;
  std::int64_t batch_, m_, n_, slots_, width_, padded_, height_;
  BufferRef norms_;
  Temporary now_, next_, scaled_, gram_, rotations_, most_;
};

Columns::Columns(Queue& queue, const TensorView& a, const TensorView& scales)
    : queue_(queue), type_(a.dtype), batch_(a.size(0)), m_(a.size(1)), n_(a.size(2)), norms_(scales.data) {
  const std::int64_t most = largest_jacobi(queue, type_);
  width_ = n_ <= most ? (n_ + 1) / 2 : most / 2;
  slots_ = (n_ + 2 * width_ - 1) / (2 * width_);
  padded_ = slots_ * 2 * width_, height_ = m_ + padded_;
  norms_.offset += std::size_t(batch_) * size_of(scales.dtype);
  now_ = Temporary(queue, type_, {batch_, slots_, height_, 2 * width_});
  next_ = Temporary(queue, type_, {batch_, slots_, height_, 2 * width_});
  gram_ = Temporary(queue, type_, {batch_ * slots_, 2 * width_, 2 * width_});
  rotations_ = Temporary(queue, type_, {batch_ * slots_, 2 * width_, 2 * width_});
  most_ = Temporary(queue, DataType::int32, {1});
  const struct {
    Strides a;
    cl_long rows, columns, batches, height, slots, width;
  } p{strides_of(a), m_, n_, batch_, height_, slots_, width_};
  launch(queue, column_kernel(queue, type_, ColumnKernel::to_slots), Grid(padded_, height_, batch_).range(), a.data,
         scales.data, now_.view().data, p);
  scaled_ = take(0, m_);
}

// Rows of all slots as a batch of matrices.
TensorView Columns::slot_rows(const TensorView& slots, std::int64_t from, std::int64_t rows) const {
  return slots.reshaped({batch_ * slots_, height_, 2 * width_}).narrowed(1, from, rows);
}

// A matrix [B, rows, padded n] in the order of the slots' elements.
TensorView Columns::matrices(const Temporary& matrix, std::int64_t rows) const {
  const std::int64_t sizes[] = {batch_, slots_, rows, 2 * width_};
  const std::int64_t strides[] = {rows * padded_, 2 * width_, padded_, 1};
  return TensorView(matrix.view().data, type_, sizes, strides);
}

Temporary Columns::take(std::int64_t from, std::int64_t rows) const {
  Temporary result(queue_, type_, {batch_, rows, padded_});
  copy(queue_, matrices(result, rows), now_.view().narrowed(2, from, rows));
  return result;
}

int Columns::sweep(int inner) {
  fill(queue_, most_, 0);
  const struct {
    Strides a;
    cl_long rows, columns, batches, height, slots, width;
  } p{{}, m_, n_, batch_, height_, slots_, width_};
  for (std::int64_t round = 0; round < 2 * slots_ - 1; round++) {
    const TensorView columns = slot_rows(now_, 0, m_);
    Temporary storage;
    multiply(queue_, transposed(conjugated(queue_, columns, storage)), columns, gram_);
    jacobi_blocks(queue_, gram_, rotations_, norms_, most_.view().data, slots_, inner);
    multiply(queue_, slot_rows(now_, 0, height_), rotations_, slot_rows(next_, 0, height_));
    if (slots_ == 1) {
      std::swap(now_, next_);
      return 0;
    }
    launch(queue_, column_kernel(queue_, type_, ColumnKernel::next_round), Grid(padded_, height_, batch_).range(),
           next_.view().data, now_.view().data, p);
  }
  std::int32_t most = 0;
  queue_.read(&most, most_.view().data, sizeof most, true);
  return most;
}

void Columns::begin() {
  const Temporary gram(queue_, type_, {batch_, n_, n_}), values(queue_, type_, {batch_, n_}),
      info(queue_, DataType::int32, {batch_}), v(queue_, type_, {batch_, padded_, padded_});
  const TensorView columns = block(scaled_, 0, 0, m_, n_);
  multiply(queue_, transposed(columns), columns, gram);
  eigen_hermitian(queue_, gram, values, info, true);
  copy_part(queue_, v, {}, MatrixPart::identity);
  copy(queue_, block(v, 0, 0, n_, n_), gram);
  orthogonalize(v);
}

void Columns::orthogonalize() { orthogonalize(take(m_, padded_)); }

void Columns::orthogonalize(const Temporary& v) {
  Temporary storage;
  const Temporary product(queue_, type_, {batch_, padded_, padded_});
  // Newton's step towards the nearest unitary matrix, v (3 - v^H v) / 2.
  multiply(queue_, transposed(conjugated(queue_, v, storage)), v, product);
  const Temporary better(queue_, type_, {batch_, padded_, padded_}), x(queue_, type_, {batch_, m_, padded_});
  copy(queue_, better, v);
  multiply(queue_, v, product, better, -0.5, 1.5);
  multiply(queue_, scaled_, better, x);
  copy(queue_, now_.view().narrowed(2, m_, padded_), matrices(better, padded_));
  copy(queue_, now_.view().narrowed(2, 0, m_), matrices(x, m_));
}

}  // namespace

std::size_t column_group(Queue& queue, std::int64_t count) {
  const DeviceInfo& device = queue.device().info();
  const bool cpu = device.cpu && !settings.gpu_forms;
  const std::size_t least = cpu ? 8 : 32, most = cpu ? 16 : 256;
  return fitting_group(device, std::clamp(std::bit_ceil(std::size_t(count)), least, most));
}

Kernel& column_kernel(Queue& queue, DataType type, ColumnKernel which, std::size_t group) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"norm_parts",  "norms",  "to_slots",       "next_round", "column_products",
                                   "rank_values", "divide", "shift_diagonal", "orient",     "report"};
  return cache.get(queue.device(), Key{type, which, std::uint16_t(group)},
                   [&] { return source("columns.cl", names[int(which)], type).define("GROUP", std::int64_t(group)); });
}

OneSided rotate_columns(Queue& queue, const TensorView& a) {
  OneSided result;
  result.scales = norms_of(queue, a);
  Columns columns(queue, a, result.scales);
  if (columns.slots() == 1) {
    // The second Gram matrix is that of nearly orthogonal columns and resolves what the first could not.
    columns.sweep(12), columns.sweep(12);
    columns.orthogonalize();
    columns.sweep(4), columns.sweep(2);
  } else {
    const float accurate = real_of(a.dtype) == DataType::float64 ? 1e-15f : 5e-7f;
    bool orthogonal = !is_complex(a.dtype);
    const int inner = orthogonal ? 1 : 2;
    if (orthogonal) columns.begin();
    result.converged = false;
    for (int sweep = 0; sweep < 30 && !result.converged; sweep++) {
      const float most = std::bit_cast<float>(std::int32_t(columns.sweep(inner)));
      if (orthogonal) result.converged = most <= accurate;
      else if (most < 0.02f) columns.orthogonalize(), orthogonal = true;
    }
  }
  result.x = columns.take(0, a.size(1));
  const std::int64_t padded = result.x.view().size(2);
  result.v = columns.take(a.size(1), padded);
  return result;
}

Temporary norms_of(Queue& queue, const TensorView& a) {
  const DataType real = real_of(a.dtype);
  const std::int64_t batch = a.size(0);
  struct {
    Strides a;
    cl_long rows, columns;
  } p{strides_of(a), a.size(1), a.size(2)};
  if (p.a.row < p.a.col) std::swap(p.a.row, p.a.col), std::swap(p.rows, p.columns);  // side by side in memory
  const std::int64_t shares = std::clamp<std::int64_t>(512 / batch, 1, p.rows);
  Temporary scales(queue, real, {2, batch});
  const Temporary parts(queue, real, {batch, shares, 2});
  const std::size_t group = column_group(queue, p.columns);
  launch(queue, column_kernel(queue, a.dtype, ColumnKernel::norm_parts, group),
         NDRange(std::size_t(shares) * group, std::size_t(batch), group, 1), a.data, parts.view().data, p);
  launch(queue, column_kernel(queue, a.dtype, ColumnKernel::norms), NDRange(std::size_t(batch), 64), parts.view().data,
         scales.view().data, cl_int(shares), cl_int(batch));
  return scales;
}

void column_products(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& values, bool root) {
  const struct {
    Strides a, other;
    cl_long rows, columns;
  } p{strides_of(a), strides_of(b), a.size(1), a.size(2)};
  const std::size_t group = column_group(queue, p.rows);
  launch(queue, column_kernel(queue, a.dtype, ColumnKernel::column_products, group),
         NDRange(std::size_t(a.size(0) * a.size(2)) * group, group), a.data, b.data, values.data, p, cl_int(root));
}

Temporary rank(Queue& queue, const TensorView& values, const TensorView& scales, const TensorView& sorted,
               bool descending, DataType type) {
  Temporary order(queue, DataType::int32, {values.size(0), values.size(1)});
  const struct {
    cl_long columns, batches;
    cl_int descending, unused;
  } p{values.size(1), values.size(0), descending, 0};
  launch(queue, column_kernel(queue, type, ColumnKernel::rank_values), NDRange(std::size_t(values.numel()), 64),
         values.data, scales.data, order.view().data, sorted.data, p);
  return order;
}

void divide(Queue& queue, const TensorView& a, const TensorView& scales) {
  const struct {
    Strides a;
    cl_long rows, columns;
  } p{strides_of(a), a.size(1), a.size(2)};
  launch(queue, column_kernel(queue, a.dtype, ColumnKernel::divide), Grid(p.columns, p.rows, a.size(0)).range(), a.data,
         scales.data, p, cl_long(a.size(0)));
}

void report(Queue& queue, const TensorView& scales, const TensorView& info, int code, DataType type, bool keeps) {
  launch(queue, column_kernel(queue, type, ColumnKernel::report), NDRange(std::size_t(info.numel()), 64), scales.data,
         info.data, cl_int(info.numel()), cl_int(code), cl_int(keeps));
}

}  // namespace dlprim::linalg
