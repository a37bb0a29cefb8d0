// SPDX-License-Identifier: MIT
#include "dataset.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "model.hpp"

namespace dlprim::tools {

namespace {

namespace fs = std::filesystem;

// An IDX file of bytes: 0, 0, 8 (bytes), number of dimensions, sizes in big endian, elements in row-major order.
struct Idx {
  std::vector<std::size_t> sizes;
  std::string data;
};

Idx read_idx(const fs::path& path, std::size_t dims) {
  Idx idx{{}, read_file(path.string())};
  const auto byte = [&](std::size_t i) { return std::size_t(std::uint8_t(idx.data[i])); };
  const std::size_t head = 4 + 4 * dims;
  if (idx.data.size() < head || byte(0) != 0 || byte(1) != 0 || byte(2) != 8 || byte(3) != dims)
    throw ValidationError("[data] " + path.string() + " is no IDX file of " + std::to_string(dims) +
                          " dimensions of bytes");
  std::size_t elements = 1;
  for (std::size_t d = 0; d < dims; d++) {
    const std::size_t at = 4 + 4 * d;
    idx.sizes.push_back(byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3));
    if (idx.sizes.back() && elements > idx.data.size() / idx.sizes.back()) elements = idx.data.size();
    else elements *= idx.sizes.back();
  }
  if (idx.data.size() - head != elements)
    throw ValidationError("[data] " + path.string() + " was cut off or is too long");
  idx.data.erase(0, head);
  return idx;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(const fs::path& images, const fs::path& labels, int channels, int width, int height)
      : images_(read_idx(images, 3)), labels_(read_idx(labels, 1)), channels_(channels), width_(width),
        height_(height) {
    if (images_.sizes[0] != labels_.sizes[0])
      throw ValidationError("[data] " + images.string() + " has " + std::to_string(images_.sizes[0]) + " images, " +
                            labels.string() + " " + std::to_string(labels_.sizes[0]) + " labels");
  }
  std::size_t size() const override { return labels_.sizes[0]; }
  int label(std::size_t i) const override { return std::uint8_t(labels_.data[i]); }
  Image image(std::size_t i) const override {
    const std::size_t bytes = images_.sizes[1] * images_.sizes[2];
    Image grey{int(images_.sizes[2]), int(images_.sizes[1]), 1, {}};
    grey.pixels.assign(images_.data.begin() + std::ptrdiff_t(i * bytes),
                       images_.data.begin() + std::ptrdiff_t((i + 1) * bytes));
    grey = resized(grey, width_, height_);
    if (channels_ == 1) return grey;
    Image result{grey.width, grey.height, channels_, {}};
    for (std::uint8_t pixel : grey.pixels) result.pixels.insert(result.pixels.end(), std::size_t(channels_), pixel);
    return result;
  }

 private:
  Idx images_, labels_;
  int channels_, width_, height_;
};

class FolderDataset : public Dataset {
 public:
  FolderDataset(const fs::path& folder, const std::vector<std::string>& classes, int channels, int width, int height)
      : channels_(channels), width_(width), height_(height) {
    for (std::size_t c = 0; c < classes.size(); c++) {
      std::vector<std::string> paths;
      if (!fs::is_directory(folder / classes[c])) continue;
      for (const auto& entry : fs::recursive_directory_iterator(folder / classes[c]))
        if (entry.is_regular_file()) paths.push_back(entry.path().string());
      std::sort(paths.begin(), paths.end());
      for (std::string& path : paths) paths_.push_back(std::move(path)), labels_.push_back(int(c));
    }
    if (paths_.empty()) throw ValidationError("[data] " + folder.string() + " has no images in folders of classes");
  }
  std::size_t size() const override { return paths_.size(); }
  int label(std::size_t i) const override { return labels_[i]; }
  Image image(std::size_t i) const override { return centre_crop(read_image(paths_[i], channels_), width_, height_); }

 private:
  std::vector<std::string> paths_;
  std::vector<int> labels_;
  int channels_, width_, height_;
};

// MNIST's names, as they are published in two spellings.
std::optional<fs::path> idx_file(const fs::path& folder, std::string name) {
  if (fs::exists(folder / name)) return folder / name;
  name.replace(name.find("-idx"), 1, ".");
  if (fs::exists(folder / name)) return folder / name;
  return {};
}

std::unique_ptr<Dataset> idx_part(const fs::path& folder, const std::string& part, int channels, int width,
                                  int height) {
  const auto images = idx_file(folder, part + "-images-idx3-ubyte"),
             labels = idx_file(folder, part + "-labels-idx1-ubyte");
  if (!images || !labels) return nullptr;
  return std::make_unique<IdxDataset>(*images, *labels, channels, width, height);
}

}  // namespace

Datasets open_datasets(const std::string& folder, int channels, int width, int height) {
  Datasets sets;
  if ((sets.train = idx_part(folder, "train", channels, width, height))) {
    sets.test = idx_part(folder, "t10k", channels, width, height);
    return sets;
  }
  const fs::path train = fs::is_directory(fs::path(folder) / "train") ? fs::path(folder) / "train" : fs::path(folder);
  for (const auto& entry : fs::directory_iterator(train))
    if (entry.is_directory()) sets.classes.push_back(entry.path().filename().string());
  if (sets.classes.empty())
    throw ValidationError("[data] " + folder +
                          " has neither train-images-idx3-ubyte and train-labels-idx1-ubyte (unpack .gz "
                          "files first) nor a folder of images for each class");
  std::sort(sets.classes.begin(), sets.classes.end());
  sets.train = std::make_unique<FolderDataset>(train, sets.classes, channels, width, height);
  for (const char* name : {"val", "test"})
    if (!sets.test && fs::is_directory(fs::path(folder) / name))
      sets.test = std::make_unique<FolderDataset>(fs::path(folder) / name, sets.classes, channels, width, height);
  return sets;
}

}  // namespace dlprim::tools
