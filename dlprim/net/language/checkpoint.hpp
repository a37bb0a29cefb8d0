// SPDX-License-Identifier: MIT
// Checkpoints of transformers: a folder with config.json and weights in safetensors.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "../json/fields.hpp"
#include "shape.hpp"
#include "tensors.hpp"

namespace dlprim {

/// A folder whose files name each other. Nothing outside is opened, whatever names and links say.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& path);
  const std::string& name() const noexcept { return name_; }
  bool has(const std::string& file) const;
  /// Throws ValidationError for names that are paths, links that leave the folder, and what is no regular file.
  std::unique_ptr<RegularFile> open(const std::string& file) const;
  /// Where a file of that name lies. Throws as open(), but for what is no regular file.
  std::filesystem::path locate(const std::string& file) const;
  /// A folder in this one; errors as for files.
  ModelFolder inner(const std::string& folder) const { return ModelFolder(locate(folder).string()); }
  /// An object. Throws ValidationError for files above `largest` bytes, too.
  Json json(const std::string& file, std::uint64_t largest) const;

 private:
  std::filesystem::path folder_;
  std::string name_;
};

/// model.safetensors of a folder, or the files that model.safetensors.index.json lists: tensors of F32, F16, BF16 and U8
/// without gaps between them.
class Checkpoint : public WeightFile {
 public:
  explicit Checkpoint(const ModelFolder& folder);
  /// Puts the parts that a model's layers are made of in the place of the tensors that hold them. Throws ValidationError
  /// for those that do not fit, NotImplementedError for bytes that become no part.
  void arrange(const LanguageShape& shape);

 private:
  void read_index(const ModelFolder& folder);
  void read_header(const ModelFolder& folder, const std::string& name);
};

/// What config.json says. Throws NotImplementedError for architectures and options that are not supported,
/// ValidationError for numbers that make no model.
LanguageShape read_shape(const Json& config, const WeightFile& file);

}  // namespace dlprim
