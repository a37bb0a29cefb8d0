// SPDX-License-Identifier: MIT
// A convolution and its gradients, compared with sums on the host.
#pragma once
#include <dlprim/primitives/conv.hpp>

#include "floats.hpp"

namespace dlprim::testing::conv {

using Sizes = std::vector<std::int64_t>;

struct Case {
  const char* label;
  Sizes x, w;  // [N, C, spatial], [K, C / groups, kernel]
  ConvOptions options;
  Sizes behind;  // padding after the last element
  bool x_last = false, w_last = false;
};

inline std::int64_t numel(const Sizes& sizes) {
  std::int64_t n = 1;
  for (const auto s : sizes) n *= s;
  return n;
}

inline Sizes strides(const Sizes& sizes, bool channels_last) {
  Sizes result(sizes.size());
  std::int64_t next = 1;
  auto take = [&](std::size_t i) { result[i] = next, next *= sizes[i]; };
  if (channels_last) take(1);
  for (std::size_t i = sizes.size() - 1; i >= 2; i--) take(i);
  if (!channels_last) take(1);
  take(0);
  return result;
}

inline TensorView view(const Elements& memory, const Sizes& sizes, bool channels_last) {
  return TensorView(memory.data(), memory.type(), sizes, strides(sizes, channels_last));
}

inline Sizes output_sizes(const Case& t) {
  Sizes y{t.x[0], t.w[0]};
  for (std::size_t i = 2; i < t.x.size(); i++) {
    const auto& o = t.options;
    const std::int64_t reach = o.dilation[i - 2] * (t.w[i] - 1) + 1;
    y.push_back((t.x[i] + o.padding[i - 2] + (t.behind.empty() ? o.padding[i - 2] : t.behind[i - 2]) - reach) /
                    o.stride[i - 2] +
                1);
  }
  return y;
}

// Offset of an index; the index counts row-major.
inline std::int64_t offset(std::int64_t index, const Sizes& sizes, const Sizes& stride) {
  std::int64_t result = 0;
  for (std::size_t i = sizes.size(); i-- > 0; index /= sizes[i]) result += index % sizes[i] * stride[i];
  return result;
}

// Calls visit(x index, w index, y index) for every product of a convolution, indices row-major.
template <class Visit>
void products(const Case& t, const Sizes& y, Visit visit) {
  const std::size_t rank = t.x.size() - 2;
  const std::int64_t per_group = t.w[0] / t.options.groups;
  std::int64_t positions = 1, taps = 1;
  for (std::size_t i = 0; i < rank; i++) positions *= y[2 + i], taps *= t.w[2 + i];
  for (std::int64_t at = 0; at < numel(y); at++) {
    const std::int64_t k = at / positions % y[1], n = at / positions / y[1];
    for (std::int64_t c = 0; c < t.w[1]; c++)
      for (std::int64_t tap = 0; tap < taps; tap++) {
        std::int64_t rest = at % positions, tap_rest = tap, index = 0, scale = 1;
        bool inside = true;
        for (std::size_t i = rank; i-- > 0;) {
          const std::int64_t q = rest % y[2 + i], kernel = tap_rest % t.w[2 + i];
          rest /= y[2 + i], tap_rest /= t.w[2 + i];
          const std::int64_t p = q * t.options.stride[i] - t.options.padding[i] + kernel * t.options.dilation[i];
          inside = inside && p >= 0 && p < t.x[2 + i];
          index += p * scale, scale *= t.x[2 + i];
        }
        if (!inside) continue;
        visit((n * t.x[1] + k / per_group * t.w[1] + c) * scale + index, (k * t.w[1] + c) * taps + tap, at);
      }
  }
}

inline void compare(const std::string& what, const std::vector<double>& expected, const Elements& result,
                    const Sizes& sizes, bool channels_last, double tolerance) {
  const auto values = result.read();
  const Sizes stride = strides(sizes, channels_last);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); i++) {
    const double difference = values[std::size_t(offset(std::int64_t(i), sizes, stride))] - expected[i];
    error += difference * difference, norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm) + 1e-30) << what;
}

inline void check(const Case& t, DataType type) {
  const Sizes y = output_sizes(t);
  const Elements mx(type, std::size_t(numel(t.x)), 1), mw(type, std::size_t(numel(t.w)), 2),
      mb(type, std::size_t(t.w[0]), 3);
  const Elements my(type, std::size_t(numel(y)), 4), dy(type, std::size_t(numel(y)), 5),
      dx(type, std::size_t(numel(t.x)), 6), dx_alone(type, std::size_t(numel(t.x)), 11);
  const Elements dw(type, std::size_t(numel(t.w)), 7), db(type, std::size_t(t.w[0]), 8),
      cb(type, std::size_t(t.x[1]), 9);
  const TensorView x = view(mx, t.x, t.x_last), w = view(mw, t.w, t.w_last), dyv = view(dy, y, t.x_last);
  const TensorView bias(mb.data(), type, {t.w[0]});
  conv_forward(queue(), x, w, bias, view(my, y, t.x_last), t.options, Activation::relu);
  const Elements mr(type, std::size_t(numel(y)), 4), residual(type, std::size_t(numel(y)), 10);
  if (is_floating(type))
    conv_forward(queue(), x, w, bias, view(mr, y, t.x_last), t.options, Activation::relu, view(residual, y, t.x_last));
  conv_backward_data(queue(), dyv, w, TensorView(cb.data(), type, {t.x[1]}), view(dx, t.x, t.x_last), t.options);
  conv_backward_data(queue(), dyv, w, {}, view(dx_alone, t.x, t.x_last), t.options);
  conv_backward_weights(queue(), x, dyv, view(dw, t.w, t.w_last), t.options);
  conv_backward_bias(queue(), dyv, TensorView(db.data(), type, {t.w[0]}));

  const Sizes sx = strides(t.x, t.x_last), sw = strides(t.w, t.w_last), sy = strides(y, t.x_last);
  std::vector<double> ey(std::size_t(numel(y))), ex(std::size_t(numel(t.x))), ew(std::size_t(numel(t.w))),
      eb(std::size_t(t.w[0])), ex_alone(ex.size());
  const std::int64_t positions = numel(y) / std::max<std::int64_t>(1, y[0] * y[1]),
                     plane = numel(t.x) / (t.x[0] * t.x[1]);
  auto gradient = [&](std::int64_t i) { return dy.host(std::size_t(offset(i, y, sy))); };
  for (std::int64_t i = 0; i < numel(y); i++) {
    ey[i] = mb.host(std::size_t(i / positions % y[1]));
    eb[std::size_t(i / positions % y[1])] += gradient(i);
  }
  for (std::int64_t i = 0; i < numel(t.x); i++) ex[i] = cb.host(std::size_t(i / plane % t.x[1]));
  products(t, y, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    const double xv = mx.host(std::size_t(offset(xi, t.x, sx))), wv = mw.host(std::size_t(offset(wi, t.w, sw)));
    ey[yi] += xv * wv, ex_alone[xi] += gradient(yi) * wv, ew[wi] += gradient(yi) * xv;
  });
  for (std::size_t i = 0; i < ex.size(); i++) ex[i] += ex_alone[i];
  std::vector<double> er = ey;
  for (std::int64_t i = 0; i < numel(y); i++)
    er[i] = std::max(er[i] + residual.host(std::size_t(offset(i, y, sy))), 0.0);
  for (double& v : ey) v = std::max(v, 0.0);
  const double tolerance = t.options.allow_tf32 ? 2e-3 : epsilon(type) + (type == DataType::float64 ? 1e-13 : 5e-6);
  const std::string what = std::string(t.label) + " " + name(type);
  compare(what + " forward", ey, my, y, t.x_last, tolerance);
  if (is_floating(type)) compare(what + " with residual", er, mr, y, t.x_last, tolerance);
  compare(what + " data gradient", ex, dx, t.x, t.x_last, tolerance);
  compare(what + " data gradient without bias", ex_alone, dx_alone, t.x, t.x_last, tolerance);
  compare(what + " weights gradient", ew, dw, t.w, t.w_last, tolerance);
  compare(what + " bias gradient", eb, db, {t.w[0], 1}, false, tolerance);
}

inline ConvOptions options(std::array<std::int64_t, 3> stride, std::array<std::int64_t, 3> padding,
                           std::array<std::int64_t, 3> dilation = {1, 1, 1}, std::int64_t groups = 1) {
  return {stride, padding, dilation, groups};
}

}  // namespace dlprim::testing::conv
