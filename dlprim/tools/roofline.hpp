// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace dlprim::tools {

/// A measured computation: floating-point operations for each byte it must move, and how many of them it does a second.
struct RooflinePoint {
  std::string kind, name;
  double intensity, gflops;
};

/// What a device reaches: gigabytes a second, and GFLOP/s of each element type.
struct Roofline {
  std::string title;
  double bandwidth = 0;
  std::vector<std::pair<std::string, double>> peaks;
  std::vector<RooflinePoint> points;
};

/// The plot after Williams, Waterman and Patterson (2009), both axes logarithmic, as an SVG document.
std::string roofline_svg(const Roofline& roofline);

}  // namespace dlprim::tools
