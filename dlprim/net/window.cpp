// SPDX-License-Identifier: MIT
#include <algorithm>

#include "checked.hpp"
#include "window.hpp"

namespace dlprim {

namespace {

using Integers = std::vector<std::int64_t>;

Window common(const Call& call, const WindowAttributes& a, const Shape& x, Integers kernel) {
  Window w;
  const std::size_t dims = kernel.size();
  if (dims == 0 || dims > 3 || x.size() != int(dims) + 2)
    call.fail("expected 1 to 3 spatial dimensions and a kernel for them, got " + x.text() + " and " +
              Shape(kernel).text());
  w.kernel = std::move(kernel);
  w.stride = integer_list(call, "strides", a.strides, dims, 1);
  w.dilation = integer_list(call, "dilations", a.dilations, dims, 1);
  const Integers pads = integer_list(call, "pads", a.pads, 2 * dims, 0);
  w.before.assign(pads.begin(), pads.begin() + std::ptrdiff_t(dims));
  w.after.assign(pads.begin() + std::ptrdiff_t(dims), pads.end());
  w.out.resize(dims);
  constexpr std::int64_t limit = std::int64_t(1) << 30;
  auto good = [&](const Integers& values, std::int64_t least) {
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v >= least && v < limit; });
  };
  if (!good(w.kernel, 1) || !good(w.stride, 1) || !good(w.dilation, 1) || !good(pads, -limit))
    call.fail("expected kernels, strides and dilations of 1 or more");
  return w;
}

void set_padding(Window& w, std::size_t i, std::int64_t total, bool upper) {
  total = std::max<std::int64_t>(0, total);
  w.before[i] = upper ? total / 2 : total - total / 2, w.after[i] = total - w.before[i];
}

WindowAttributes::Padding padding_of(const std::string& auto_pad) {
  if (auto_pad == "VALID") return WindowAttributes::valid;
  if (!auto_pad.starts_with("SAME")) return WindowAttributes::listed;
  return auto_pad == "SAME_UPPER" ? WindowAttributes::same_upper : WindowAttributes::same_lower;
}

}  // namespace

WindowAttributes::WindowAttributes(const AttributeReader& reader)
    : kernel(reader.integers("kernel_shape")), strides(reader.integers("strides")),
      dilations(reader.integers("dilations")), pads(reader.integers("pads")),
      output_padding(reader.integers("output_padding")), output_shape(reader.integers("output_shape")),
      padding(padding_of(reader.text("auto_pad", "NOTSET"))), ceil(reader.integer("ceil_mode", 0)) {}

std::vector<std::int64_t> integer_list(const Call& call, const char* name, const std::vector<std::int64_t>& values,
                                       std::size_t count, std::int64_t otherwise) {
  if (values.empty()) return Integers(count, otherwise);
  if (values.size() != count)
    call.fail("expected " + std::to_string(count) + " " + name + ", got " + Shape(values).text());
  return values;
}

PoolWindow pool_window(const Window& w) {
  PoolWindow result;
  for (int i = 0; i < w.dims(); i++) {
    const auto to = std::size_t(3 - w.dims() + i), from = std::size_t(i);
    result.kernel[to] = checked_int(w.kernel[from], "a kernel");
    result.stride[to] = checked_int(w.stride[from], "a stride");
    result.pad[to] = checked_int(w.before[from], "a padding");
    result.dilation[to] = checked_int(w.dilation[from], "a dilation");
  }
  return result;
}

bool dilated(const Window& w) {
  return std::any_of(w.dilation.begin(), w.dilation.end(), [](std::int64_t d) { return d != 1; });
}

Window read_window(const Call& call, const WindowAttributes& attributes, const Shape& x, Integers kernel) {
  Window w = common(call, attributes, x, std::move(kernel));
  const WindowAttributes::Padding pad = attributes.padding;
  const bool ceil = attributes.ceil, same = pad >= WindowAttributes::same_upper;
  for (std::size_t i = 0; i < w.kernel.size(); i++) {
    const std::int64_t size = x[int(i) + 2], stride = w.stride[i], span = (w.kernel[i] - 1) * w.dilation[i] + 1;
    if (pad == WindowAttributes::valid) w.before[i] = w.after[i] = 0;
    if (same) {
      w.out[i] = divide_up(size, stride);
      set_padding(w, i, (w.out[i] - 1) * stride + span - size, pad == WindowAttributes::same_upper);
      continue;
    }
    const std::int64_t room = size + w.before[i] + w.after[i] - span;
    if (room < 0) call.fail("a window of " + std::to_string(span) + " does not fit " + x.text());
    w.out[i] = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (w.out[i] - 1) * stride >= size + w.before[i]) w.out[i]--;  // it would start in the padding
  }
  return w;
}

Window read_transposed_window(const Call& call, const WindowAttributes& attributes, const Shape& x, Integers kernel) {
  Window w = common(call, attributes, x, std::move(kernel));
  const std::size_t dims = w.kernel.size();
  const WindowAttributes::Padding pad = attributes.padding;
  const bool same = pad >= WindowAttributes::same_upper;
  const Integers extra = integer_list(call, "output_padding", attributes.output_padding, dims, 0);
  Integers wanted = attributes.output_shape;
  if (wanted.size() == dims + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  for (std::size_t i = 0; i < dims; i++) {
    const std::int64_t size = x[int(i) + 2], span = (w.kernel[i] - 1) * w.dilation[i] + 1;
    const std::int64_t full = checked_add(checked_multiply(size - 1, w.stride[i]), checked_add(extra[i], span));
    if (pad == WindowAttributes::valid) w.before[i] = w.after[i] = 0;
    if (wanted.size() == dims || same) {
      w.out[i] = wanted.size() == dims ? wanted[i] : checked_multiply(size, w.stride[i]);
      set_padding(w, i, checked_subtract(full, w.out[i]), pad == WindowAttributes::same_upper);
    }
    w.out[i] = checked_subtract(checked_subtract(full, w.before[i]), w.after[i]);
    if (wanted.size() == dims) w.out[i] = wanted[i];
    if (w.out[i] <= 0) call.fail("the paddings leave nothing of " + x.text());
  }
  return w;
}

}  // namespace dlprim
