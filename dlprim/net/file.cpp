// SPDX-License-Identifier: MIT
#include "file.hpp"

#include <dlprim/error.hpp>

#include <filesystem>
#include <fstream>

namespace dlprim {

std::string read_file(const std::string& path, std::size_t largest) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw ValidationError("[file] cannot read '" + path + "': " + error.message());
  if (size > largest)
    throw ValidationError("[file] '" + path + "' has " + std::to_string(size) + " bytes, expected at most " +
                          std::to_string(largest));
  std::ifstream file(path, std::ios::binary);
  std::string contents(std::size_t(size), '\0');
  if (!file.read(contents.data(), std::streamsize(size))) throw ValidationError("[file] cannot read '" + path + "'");
  return contents;
}

void write_file(const std::string& path, std::string_view contents) {
  const std::string beside = path + ".part";
  std::ofstream file(beside, std::ios::binary);
  file.write(contents.data(), std::streamsize(contents.size()));
  file.close();
  if (!file) throw ValidationError("[file] cannot write '" + beside + "'");
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) throw ValidationError("[file] cannot write '" + path + "': " + error.message());
}

}  // namespace dlprim
