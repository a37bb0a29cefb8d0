// SPDX-License-Identifier: MIT
// Scans of dense rows that read and write each number once.
#pragma once
#include <dlprim/primitives/scan.hpp>
#include <dlprim/runtime/launch.hpp>

namespace dlprim {

/// What kernels want to know of a scan (lib/scan.clh), but for SCAN_INDEX. A complex `accumulate` of a real `type`: pairs.
void define_scan(KernelSource& source, ScanId id, DataType type, DataType accumulate, bool indexed);

struct SweptScan {
  ScanId id;
  DataType type, accumulate;
  bool fours;  ///< rows begin where vectors of four elements may
  bool indexed;
  bool whole;  ///< a work-group scans a row, else a tile of it
};

struct SweptRows {
  BufferRef y, indices, x;  ///< indices: any buffer where they are not wanted
  std::uint64_t rows, length;
};

/// Why a device cannot; nullptr: it can.
const char* decline_scan_sweep(const DeviceInfo& device, const SweptScan& scan, std::uint64_t length);

/// Scans dense rows, at least one, of at least one element each. The same input gives the same bits.
void scan_sweep(Queue& queue, const SweptScan& scan, const SweptRows& rows);

}  // namespace dlprim
