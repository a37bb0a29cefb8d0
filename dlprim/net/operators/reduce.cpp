// SPDX-License-Identifier: MIT
#include <numeric>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// A reduction: a change before, a row of the reduce table, a change after.
struct Row {
  const char* before;
  ReduceId id;
  const char* after;
};

const std::map<std::string, Row> rows = {
    {"ReduceSum", {"", ReduceId::sum, ""}},
    {"ReduceMean", {"", ReduceId::mean, ""}},
    {"ReduceProd", {"", ReduceId::prod, ""}},
    {"ReduceMax", {"", ReduceId::max_values, ""}},
    {"ReduceMin", {"", ReduceId::min_values, ""}},
    {"ReduceL1", {"abs", ReduceId::sum, ""}},
    {"ReduceL2", {"y0 = x0 * x0;", ReduceId::sum, "sqrt"}},
    {"ReduceSumSquare", {"y0 = x0 * x0;", ReduceId::sum, ""}},
    {"ReduceLogSum", {"", ReduceId::sum, "log"}},
};

struct ReduceAttributes {
  explicit ReduceAttributes(const AttributeReader& reader)
      : row(rows.contains(reader.node().type) ? &rows.at(reader.node().type) : nullptr), axes(reader.integers("axes")),
        noop_with_empty_axes(reader.integer("noop_with_empty_axes", 0)), keepdims(reader.integer("keepdims", 1)),
        axis(reader.integer("axis", 0)), select_last_index(reader.integer("select_last_index", 0)) {}
  const Row* row;
  std::vector<std::int64_t> axes;
  std::int64_t noop_with_empty_axes, keepdims, axis, select_last_index;
};

const ReduceAttributes& attributes_of(const Call& call) { return call.attributes<ReduceAttributes>(); }

// Dimensions to reduce: an attribute, or an input in newer operator sets; none given means all, or none.
std::vector<int> dims_of(Call& call, const Shape& shape) {
  std::vector<std::int64_t> axes = attributes_of(call).axes;
  if (call.has(1)) axes = call.read_integers(1);
  std::vector<int> dims;
  for (std::int64_t axis : axes) dims.push_back(shape.axis(axis));
  if (axes.empty() && !attributes_of(call).noop_with_empty_axes) {
    dims.resize(std::size_t(shape.size()));
    std::iota(dims.begin(), dims.end(), 0);
  }
  return dims;
}

Tensor squeezed(Call& call, const Tensor& x, const std::vector<int>& dims) {
  if (attributes_of(call).keepdims) return x;
  Shape shape;
  for (int d = 0; d < x.shape().size(); d++)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(x.shape()[d]);
  return reshape(call.queue(), x, shape);
}

void run_row(Call& call) {
  const Row& row = *attributes_of(call).row;
  Tensor x = call.input(0);
  const DataType dtype = x.dtype();
  const std::vector<int> dims = dims_of(call, x.shape());
  // Sums of integers stay exact; 16-bit floats keep their digits between the steps.
  const bool steps = *row.before || *row.after;
  const DataType between = steps && is_floating(dtype) ? compute_type(dtype) : dtype;
  if (*row.before) x = apply(call.queue(), row.before, {x}, {}, between);
  if (!dims.empty()) x = reduce(call.queue(), row.id, x, dims, *row.after ? between : dtype);
  if (*row.after) x = apply(call.queue(), row.after, {x}, {}, dtype);
  call.set(0, squeezed(call, cast(call.queue(), x, dtype), dims));
}

void log_sum_exp(Call& call) {
  const Tensor& x = call.input(0);
  Queue& queue = call.queue();
  const std::vector<int> dims = dims_of(call, x.shape());
  const DataType between = is_floating(x.dtype()) ? compute_type(x.dtype()) : DataType::float32;
  Tensor largest = reduce(queue, ReduceId::max_values, x, dims, between);
  largest = apply(queue, "y0 = isfinite(x0) ? x0 : 0;", {largest});
  Tensor sum = apply(queue, "y0 = exp(x0 - x1);", {x, largest}, {}, between);
  sum = reduce(queue, ReduceId::sum, sum, dims);
  call.set(0, squeezed(call, apply(queue, "y0 = log(x0) + x1;", {sum, largest}, {}, x.dtype()), dims));
}

// Place of the extreme; the first of several, or the last.
void arg(Call& call, ReduceId id) {
  const Tensor& x = call.input(0);
  const int dim = x.shape().axis(attributes_of(call).axis);
  const std::int64_t length = x.shape()[dim];
  if (length == 0) call.fail("expected at least one element along the axis");
  const bool last = attributes_of(call).select_last_index;
  Tensor source = x;
  if (last) {  // the first of the reversed row
    source = contiguous(call.queue(), narrow(x, dim, length - 1, length, -1));
  }
  Tensor y = reduce(call.queue(), id, source, {dim}, DataType::int64);
  if (last) y = apply(call.queue(), "y0 = w0 - x0;", {y}, {length - 1});
  call.set(0, squeezed(call, y, {dim}));
}

void arg_max(Call& call) { arg(call, ReduceId::argmax); }
void arg_min(Call& call) { arg(call, ReduceId::argmin); }

}  // namespace

void reduce(Registry& registry) {
  for (const auto& [type, row] : rows)
    registry.add<ReduceAttributes>(type.c_str(), run_row, "axes keepdims noop_with_empty_axes");
  registry.add<ReduceAttributes>("ReduceLogSumExp", log_sum_exp, "axes keepdims noop_with_empty_axes");
  registry.add<ReduceAttributes>("ArgMax", arg_max, "axis keepdims select_last_index");
  registry.add<ReduceAttributes>("ArgMin", arg_min, "axis keepdims select_last_index");
}

}  // namespace dlprim::operators
