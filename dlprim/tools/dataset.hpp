// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "image.hpp"

namespace dlprim::tools {

/// Images with a class each.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  virtual int label(std::size_t i) const = 0;
  virtual Image image(std::size_t i) const = 0;
};

struct Datasets {
  std::unique_ptr<Dataset> train, test;  ///< test may be null
  std::vector<std::string> classes;
};

/// What lies in a folder: MNIST's IDX files (train-images-idx3-ubyte ...), or images in a folder for each class, below
/// "train" and "val" or "test" where these exist. Images get the given size. Throws ValidationError.
Datasets open_datasets(const std::string& folder, int channels, int width, int height);

}  // namespace dlprim::tools
