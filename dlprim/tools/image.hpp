// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlprim::tools {

/// Pixels in rows from above, channels interleaved.
struct Image {
  int width = 0, height = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// Reads PNG, JPEG, PPM, PGM and what else stb_image knows, as grey (1 channel) or RGB (3). Throws ValidationError.
Image read_image(const std::string& path, int channels);
Image resized(const Image& image, int width, int height);
/// Scales the image to cover width x height, `margin` times as large, and cuts out the centre.
Image centre_crop(const Image& image, int width, int height, double margin = 1);

/// How pixels of 0 to 255 become inputs: (p / 255 - mean) / deviation for each channel.
struct Normalization {
  std::vector<float> mean, deviation;  ///< one number, or one for each channel

  /// Writes channel after channel (or, with `channels_last`, pixel after pixel) to `out`. Throws ValidationError when
  /// there are not as many numbers as channels.
  void apply(const Image& image, bool channels_last, float* out) const;
};

}  // namespace dlprim::tools
