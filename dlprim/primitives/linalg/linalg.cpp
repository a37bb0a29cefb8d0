// SPDX-License-Identifier: MIT
#include "linalg.hpp"

#include "../grid.hpp"

namespace dlprim {

namespace linalg {

void check(bool good, const char* op, const char* expected) {
  if (!good) throw ValidationError(std::string("[") + op + "] expected " + expected);
}

void check_matrix(const char* op, const TensorView& m) {
  const bool known = m.dtype == DataType::float32 || m.dtype == DataType::float64 || is_complex(m.dtype);
  if (m.dims != 3 || !known)
    throw ValidationError(std::string("[") + op + "] expected a batch of matrices of float32, float64 or complex " +
                          "numbers, got " + std::to_string(m.dims) + " dimensions of " + name(m.dtype));
}

DataType real_of(DataType type) {
  return type == DataType::complex64 ? DataType::float32 : type == DataType::complex128 ? DataType::float64 : type;
}

KernelSource source(const char* file, const char* kernel, DataType type) {
  KernelSource result(std::string("linalg/") + file, kernel);
  result.define("TAG", tag(type)).define("REAL_TAG", tag(real_of(type)));
  if (is_complex(type)) result.define("COMPLEX");
  return result;
}

KernelSource& define_squares(KernelSource& kernel, DataType type, bool scaled) {
  const bool two = real_of(type) == DataType::float64;
  if (scaled)
    return kernel.define("TINY", two ? "1e-280" : "1e-28f")
        .define("LEAST", 0)
        .define("MOST", "INFINITY")
        .define("UP", 1);
  return kernel.define("TINY", 0)
      .define("LEAST", two ? "0x1p-480" : "0x1p-60f")
      .define("MOST", two ? "0x1p480" : "0x1p60f")
      .define("UP", two ? "0x1p500" : "0x1p62f");
}

void multiply(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c, double alpha, double beta) {
  if (c.numel() == 0 || (a.size(-1) == 0 && beta == 1)) return;
  GemmOptions options;  // without tf32: errors of a factorization's first steps grow in those after
  options.alpha = alpha, options.beta = beta;
  if (beta != 0) options.addend = c;
  gemm(queue, a, b, c, options);
}

Temporary::Temporary(Queue& queue, DataType type, std::initializer_list<std::int64_t> sizes) : view_({}, type, sizes) {
  memory_ = Workspace(queue, std::max<std::size_t>(16, std::size_t(view_.numel()) * size_of(type)));
  view_.data = memory_.data();
}

TensorView conjugated(Queue& queue, const TensorView& m, Temporary& storage) {
  if (!is_complex(m.dtype)) return m;
  storage = Temporary(queue, m.dtype, {m.size(0), m.size(1), m.size(2)});
  copy_part(queue, storage, m, MatrixPart::all, true);
  return storage;
}

}  // namespace linalg

using namespace linalg;

void copy_part(Queue& queue, const TensorView& out, const TensorView& in, MatrixPart part, bool conjugate) {
  check_matrix("copy_part", out);
  const bool reads = part != MatrixPart::identity;
  check(!reads || (in.dims == 3 && in.dtype == out.dtype && in.sizes == out.sizes), "copy_part", "matrices alike");
  if (out.numel() == 0) return;
  struct Key {
    DataType type;
    std::uint8_t part, conjugate;
  };
  static KernelCache<Key> cache;
  const Key key{out.dtype, std::uint8_t(part), conjugate};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    return source("part.cl", "part", out.dtype)
        .define("PART", std::int64_t(part))
        .define("CONJUGATE", conjugate)
        .define("INVERSE", std::int64_t(0));
  });
  struct {
    Strides out, in;
    cl_long rows, columns, batches;
  } p{strides_of(out), reads ? strides_of(in) : Strides{}, out.size(1), out.size(2), out.size(0)};
  // Work-items of a group lie side by side in memory.
  if (p.out.row < p.out.col && part == MatrixPart::all) {
    std::swap(p.out.row, p.out.col), std::swap(p.in.row, p.in.col), std::swap(p.rows, p.columns);
  }
  launch(queue, kernel, Grid(p.columns, p.rows, p.batches).range(), out.data, reads ? in.data : out.data, p);
}

void permute_rows(Queue& queue, const TensorView& out, const TensorView& in, const TensorView& order, bool inverse) {
  check_matrix("permute_rows", out);
  check(in.dtype == out.dtype && in.dims == 3 && in.sizes == out.sizes && order.dtype == DataType::int32 &&
            order.dims == 2 && order.is_contiguous() && order.size(0) == out.size(0) && order.size(1) == out.size(1),
        "permute_rows", "matrices alike and an order of int32 [batch, rows]");
  if (out.numel() == 0) return;
  struct Key {
    DataType type;
    std::uint8_t inverse;
  };
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), Key{out.dtype, inverse}, [&] {
    return source("part.cl", "permute_rows", out.dtype)
        .define("PART", std::int64_t(0))
        .define("CONJUGATE", std::int64_t(0))
        .define("INVERSE", inverse);
  });
  const struct {
    Strides out, in;
    cl_long rows, columns, batches, order_batch;
  } p{strides_of(out), strides_of(in), out.size(1), out.size(2), out.size(0), out.size(1)};
  launch(queue, kernel, Grid(p.columns, p.rows, p.batches).range(), out.data, in.data, order.data, p);
}

}  // namespace dlprim
