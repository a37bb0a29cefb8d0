// SPDX-License-Identifier: MIT
#include "jacobi.hpp"

#include <bit>

namespace dlprim::linalg {

namespace {

struct Key {
  DataType type;
  std::uint8_t blocks;
  std::uint16_t group;
};

std::size_t matrix_bytes(DataType type, std::int64_t n) { return std::size_t(n * (n | 1)) * size_of(type); }

// Local memory beside the two matrices: sines, cosines, pairs and a value of each work-item.
std::size_t other_bytes(DataType type, std::size_t group) {
  return 64 * (2 * size_of(type) + 8) + group * size_of(type) + 64;
}

constexpr std::size_t most_group = 512;

struct Parameters {
  Strides a, vectors;
  cl_int n, pitch, sweeps, want_vectors;
};

void launch_jacobi(Queue& queue, const TensorView& a, const TensorView& vectors, BufferRef values, BufferRef info,
                   bool blocks, std::int64_t shared, int sweeps, bool want_vectors) {
  static KernelCache<Key> cache;
  const std::int64_t n = a.size(1);
  const DeviceInfo& device = queue.device().info();
  // A CPU runs the items of a group in turn and gains nothing from more than its vectors hold.
  std::size_t wish = n <= 16 ? 64 : n <= 32 ? 128 : a.size(0) <= device.compute_units ? most_group : 256;
  if (device.cpu && !settings.gpu_forms) wish = 8;
  const Key key{a.dtype, blocks, std::uint16_t(fitting_group(device, wish))};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    const bool two = real_of(a.dtype) == DataType::float64;
    return source("jacobi.cl", "jacobi", a.dtype)
        .define("GROUP", std::int64_t(key.group))
        .define("EPSILON", two ? "1.2e-16" : "6e-8f")
        .define("BLOCKS", std::int64_t(blocks));
  });
  const Parameters p{strides_of(a), strides_of(vectors), cl_int(n), cl_int(n | 1), sweeps, want_vectors};
  const LocalMemory matrix{matrix_bytes(a.dtype, n)};
  launch(queue, kernel, NDRange(std::size_t(a.size(0)) * key.group, key.group), a.data, vectors.data, values, info, p,
         cl_int(shared), matrix, matrix);
}

}  // namespace

std::int64_t largest_jacobi(Queue& queue, DataType type) {
  const DeviceInfo& device = queue.device().info();
  for (std::int64_t n : {64, 48, 32, 16})
    if (2 * matrix_bytes(type, n) + other_bytes(type, most_group) <= device.local_memory) return n;
  return 8;
}

void jacobi_eigen(Queue& queue, const TensorView& a, const TensorView& vectors, const TensorView& values,
                  const TensorView& info, bool want_vectors) {
  launch_jacobi(queue, a, vectors, values.data, info.data, false, 1, 40, want_vectors);
}

void jacobi_blocks(Queue& queue, const TensorView& gram, const TensorView& vectors, BufferRef norms, BufferRef most,
                   std::int64_t shared, int sweeps) {
  launch_jacobi(queue, gram, vectors, norms, most, true, shared, sweeps, true);
}

}  // namespace dlprim::linalg
