// SPDX-License-Identifier: MIT
// Scans of long rows that read and write each number once.
#pragma once
#include <dlprim/primitives/scan.hpp>
#include <dlprim/runtime/launch.hpp>

namespace dlprim {

/// The definitions of a scan that kernels share: T_TAG, ACC_TAG, ACC_T, IDENTITY, COMBINE.
void define_scan(KernelSource& source, ScanId id, DataType type, DataType accumulate, bool indexed);

struct SweptScan {
  ScanId id;
  DataType type, accumulate;
  bool fours;  ///< rows begin where vectors of four elements may
};

struct SweptRows {
  BufferRef y, x;
  std::uint64_t rows, length;
};

/// Why a device cannot; nullptr: it can.
const char* decline_scan_sweep(const DeviceInfo& device, DataType accumulate);

/// Scans dense rows, at least one, of at least one element each. The same input gives the same bits.
void scan_sweep(Queue& queue, const SweptScan& scan, const SweptRows& rows);

}  // namespace dlprim
