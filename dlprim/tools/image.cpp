// SPDX-License-Identifier: MIT
#include "image.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_MAX_DIMENSIONS (1 << 15)
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize.h>

namespace dlprim::tools {

Image read_image(const std::string& path, int channels) {
  Image image;
  int found = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load(path.c_str(), &image.width, &image.height, &found, channels), stbi_image_free);
  if (!pixels) throw ValidationError("[image] cannot read " + path + ": " + stbi_failure_reason());
  image.channels = channels;
  image.pixels.assign(pixels.get(),
                      pixels.get() + std::size_t(image.width) * std::size_t(image.height) * std::size_t(channels));
  return image;
}

Image resized(const Image& image, int width, int height) {
  if (image.width == width && image.height == height) return image;
  Image result{width, height, image.channels, {}};
  result.pixels.resize(std::size_t(width) * std::size_t(height) * std::size_t(image.channels));
  if (!stbir_resize_uint8(image.pixels.data(), image.width, image.height, 0, result.pixels.data(), width, height, 0,
                          image.channels))
    throw Error("[image] out of memory");
  return result;
}

Image centre_crop(const Image& image, int width, int height, double margin) {
  const double scale = margin * std::max(double(width) / image.width, double(height) / image.height);
  const Image large = resized(image, std::max(width, int(std::lround(image.width * scale))),
                              std::max(height, int(std::lround(image.height * scale))));
  Image result{width, height, image.channels, {}};
  const int x = (large.width - width) / 2, y = (large.height - height) / 2;
  for (int row = 0; row < height; row++) {
    const auto first = large.pixels.begin() + (std::ptrdiff_t(y + row) * large.width + x) * image.channels;
    result.pixels.insert(result.pixels.end(), first, first + std::ptrdiff_t(width) * image.channels);
  }
  return result;
}

void Normalization::apply(const Image& image, bool channels_last, float* out) const {
  const std::size_t channels = std::size_t(image.channels),
                    plane = std::size_t(image.width) * std::size_t(image.height);
  for (const std::vector<float>* numbers : {&mean, &deviation})
    if (numbers->size() != 1 && numbers->size() != channels)
      throw ValidationError("[image] expected 1 or " + std::to_string(channels) + " numbers for mean and std, got " +
                            std::to_string(numbers->size()));
  for (std::size_t c = 0; c < channels; c++) {
    const float shift = mean[mean.size() == 1 ? 0 : c], scale = deviation[deviation.size() == 1 ? 0 : c];
    for (std::size_t i = 0; i < plane; i++)
      out[channels_last ? i * channels + c : c * plane + i] =
          (float(image.pixels[i * channels + c]) / 255 - shift) / scale;
  }
}

}  // namespace dlprim::tools
