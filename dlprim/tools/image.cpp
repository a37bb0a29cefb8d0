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
  constexpr std::int64_t most = std::int64_t(1) << 27;  // pixels: some hundred bytes may promise more than any memory
  Image image;
  int found = 0;
  if (!stbi_info(path.c_str(), &image.width, &image.height, &found))
    throw ValidationError("[image] cannot read " + path + ": " + stbi_failure_reason());
  if (image.width < 1 || image.height < 1 || std::int64_t(image.width) * image.height > most)
    throw ValidationError("[image] expected at most " + std::to_string(most) + " pixels, got " +
                          std::to_string(image.width) + " x " + std::to_string(image.height) + " in " + path);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load(path.c_str(), &image.width, &image.height, &found, channels), stbi_image_free);
  if (!pixels) throw ValidationError("[image] cannot read " + path + ": " + stbi_failure_reason());
  if (image.width < 1 || image.height < 1) throw ValidationError("[image] " + path + " has no pixels");
  image.channels = channels;
  image.pixels.assign(pixels.get(),
                      pixels.get() + std::size_t(image.width) * std::size_t(image.height) * std::size_t(channels));
  return image;
}

Image resized(const Image& image, int width, int height) {
  if (image.width < 1 || image.height < 1 || width < 1 || height < 1)
    throw ValidationError("[image] expected pixels to scale");
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
  const double full_width = std::max(double(width), std::round(image.width * scale)),
               full_height = std::max(double(height), std::round(image.height * scale));
  if (full_width == width && full_height == height) return resized(image, width, height);
  // Only the part that is seen is computed: of a long thin image the scaled whole would be very large.
  const double left = std::floor((full_width - width) / 2), top = std::floor((full_height - height) / 2);
  Image result{width, height, image.channels, {}};
  result.pixels.resize(std::size_t(width) * std::size_t(height) * std::size_t(image.channels));
  if (!stbir_resize_region(image.pixels.data(), image.width, image.height, 0, result.pixels.data(), width, height, 0,
                           STBIR_TYPE_UINT8, image.channels, STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP,
                           STBIR_EDGE_CLAMP, STBIR_FILTER_DEFAULT, STBIR_FILTER_DEFAULT, STBIR_COLORSPACE_LINEAR,
                           nullptr, float(left / full_width), float(top / full_height),
                           float((left + width) / full_width), float((top + height) / full_height)))
    throw Error("[image] out of memory");
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
