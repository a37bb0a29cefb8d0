// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/shape.hpp>

#include <algorithm>

namespace dlprim {

std::int64_t Shape::product(int begin, int end) const noexcept {
  std::int64_t result = 1;
  for (int d = begin; d < end; d++) result *= sizes_[std::size_t(d)];
  return result;
}

std::int64_t Shape::total_size() const noexcept { return product(0, size()); }

int Shape::axis(std::int64_t dim, int extra) const {
  const std::int64_t dims = size() + extra;
  if (dim < -dims || dim >= dims)
    throw ValidationError("expected a dimension in [" + std::to_string(-dims) + ", " + std::to_string(dims) +
                          "), got " + std::to_string(dim) + " for shape " + text());
  return int(dim < 0 ? dim + dims : dim);
}

std::string Shape::text() const {
  std::string result = "[";
  for (int d = 0; d < size(); d++) result += (d ? ", " : "") + std::to_string((*this)[d]);
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
