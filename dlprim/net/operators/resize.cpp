// SPDX-License-Identifier: MIT
// Resize works one axis at a time: a gather for `nearest`, else a product with a matrix of weights.
#include <algorithm>
#include <cmath>

#include "../array.hpp"
#include "../checked.hpp"
#include "../inner.hpp"

namespace dlprim::operators {

namespace {

struct ResizeAttributes {
  explicit ResizeAttributes(const AttributeReader& reader)
      : mode(reader.text("mode", "nearest")),
        keep_aspect_ratio_policy(reader.text("keep_aspect_ratio_policy", "stretch")),
        coordinate_transformation_mode(reader.text("coordinate_transformation_mode", "half_pixel")),
        exclude_outside(reader.integer("exclude_outside", 0)), antialias(reader.integer("antialias", 0)),
        cubic_coeff_a(reader.real("cubic_coeff_a", -0.75)), extrapolation_value(reader.real("extrapolation_value", 0)),
        nearest_mode(reader.find<std::string>("nearest_mode")), scales(reader.reals("scales")),
        axes(reader.integers("axes")) {}
  std::string mode, keep_aspect_ratio_policy, coordinate_transformation_mode;
  std::int64_t exclude_outside, antialias;
  double cubic_coeff_a, extrapolation_value;
  std::optional<std::string> nearest_mode;
  std::vector<double> scales;
  std::vector<std::int64_t> axes;
};

const ResizeAttributes& attributes_of(const Call& call) { return call.attributes<ResizeAttributes>(); }

// One axis being resized.
struct Axis {
  std::int64_t in, out;
  double scale, start = 0, end = 1;  // start, end: the region of tf_crop_and_resize
};

// The position in the input that output element x shows.
double place(const Axis& a, std::int64_t x, const std::string& mode) {
  const double in = double(a.in), out = double(a.out), half = (double(x) + 0.5) / a.scale - 0.5;
  if (mode == "asymmetric") return double(x) / a.scale;
  if (mode == "align_corners") return a.out == 1 ? 0 : double(x) * (in - 1) / (a.scale * in - 1);
  if (mode == "pytorch_half_pixel") return a.out == 1 ? 0 : half;
  if (mode == "half_pixel_symmetric") return in / 2 * (1 - out / (a.scale * in)) + half;
  if (mode == "tf_half_pixel_for_nn") return half + 0.5;
  if (mode == "tf_crop_and_resize")
    return a.out == 1 ? (a.start + a.end) * (in - 1) / 2
                      : a.start * (in - 1) + double(x) * (a.end - a.start) * (in - 1) / (out - 1);
  return half;
}

double source(const Axis& a, std::int64_t x, const std::string& mode) {
  constexpr double limit = 1e12;  // beyond every size, where steps of 1 are still exact
  const double at = place(a, x, mode);
  if (std::isnan(at)) throw ValidationError("expected scales, sizes and a region that are numbers");
  return std::clamp(at, -limit, limit);
}

double nearest(double x, const std::string& mode) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  return mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

double triangle(double x) { return std::max(0.0, 1 - std::fabs(x)); }

// R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Row-major weights [out, in].
std::vector<float> weights_of(Call& call, const Axis& a, const std::string& transform) {
  const bool linear = attributes_of(call).mode != "cubic", exclude = attributes_of(call).exclude_outside;
  const double coefficient = attributes_of(call).cubic_coeff_a;
  const double shrink = attributes_of(call).antialias ? std::min(1.0, a.scale) : 1;
  const double reach = (linear ? 1 : 2) / shrink;
  std::vector<float> matrix(host_elements(checked_multiply(a.in, a.out), "a number of weights"));
  for (std::int64_t x = 0; x < a.out; x++) {
    const double at = source(a, x, transform);
    std::vector<std::pair<std::int64_t, double>> taps;
    double sum = 0;
    for (double tap = std::floor(at - reach) + 1; tap < at + reach; tap++) {
      const double distance = (tap - at) * shrink;
      const double weight = linear ? triangle(distance) : cubic(distance, coefficient);
      if (exclude && (tap < 0 || tap >= double(a.in))) continue;
      taps.emplace_back(std::clamp<std::int64_t>(std::int64_t(tap), 0, a.in - 1), weight);
      sum += weight;
    }
    const bool normalize = exclude || shrink < 1;
    for (const auto& [tap, weight] : taps)
      matrix[std::size_t(x * a.in + tap)] += float(normalize && sum != 0 ? weight / sum : weight);
  }
  return matrix;
}

Tensor resize_axis(Call& call, const Tensor& x, int dim, const Axis& a, const std::string& transform) {
  Queue& queue = call.queue();
  if (attributes_of(call).mode == "nearest") {
    std::vector<std::int64_t> index;
    index.reserve(host_elements(a.out, "a size"));
    const std::string rounding =
        attributes_of(call).nearest_mode.value_or(call.version() < 11 ? "floor" : "round_prefer_floor");
    for (std::int64_t i = 0; i < a.out; i++)
      index.push_back(std::clamp<std::int64_t>(std::int64_t(nearest(source(a, i, transform), rounding)), 0, a.in - 1));
    return call.run(inner<"Gather", "axis">(dim), {x, Tensor::from_integers(index)})[0];
  }
  const std::vector<float> matrix = weights_of(call, a, transform);
  const DataType type = is_floating(x.dtype()) ? x.dtype() : DataType::float32;
  const Tensor weights = cast(queue, Tensor::from_host(DataType::float32, {a.out, a.in}, matrix.data()), type);
  std::vector<std::int64_t> order;
  for (int d = 0; d < x.shape().size(); d++) order.push_back(d);
  std::swap(order[std::size_t(dim)], order.back());
  return cast(queue, permute(matmul(queue, permute(cast(queue, x, type), order), transpose(weights)), order),
              x.dtype());
}

// Elements that show positions outside the input, of tf_crop_and_resize.
Tensor outside(Call& call, const Tensor& y, int dim, const Axis& a, const std::string& transform) {
  std::vector<std::uint8_t> beyond;
  beyond.reserve(host_elements(a.out, "a size"));
  for (std::int64_t i = 0; i < a.out; i++) {
    const double at = source(a, i, transform);
    beyond.push_back(at < 0 || at > double(a.in - 1));
  }
  Tensor mask = Tensor::from_host(DataType::boolean, {a.out}, beyond.data());
  for (int d = dim + 1; d < y.shape().size(); d++) mask = unsqueeze(mask, mask.shape().size());
  return apply(call.queue(), "y0 = x1 != 0 ? w0 : x0;", {y, mask}, {attributes_of(call).extrapolation_value});
}

// Axes from scales or sizes; `first` is the input that holds the scales.
std::vector<Axis> axes_of(Call& call, const Shape& x, const std::vector<std::int64_t>& dims, int first) {
  std::vector<Axis> axes;
  std::vector<double> scales = attributes_of(call).scales;
  if (call.has(first) && call.input(first).numel()) scales = call.read_reals(first);
  if (!scales.empty()) {
    if (scales.size() != dims.size()) call.fail("expected a scale for each axis");
    for (std::size_t i = 0; i < dims.size(); i++) {
      const double scale = double(float(scales[i]));
      if (!(scale > 0 && scale < 1e6)) call.fail("expected scales above 0");
      const std::int64_t in = x[int(dims[i])];
      axes.push_back({in, checked_whole(std::floor(double(in) * scale), "a size"), scale});
    }
    return axes;
  }
  if (!call.has(first + 1)) call.fail("expected scales or sizes");
  const std::vector<std::int64_t> sizes = call.read_integers(first + 1);
  if (sizes.size() != dims.size()) call.fail("expected a size for each axis");
  const std::string policy = attributes_of(call).keep_aspect_ratio_policy;
  for (std::size_t i = 0; i < dims.size(); i++) {
    const std::int64_t in = x[int(dims[i])];
    const bool empty = in == 0 && sizes[i] == 0 && policy == "stretch";  // as an empty batch is
    if ((in <= 0 && !empty) || sizes[i] < 0) call.fail("sizes do not fit " + x.text());
    axes.push_back({in, sizes[i], empty ? 1 : double(sizes[i]) / double(in)});
  }
  if (policy == "stretch" || axes.empty()) return axes;
  double scale = axes[0].scale;
  for (const Axis& a : axes) scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  for (Axis& a : axes) a.scale = scale, a.out = checked_whole(std::floor(double(a.in) * scale + 0.5), "a size");
  return axes;
}

void run(Call& call, int scales, int regions, const std::string& transform) {
  Tensor x = call.input(0);
  std::vector<std::int64_t> dims = attributes_of(call).axes;
  for (std::int64_t& d : dims) d = x.shape().axis(d);
  if (dims.empty())
    for (int d = 0; d < x.shape().size(); d++) dims.push_back(d);
  std::vector<Axis> axes = axes_of(call, x.shape(), dims, scales);
  const bool crop = transform == "tf_crop_and_resize";
  if (crop) {
    const std::vector<double> region = call.read_reals(regions);
    if (region.size() != 2 * axes.size()) call.fail("expected a start and an end for each axis as roi");
    for (std::size_t i = 0; i < axes.size(); i++) axes[i].start = region[i], axes[i].end = region[i + axes.size()];
  }
  for (std::size_t i = 0; i < axes.size(); i++) {
    if (axes[i].in == 0 && axes[i].out == 0) continue;
    if (axes[i].in <= 0) call.fail("nothing to resize in " + x.shape().text());
    const bool same = axes[i].out == axes[i].in && (crop ? axes[i].start == 0 && axes[i].end == 1 : axes[i].scale == 1);
    if (!same) x = resize_axis(call, x, int(dims[i]), axes[i], transform);
  }
  for (std::size_t i = 0; crop && x.numel() && i < axes.size(); i++)
    x = outside(call, x, int(dims[i]), axes[i], transform);
  call.set(0, x);
}

void resize_op(Call& call) {
  if (call.version() < 11) return run(call, 1, 1, "asymmetric");
  run(call, 2, 1, attributes_of(call).coordinate_transformation_mode);
}

void upsample(Call& call) { run(call, 1, 1, "asymmetric"); }

}  // namespace

void resize(Registry& registry) {
  registry.add<ResizeAttributes>(
      "Resize", resize_op,
      "mode=nearest|linear|cubic coordinate_transformation_mode=half_pixel|half_pixel_symmetric|"
      "pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|tf_crop_and_resize "
      "nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil "
      "keep_aspect_ratio_policy=stretch|not_larger|not_smaller antialias axes cubic_coeff_a exclude_outside "
      "extrapolation_value");
  registry.add<ResizeAttributes>("Upsample", upsample, "mode=nearest|linear scales");
}

}  // namespace dlprim::operators
