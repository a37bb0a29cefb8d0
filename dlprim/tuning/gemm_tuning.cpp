// SPDX-License-Identifier: MIT
#include "gemm_tuning.hpp"

#include "tuned.hpp"

namespace dlprim {

namespace {

// BM BN BK TM TN, speed, speed for weights' gradients, resident. Measured on an H200 (float32, 39 TFLOP/s is 1).
constexpr TileShape float_tiles[] = {
    {128, 128, 8, 8, 16, 1.00f, 0.79f, 2}, {128, 64, 16, 8, 8, 0.90f, 0.76f, 3}, {128, 64, 8, 8, 8, 0.87f, 0.82f, 3},
    {64, 128, 8, 8, 8, 0.85f, 0.73f, 3},   {64, 64, 8, 4, 8, 0.70f, 0.62f, 4},   {32, 128, 8, 4, 8, 0.50f, 0.42f, 5},
    {32, 64, 8, 4, 4, 0.38f, 0.30f, 6},    {64, 32, 16, 4, 4, 0.50f, 0.45f, 6},  {32, 32, 16, 4, 4, 0.35f, 0.32f, 8},
    {16, 64, 8, 4, 4, 0.25f, 0.20f, 8},
};
constexpr TileShape double_tiles[] = {
    {64, 64, 8, 4, 8, 1.00f, 1.00f, 3},
    {32, 64, 8, 4, 4, 0.60f, 0.60f, 4},
};
constexpr TileShape small_memory_tiles[] = {{64, 64, 8, 4, 8, 1.00f, 1.00f, 2}};

// BM BN BK WM WN, speeds, resident, stages; all stages fit the 48 KB of local memory that OpenCL gives a work-group.
// Measured on an H200 (bfloat16, 450 TFLOP/s is 1).
constexpr TileShape mma_tiles[] = {
    {128, 128, 32, 64, 64, 1.00f, 1.00f, 2, 3},
    {64, 128, 32, 64, 64, 0.88f, 0.45f, 4, 3},
    {128, 64, 32, 64, 64, 0.86f, 0.70f, 4, 3},
    {64, 64, 32, 32, 32, 0.62f, 0.68f, 5, 4},
};
// Where elements of A or B are read one by one.
constexpr TileShape mma_unaligned_tiles[] = {
    {128, 64, 32, 32, 32, 0.23f, 0.09f, 2, 3},
    {64, 128, 32, 32, 32, 0.23f, 0.05f, 2, 3},
    {128, 128, 32, 32, 32, 0.18f, 0.11f, 1, 3},
    {64, 64, 32, 32, 32, 0.15f, 0.06f, 3, 4},
};
// float32 in three passes (63 TFLOP/s is 1).
constexpr TileShape mma_float_tiles[] = {
    {128, 128, 16, 32, 64, 1.00f, 1.00f, 1, 3},
    {64, 128, 16, 32, 64, 0.95f, 0.95f, 2, 4},
    {128, 64, 16, 32, 64, 1.01f, 0.94f, 2, 4},
    {64, 64, 16, 32, 32, 0.86f, 0.86f, 3, 4},
};
// Hopper's (700 TFLOP/s is 1).
constexpr TileShape wgmma_tiles[] = {
    {64, 256, 16, 64, 256, 1.00f, 1.00f, 3, 4},
    {64, 192, 16, 64, 192, 0.97f, 0.97f, 4, 5},
    {64, 128, 16, 64, 128, 0.70f, 0.70f, 5, 7},
};
// float32 in one pass (350 TFLOP/s is 1), and in three (95 TFLOP/s is 1).
constexpr TileShape wgmma_tf32_tiles[] = {
    {64, 256, 8, 64, 256, 1.00f, 1.00f, 3, 4},
    {64, 192, 8, 64, 192, 0.97f, 0.97f, 4, 5},
    {64, 128, 8, 64, 128, 0.70f, 0.70f, 5, 7},
};
constexpr TileShape wgmma_float_tiles[] = {
    {64, 96, 8, 64, 96, 1.00f, 1.00f, 3, 4},
    {64, 128, 8, 64, 128, 1.00f, 1.00f, 2, 3},
};
constexpr TileShape emulated_tiles[] = {{64, 64, 32, 32, 32, 1.00f, 1.00f, 1, 2}};
constexpr TileShape emulated_float_tiles[] = {{32, 32, 16, 32, 32, 1.00f, 1.00f, 1, 2}};

// The matrix core: not measured, but chosen so that AMD's compiler spills no registers (but for 80 bytes in weights'
// gradients on RDNA: tools/check_matrix_kernels.sh) and sums take at most half of Intel's.
constexpr TileShape intel8_tiles[] = {{128, 64, 32, 32, 16, 1.00f, 1.00f, 2}, {64, 32, 32, 32, 16, 0.70f, 0.70f, 8}};
constexpr TileShape intel16_tiles[] = {{128, 128, 32, 32, 32, 1.00f, 1.00f, 2}, {64, 64, 32, 32, 32, 0.70f, 0.70f, 4}};
constexpr TileShape rdna_tiles[] = {{128, 64, 32, 32, 32, 1.00f, 1.00f, 2}, {64, 64, 32, 32, 16, 0.70f, 0.70f, 3}};
constexpr TileShape cdna_tiles[] = {{128, 128, 32, 64, 64, 1.00f, 1.00f, 1}, {64, 64, 32, 32, 32, 0.70f, 0.70f, 3}};
constexpr TileShape emulated_unit_tiles[] = {{32, 32, 32, 16, 16, 1.00f, 1.00f, 1}};

// MR NR MB NB KB; local memory of the panel core is about (MB (KB + 16) + NB KB + MB NB) elements.
constexpr PanelShape wide_vectors{8, 32, 128, 96, 160};
constexpr PanelShape narrow_vectors{6, 16, 120, 96, 160};
constexpr PanelShape wide_doubles{8, 16, 32, 48, 256};
constexpr PanelShape small_cache{4, 16, 16, 32, 64};
constexpr PanelShape float_panels[] = {wide_vectors,           {8, 32, 64, 96, 160}, {8, 32, 128, 64, 256},
                                       {8, 32, 128, 128, 128}, narrow_vectors,       {6, 16, 60, 96, 256},
                                       {8, 16, 128, 96, 160},  {4, 16, 64, 64, 256}, small_cache};
constexpr PanelShape double_panels[] = {
    wide_doubles, {8, 16, 64, 96, 128}, {6, 16, 60, 96, 160}, {4, 16, 32, 48, 256}, small_cache};

}  // namespace

std::span<const TileShape> tile_shapes(const DeviceInfo& device, std::size_t bytes) {
  if (device.local_memory < 32768) return small_memory_tiles;
  if (const Tuned* found = tuned(device, bytes); found && !found->tiles.empty()) return found->tiles;
  return tile_candidates(bytes);
}

std::span<const TileShape> tile_candidates(std::size_t bytes) {
  if (bytes == 8) return double_tiles;
  return float_tiles;
}

std::span<const TileShape> mma_shapes(const DeviceInfo& device, std::size_t bytes, bool aligned) {
  using Shapes = std::span<const TileShape>;
  if (!device.nv_inline_ptx) return bytes == 4 ? Shapes(emulated_float_tiles) : Shapes(emulated_tiles);
  return bytes == 4 ? Shapes(mma_float_tiles) : aligned ? Shapes(mma_tiles) : Shapes(mma_unaligned_tiles);
}

std::span<const TileShape> wgmma_shapes(std::size_t bytes, int parts) {
  using Shapes = std::span<const TileShape>;
  return bytes == 2 ? Shapes(wgmma_tiles) : parts == 1 ? Shapes(wgmma_tf32_tiles) : Shapes(wgmma_float_tiles);
}

std::span<const TileShape> matrix_shapes(MatrixUnit unit, bool emulated) {
  if (emulated) return emulated_unit_tiles;
  switch (unit) {
    case MatrixUnit::intel8: return intel8_tiles;
    case MatrixUnit::intel16: return intel16_tiles;
    case MatrixUnit::cdna: return cdna_tiles;
    default: return rdna_tiles;
  }
}

PanelShape panel_shape(const DeviceInfo& device, std::size_t bytes) {
  if (const Tuned* found = tuned(device, bytes); found && found->panel) return *found->panel;
  if (device.local_memory < 262144) return small_cache;
  if (bytes == 8) return wide_doubles;
  return device.float_vector < 16 ? narrow_vectors : wide_vectors;
}

std::span<const PanelShape> panel_candidates(std::size_t bytes) {
  if (bytes == 8) return double_panels;
  return float_panels;
}

}  // namespace dlprim
