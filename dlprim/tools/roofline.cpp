// SPDX-License-Identifier: MIT
#include "roofline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace dlprim::tools {

namespace {

constexpr double width = 860, height = 560, left = 70, right = 190, top = 50, bottom = 60;
const char* const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b"};

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, pattern, values...);
  return buffer;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return result;
}

// Powers of ten that hold everything shown, and where numbers lie between them.
struct Axis {
  double low, high;  // exponents
  Axis(double smallest, double largest)
      : low(std::floor(std::log10(smallest))), high(std::max(low + 1, std::ceil(std::log10(largest)))) {}
  double share(double value) const { return (std::log10(value) - low) / (high - low); }
};

class Plot {
 public:
  explicit Plot(const Roofline& data)
      : data_(data), x_(extent(&RooflinePoint::intensity, 0.1)), y_(extent(&RooflinePoint::gflops, peak())) {}

  std::string draw() {
    frame();
    roofs();
    points();
    return svg_ + "</svg>\n";
  }

 private:
  double peak() const {
    double most = 1;
    for (const auto& [name, gflops] : data_.peaks) most = std::max(most, gflops);
    return most;
  }

  Axis extent(double RooflinePoint::* member, double also) const {
    double low = also, high = also;
    for (const RooflinePoint& point : data_.points)
      low = std::min(low, point.*member), high = std::max(high, point.*member);
    return {std::max(low, 1e-6), std::max(high, 1e-6)};
  }

  double x(double intensity) const { return left + x_.share(intensity) * (width - left - right); }
  double y(double gflops) const { return height - bottom - y_.share(gflops) * (height - top - bottom); }

  void text(double at_x, double at_y, const std::string& what, const char* style = "") {
    svg_ += format("<text x=\"%.1f\" y=\"%.1f\" %s>", at_x, at_y, style) + escaped(what) + "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* style) {
    svg_ += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style);
  }

  void frame() {
    svg_ = format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
                  "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                  width, height);
    text(width / 2, 28, data_.title, "text-anchor=\"middle\" font-size=\"15\"");
    for (double e = x_.low; e <= x_.high; e++) {
      line(x(std::pow(10, e)), top, x(std::pow(10, e)), height - bottom, "stroke=\"#ddd\"");
      text(x(std::pow(10, e)), height - bottom + 18, format("%g", std::pow(10, e)), "text-anchor=\"middle\"");
    }
    for (double e = y_.low; e <= y_.high; e++) {
      line(left, y(std::pow(10, e)), width - right, y(std::pow(10, e)), "stroke=\"#ddd\"");
      text(left - 8, y(std::pow(10, e)) + 4, format("%g", std::pow(10, e)), "text-anchor=\"end\"");
    }
    text((left + width - right) / 2, height - 16, "floating-point operations per byte", "text-anchor=\"middle\"");
    svg_ += format("<text transform=\"translate(18 %.0f) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>\n",
                   height / 2);
  }

  // From where memory's line leaves the plot below to the type's peak, and along it.
  void roofs() {
    for (const auto& [name, gflops] : data_.peaks) {
      const double lowest = std::max(std::pow(10, x_.low), std::pow(10, y_.low) / data_.bandwidth);
      const double ridge = std::clamp(gflops / data_.bandwidth, lowest, std::pow(10, x_.high));
      line(x(lowest), y(lowest * data_.bandwidth), x(ridge), y(std::min(gflops, ridge * data_.bandwidth)),
           "stroke=\"black\" stroke-width=\"1.5\"");
      line(x(ridge), y(gflops), width - right, y(gflops), "stroke=\"black\" stroke-width=\"1.5\"");
      text(width - right + 6, y(gflops) + 4, name + format(" %.0f GFLOP/s", gflops));
    }
    text(left + 8, top + 16, format("memory %.1f GB/s", data_.bandwidth));
  }

  void points() {
    std::map<std::string, const char*> kinds;
    for (const RooflinePoint& point : data_.points) {
      const char*& colour = kinds[point.kind];
      if (!colour) colour = colours[(kinds.size() - 1) % std::size(colours)];
      svg_ += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" fill-opacity=\"0.7\"><title>",
                     x(point.intensity), y(point.gflops), colour) +
              escaped(point.name) + format(": %.1f GFLOP/s</title></circle>\n", point.gflops);
    }
    double row = height - bottom - 20 * double(kinds.size());
    for (const auto& [kind, colour] : kinds) {
      svg_ += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", width - right + 12, row, colour);
      text(width - right + 22, row + 4, kind);
      row += 20;
    }
  }

  const Roofline& data_;
  Axis x_, y_;
  std::string svg_;
};

}  // namespace

std::string roofline_svg(const Roofline& roofline) { return Plot(roofline).draw(); }

}  // namespace dlprim::tools
