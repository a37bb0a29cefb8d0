// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/shape.hpp>

#include <algorithm>

#include "checked.hpp"

namespace dlprim {

std::int64_t Shape::product(int begin, int end) const {
  if (begin >= end) return 1;
  place(begin, size()), place(end - 1, size());
  return checked_product(std::span(sizes_).subspan(std::size_t(begin), std::size_t(end - begin)));
}

std::int64_t Shape::total_size() const { return product(0, size()); }

void Shape::no_dimension(int dim) const {
  throw ValidationError("there is no dimension " + std::to_string(dim) + " in shape " + text());
}

int Shape::axis(std::int64_t dim, int extra) const {
  const std::int64_t dims = size() + extra;
  if (dim < -dims || dim >= dims)
    throw ValidationError("expected a dimension in [" + std::to_string(-dims) + ", " + std::to_string(dims) +
                          "), got " + std::to_string(dim) + " for shape " + text());
  return int(dim < 0 ? dim + dims : dim);
}

std::string Shape::text() const {
  std::string result = "[";
  constexpr int shown = 32;
  for (int d = 0; d < std::min(size(), shown); d++) result += (d ? ", " : "") + std::to_string((*this)[d]);
  if (size() > shown) result += ", ... of " + std::to_string(size()) + " dimensions";
  return result + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int dims = std::max(a.size(), b.size());
  Shape result(std::vector<std::int64_t>(std::size_t(dims), 1));
  for (int d = 1; d <= dims; d++) {
    const std::int64_t x = d <= a.size() ? a[a.size() - d] : 1, y = d <= b.size() ? b[b.size() - d] : 1;
    if (x != y && x != 1 && y != 1)
      throw ValidationError("shapes " + a.text() + " and " + b.text() + " do not broadcast");
    result[dims - d] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace dlprim
