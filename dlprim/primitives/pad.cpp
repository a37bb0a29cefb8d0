// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pad.hpp>

#include "check.hpp"
#include "each_line.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;
enum : std::uint8_t { forward, backward, unfolding, folding };

struct Key {
  std::uint8_t kernel, reflect;
  DataType type;
};
constexpr const char* kernels[] = {"pad", "pad_backward", "unfold", "fold"};
constexpr const char* sections[] = {"FORWARD", "BACKWARD", "UNFOLD", "FOLD"};

// The layouts of the structs of pad.cl.
struct Padding {
  std::int64_t in[3], out[3], before[3];
  std::uint64_t count;
};
struct WindowParameters {
  std::int64_t size[2], windows[2], kernel[2], stride[2], padding[2], dilation[2];
  std::uint64_t count;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("pad.cl", kernels[key.kernel]);
    if (key.reflect) source.define("REFLECT");
    return source.define("T", tag(key.type)).define(sections[key.kernel]);
  });
}

void run_pad(Queue& queue, std::uint8_t kernel, const TensorView& to, const TensorView& from, const TensorView& in,
             const TensorView& out, std::array<std::int64_t, 3> before, PadMode mode) {
  DLPRIM_EXPECT(in.dims == 4 && out.dims == 4 && in.is_contiguous() && out.is_contiguous() && in.dtype == out.dtype &&
                    in.sizes[0] == out.sizes[0],
                kernels[kernel], "two contiguous tensors [batch, depth, height, width] of one dtype");
  Padding p{};
  for (int d = 0; d < 3; d++) p.in[d] = in.sizes[d + 1], p.out[d] = out.sizes[d + 1], p.before[d] = before[d];
  p.count = std::uint64_t(to.numel());
  const Key key{kernel, std::uint8_t(mode == PadMode::reflect), to.dtype};
  if (p.count == 0) return;
  launch(queue, kernel_for(queue, key), line_range(queue, p.count, to.size(-1), work_group), to.data, from.data, p);
}

void run_windows(Queue& queue, std::uint8_t kernel, const TensorView& to, const TensorView& from,
                 const TensorView& image, const TensorView& columns, const Windows& windows) {
  DLPRIM_EXPECT(image.dims == 3 && columns.dims == 5 && image.is_contiguous() && columns.is_contiguous() &&
                    image.dtype == columns.dtype && image.sizes[0] == columns.sizes[0],
                kernels[kernel],
                "a contiguous image [batch, height, width] and columns [batch, ky, kx, wy, wx] of one dtype");
  WindowParameters p{};
  for (int d = 0; d < 2; d++) {
    p.size[d] = image.sizes[d + 1], p.windows[d] = columns.sizes[d + 3], p.kernel[d] = windows.kernel[d];
    p.stride[d] = windows.stride[d], p.padding[d] = windows.padding[d], p.dilation[d] = windows.dilation[d];
    DLPRIM_EXPECT(columns.sizes[d + 1] == windows.kernel[d] && p.stride[d] > 0, kernels[kernel],
                  "columns of the kernel's size and positive strides");
  }
  p.count = std::uint64_t(to.numel());
  if (p.count == 0) return;
  const NDRange range = line_range(queue, p.count, to.size(-1), work_group);
  launch(queue, kernel_for(queue, {kernel, 0, to.dtype}), range, to.data, from.data, p);
}

}  // namespace

void pad(Queue& queue, const TensorView& out, const TensorView& in, std::array<std::int64_t, 3> before, PadMode mode) {
  run_pad(queue, forward, out, in, in, out, before, mode);
}

void pad_backward(Queue& queue, const TensorView& grad_in, const TensorView& grad_out,
                  std::array<std::int64_t, 3> before, PadMode mode) {
  run_pad(queue, backward, grad_in, grad_out, grad_in, grad_out, before, mode);
}

void unfold(Queue& queue, const TensorView& columns, const TensorView& image, const Windows& windows) {
  run_windows(queue, unfolding, columns, image, image, columns, windows);
}

void fold(Queue& queue, const TensorView& image, const TensorView& columns, const Windows& windows) {
  run_windows(queue, folding, image, columns, image, columns, windows);
}

}  // namespace dlprim
