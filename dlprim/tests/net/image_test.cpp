// SPDX-License-Identifier: MIT
#include "../../tools/image.hpp"

#include <dlprim/error.hpp>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace dlprim::testing {
namespace {

tools::Image read(const std::string& contents) {
  const auto path = std::filesystem::temp_directory_path() / ("dlprim_image_" + std::to_string(std::random_device()()));
  std::ofstream(path, std::ios::binary) << contents;
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() { std::filesystem::remove(path); }
  } removed{path};
  return tools::read_image(path.string(), 3);
}

TEST(Images, SizesThatAreNone) {
  EXPECT_THROW(read("P6 -5 5 255\n" + std::string(100, 'x')), ValidationError);
  EXPECT_THROW(read("P6 0 5 255\n" + std::string(100, 'x')), ValidationError);
  EXPECT_THROW(read("P6 30000 30000 255\n" + std::string(100, 'x')), ValidationError);
  EXPECT_THROW(read(""), ValidationError);
  EXPECT_EQ(read("P6 2 1 255\nabcdef").pixels, (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
}

// A scaled whole of 256 x 8,388,352 pixels would take 6.4 GB; the centre takes 150 kB.
TEST(Images, TheCentreOfALongThinImage) {
  const tools::Image thin{1, 32767, 3, std::vector<std::uint8_t>(3 * 32767, 77)};
  const tools::Image centre = tools::centre_crop(thin, 224, 224, 256. / 224);
  EXPECT_EQ(centre.pixels, std::vector<std::uint8_t>(224 * 224 * 3, 77));
}

// The crop is that of the whole scaled image.
TEST(Images, TheCentreIsCutOutOfTheScaledImage) {
  tools::Image image{60, 40, 3, {}};
  std::mt19937 engine(1);
  for (int i = 0; i < 60 * 40 * 3; i++) image.pixels.push_back(std::uint8_t(engine()));
  const tools::Image large = tools::resized(image, 48, 32), centre = tools::centre_crop(image, 28, 28, 32. / 28);
  for (int y = 0; y < 28; y++)
    for (int i = 0; i < 28 * 3; i++)
      EXPECT_NEAR(centre.pixels[std::size_t(y * 28 * 3 + i)], large.pixels[std::size_t((y + 2) * 48 * 3 + 30 + i)], 1);
}

}  // namespace
}  // namespace dlprim::testing
