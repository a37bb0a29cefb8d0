// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/parameters.hpp>

#include <array>
#include <filesystem>
#include <fstream>

#include "format.hpp"

namespace dlprim {

namespace {

constexpr std::string_view dlp_magic = "DLPW", hdf5_magic = "\x89HDF\r\n\x1a\n";

NamedTensors read_elements(std::istream& file, std::uint64_t size, const StoredIndex& index) {
  NamedTensors result;
  const std::uint64_t room = size - index.data;
  std::uint64_t unread = room;  // tensors do not overlap: a long header must not ask for a file's elements many times
  for (const StoredTensor& t : index.tensors) {
    const std::uint64_t bytes = t.end - t.begin;
    auto fail = [&](const std::string& message) { throw ValidationError("[parameters] '" + t.name + "' " + message); };
    if (t.end < t.begin || t.end > room)
      fail("is cut off: it ends at byte " + std::to_string(t.end) + " of " + std::to_string(room));
    std::uint64_t rest = bytes / size_of(t.dtype);  // sizes come from the file: their product may overflow
    bool fits = bytes % size_of(t.dtype) == 0;
    bool empty = false;
    for (std::int64_t n : t.shape) empty |= n == 0;
    for (std::int64_t n : t.shape) {
      if (empty) break;
      fits &= n > 0 && rest % std::uint64_t(n) == 0;
      rest /= std::uint64_t(std::max<std::int64_t>(1, n));
    }
    if (!fits || (empty ? bytes != 0 : rest != 1))
      fail("has " + std::to_string(bytes) + " bytes, which do not make " + name(t.dtype) + " " + t.shape.text());
    if (bytes > unread) fail("overlaps others");
    unread -= bytes;
    std::string elements(std::size_t(bytes), '\0');
    file.seekg(std::streamoff(index.data + t.begin));
    if (bytes && !file.read(elements.data(), std::streamsize(bytes))) fail("cannot be read");
    if (!result.emplace(t.name, Tensor::from_host(t.dtype, t.shape, elements.data())).second) fail("is there twice");
  }
  return result;
}

}  // namespace

ParameterFormat parameter_format(const std::string& path) {
  if (path.ends_with(".h5") || path.ends_with(".hdf5")) return ParameterFormat::hdf5;
  return path.ends_with(".safetensors") ? ParameterFormat::safetensors : ParameterFormat::dlp;
}

NamedTensors read_parameters(const std::string& path) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) throw ValidationError("[parameters] cannot read '" + path + "'");
  std::array<char, 8> start{};
  file.read(start.data(), std::streamsize(start.size()));
  file.clear();
  const std::string_view magic(start.data(), start.size());
  try {
    if (magic.starts_with(hdf5_magic)) return read_hdf5(path);
    const bool dlp = magic.starts_with(dlp_magic);
    file.seekg(0);
    return read_elements(file, size, dlp ? read_dlp_index(file, size) : read_safetensors_index(file, size));
  } catch (const ValidationError& problem) {
    throw ValidationError(problem.what() + std::string(", in '") + path + "'");
  }
}

void write_parameters(const std::string& path, const NamedTensors& tensors) {
  write_parameters(path, tensors, parameter_format(path));
}

void write_parameters(const std::string& path, const NamedTensors& tensors, ParameterFormat format) {
  const std::string beside = path + ".part";
  if (format == ParameterFormat::hdf5) {
    write_hdf5(beside, tensors);
  } else {
    std::ofstream file(beside, std::ios::binary);
    const std::string header = format == ParameterFormat::dlp ? dlp_header(tensors) : safetensors_header(tensors);
    file.write(header.data(), std::streamsize(header.size()));
    for (const auto& [name, tensor] : tensors) {
      const std::vector<std::byte> elements = tensor.host();
      file.write(reinterpret_cast<const char*>(elements.data()), std::streamsize(elements.size()));
    }
    file.close();
    if (!file) throw ValidationError("[parameters] cannot write '" + beside + "'");
  }
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) throw ValidationError("[parameters] cannot write '" + path + "': " + error.message());
}

}  // namespace dlprim
