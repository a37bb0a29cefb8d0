// SPDX-License-Identifier: MIT
#include <dlprim/primitives/range.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <cstdint>

#include "each_line.hpp"
#include "words.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;

struct Key {
  std::uint8_t kernel;
  DataType out, compute;
  std::uint8_t option, few;
};
constexpr const char* kernels[] = {"sequence", "spaced", "triangle_indices", "triangle"};
constexpr const char* options[] = {"PLAIN", "POWER", "LOWER", "LOWER"};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("range.cl", kernels[key.kernel]);
    if (key.option) source.define(options[key.kernel]);
    if (key.kernel == 3) {
      const std::size_t bytes = size_of(key.out);
      return source.define("UNIT", bytes == 8 ? "ulong" : word_type(bytes));  // compilers turn loops of it into vectors
    }
    if (key.few) source.define("FEW");
    source.define("T", tag(key.out)).define("CAST(v)", cl_cast(key.compute, key.out, "v"));
    return source.define("R", key.compute == DataType::int64     ? "long"
                              : key.compute == DataType::float64 ? "double"
                                                                 : "float");
  });
}

void expect_dense(const TensorView& out, const char* op) {
  if (!out.is_contiguous()) throw ValidationError(std::string("[") + op + "] expected a contiguous result");
  if (is_complex(out.dtype))
    throw ValidationError(std::string("[") + op + "] expected a real dtype, got " + name(out.dtype));
}

bool few(Queue& queue, std::uint64_t count) { return queue.device().info().cpu && count <= INT32_MAX; }

DataType real_type(Queue& queue) { return queue.device().info().fp64 ? DataType::float64 : DataType::float32; }

}  // namespace

void sequence(Queue& queue, const TensorView& out, Scalar start, Scalar step) {
  expect_dense(out, "sequence");
  const cl_ulong count = cl_ulong(out.numel());
  const DataType compute = is_integral(out.dtype) ? DataType::int64 : real_type(queue);
  Kernel& kernel = kernel_for(queue, {0, out.dtype, compute, 0, few(queue, count)});
  const NDRange range(count, work_group);
  const Traffic traffic{count * size_of(out.dtype)};
  if (compute == DataType::int64)
    launch(queue, kernel, range, traffic, out.data, count, cl_long(start.integer()), cl_long(step.integer()));
  else if (compute == DataType::float64)
    launch(queue, kernel, range, traffic, out.data, count, start.real(), step.real());
  else launch(queue, kernel, range, traffic, out.data, count, float(start.real()), float(step.real()));
}

void spaced(Queue& queue, const TensorView& out, double start, double end, std::optional<double> base) {
  expect_dense(out, "spaced");
  const cl_ulong count = cl_ulong(out.numel());
  const DataType compute = real_type(queue);
  Kernel& kernel = kernel_for(queue, {1, out.dtype, compute, std::uint8_t(base.has_value()), few(queue, count)});
  const double step = count > 1 ? (end - start) / double(count - 1) : 0;
  const NDRange range(count, work_group);
  if (compute == DataType::float64) launch(queue, kernel, range, out.data, count, start, end, step, base.value_or(1));
  else launch(queue, kernel, range, out.data, count, float(start), float(end), float(step), float(base.value_or(1)));
}

void triangle(Queue& queue, const TensorView& out, const TensorView& in, std::int64_t diagonal, bool lower) {
  if (!out.is_contiguous() || !in.is_contiguous() || out.dims < 2 || out.dtype != in.dtype || out.numel() != in.numel())
    throw ValidationError("[triangle] expected two contiguous tensors of equal shape and dtype, at least 2 dims");
  Kernel& kernel = kernel_for(queue, {3, out.dtype, out.dtype, std::uint8_t(lower), 0});
  const cl_ulong count = cl_ulong(out.numel());
  if (count == 0) return;
  const std::int64_t rows = out.size(-2), columns = out.size(-1);
  diagonal = std::clamp(diagonal, -rows, columns);  // what lies further away selects the same, and would overflow
  launch(queue, kernel, line_range(queue, count, columns, work_group), Traffic{2 * count * size_of(out.dtype)},
         out.data, in.data, count, cl_uint(rows), cl_uint(columns), cl_long(diagonal));
}

void triangle_indices(Queue& queue, const TensorView& out, std::int64_t rows, std::int64_t columns, std::int64_t offset,
                      bool lower) {
  expect_dense(out, "triangle_indices");
  if (out.dims != 2 || out.sizes[0] != 2 || !is_integral(out.dtype))
    throw ValidationError("[triangle_indices] expected an integer result of shape [2, elements]");
  Kernel& kernel = kernel_for(queue, {2, out.dtype, DataType::int64, std::uint8_t(lower), 0});
  const cl_ulong count = cl_ulong(out.sizes[1]);
  launch(queue, kernel, NDRange(count, work_group), out.data, count, cl_long(rows), cl_long(columns), cl_long(offset));
}

}  // namespace dlprim
