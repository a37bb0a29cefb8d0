// SPDX-License-Identifier: MIT
#include "file.hpp"

#include <dlprim/error.hpp>

#include <filesystem>
#include <fstream>
#include <span>

#include "../runtime/system.hpp"

namespace dlprim {

std::string read_file(const std::string& path, std::size_t largest) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);  // users may name links
  if (error) throw ValidationError("[file] cannot read '" + path + "': " + error.message());
  const RegularFile file(target);
  if (file.size() > largest)
    throw ValidationError("[file] '" + path + "' has " + std::to_string(file.size()) + " bytes, expected at most " +
                          std::to_string(largest));
  std::string contents(std::size_t(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(contents)));
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
