// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/parameters.hpp>

#include <string_view>

namespace dlprim {

/// Elements somewhere in the data of a file, found by its header.
struct StoredTensor {
  std::string name;
  DataType dtype;
  Shape shape;
  std::uint64_t begin, end;  ///< bytes, counted from the data's start
};

/// What a file's header says. Throws ValidationError, as do the readers of elements for what does not fit the file.
struct StoredIndex {
  std::uint64_t data = 0;  ///< where the elements start in the file
  std::vector<StoredTensor> tensors;
};
StoredIndex read_dlp_index(std::istream& file, std::uint64_t size);
StoredIndex read_safetensors_index(std::istream& file, std::uint64_t size);

/// Whole headers for tensors that follow in the order of their names.
std::string dlp_header(const NamedTensors& tensors);
std::string safetensors_header(const NamedTensors& tensors);

NamedTensors read_hdf5(const std::string& path);
void write_hdf5(const std::string& path, const NamedTensors& tensors);

}  // namespace dlprim
