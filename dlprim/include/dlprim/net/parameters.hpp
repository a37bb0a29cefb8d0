// SPDX-License-Identifier: MIT
// Files of named tensors. DLP: "DLPW", the length of a JSON header (4 bytes, big endian), the header, then raw
// elements. HDF5: a float32 dataset of the root for each. safetensors: the length of a JSON header (8 bytes, little
// endian), the header, then raw elements.
#pragma once
#include <dlprim/net/tensor.hpp>

#include <map>
#include <string>

namespace dlprim {

using NamedTensors = std::map<std::string, Tensor>;

enum class ParameterFormat : std::uint8_t { dlp, hdf5, safetensors };

/// By the end of the name: .h5 and .hdf5, .safetensors, anything else is DLP.
ParameterFormat parameter_format(const std::string& path);

/// Reads a file of any of the formats, told apart by its first bytes, into tensors on the host. Throws ValidationError
/// for files that are damaged or cut off, NotImplementedError for HDF5 in builds without it.
NamedTensors read_parameters(const std::string& path);
/// Writes tensors that are on the host. HDF5 holds them as float32.
void write_parameters(const std::string& path, const NamedTensors& tensors);
void write_parameters(const std::string& path, const NamedTensors& tensors, ParameterFormat format);

}  // namespace dlprim
