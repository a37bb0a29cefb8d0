// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/indexing.hpp>
#include <dlprim/primitives/plan.hpp>
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <vector>

#include "check.hpp"
#include "grid.hpp"
#include "permuted.hpp"
#include "words.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;
constexpr int max_indices = 8;
constexpr std::size_t parameter_limit = 800;  // bytes; with the buffers within the 1024 every device takes

enum class Form : std::uint8_t { read, write, positions };

struct Key {
  Form form;
  std::uint8_t dims, indices, update;
  DataType index, to, from;  // for moves both are the unit's
  std::uint8_t unit;         // bytes moved as they are; 0 for updates and positions
  std::uint8_t elements;     // that a work-item reads
  std::uint8_t lines;        // sum of Lines; 0 where work-items take single elements
};

// How CPUs go through whole lines (kernel `lines` of index.cl).
enum Lines : std::uint8_t { by_lines = 1, same_index = 2, unit_strides = 4 };

// More than one where enough work-items remain to fill a GPU, and registers are enough for them.
int elements_per_item(const DeviceInfo& device, std::int64_t count, int indices) {
  constexpr std::int64_t elements = 4, resident = 2048;  // work-items of a compute unit
  return !device.cpu && indices <= 2 && count >= elements * resident * std::int64_t(device.compute_units) ? elements
                                                                                                          : 1;
}

const char* combination(Update update, DataType type) {
  switch (update) {
    case Update::multiply:
      if (is_complex(type)) return "((ACC(TO))((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x))";
      return "((a) * (b))";
    case Update::maximum: return "((b) > (a) || (b) != (b) ? (b) : (a))";
    case Update::minimum: return "((b) < (a) || (b) != (b) ? (b) : (a))";
    default: return "((a) + (b))";
  }
}

// Types that lib/atomics.clh has sums of.
bool has_sums(DataType type) { return is_floating(type) || type == DataType::int32 || type == DataType::int64; }

// Of numbers that are computed in as they are stored.
const char* vector_type(DataType type) {
  switch (type) {
    case DataType::float32: return "float16";
    case DataType::float64: return "double16";
    case DataType::int32: return "int16";
    case DataType::int64: return "long16";
    default: return nullptr;
  }
}

KernelSource make_source(const Key& key, const DeviceInfo& device) {
  KernelSource source("index.cl", key.lines ? "lines" : key.form == Form::write ? "write" : "read");
  std::string parameters, pointers;
  for (int k = 0; k < key.indices; k++) {
    const std::string name = "index" + std::to_string(k);
    parameters += (k ? ", " : "") + std::string("CONST_GLOBAL(STORAGE(INDEX), ") + name + ")";
    pointers += (k ? ", " : "") + std::string("CONST_POINTER(STORAGE(INDEX), ") + name + ")";
  }
  source.define("DIMS", key.dims).define("INDICES", key.indices).define("INDEX", tag(key.index));
  source.define("INDEX_PARAMETERS", parameters).define("INDEX_POINTERS", pointers);
  source.define("ELEMENTS", key.elements);
  if (key.form == Form::positions) return source.define("POSITIONS");
  if (key.lines) source.define("LINES");
  if (key.lines & same_index) source.define("SAME_INDEX");
  if (key.lines & unit_strides) source.define("UNIT_STRIDES");
  if (key.lines && key.form == Form::read) source.define("READS");
  if (key.unit) return source.define("UNIT", word_type(key.unit));
  source.define("TO", tag(key.to)).define("FROM", tag(key.from)).define("BYTES", std::int64_t(size_of(key.to)));
  source.define("CAST(v)", cl_cast(key.from, key.to, "v"))
      .define("COMBINE(a, b)", combination(Update(key.update), key.to));
  if (key.lines) {
    const char* vector = key.to != key.from ? nullptr : vector_type(key.to);
    return vector ? source.define("VECTOR", vector) : source;
  }
  if (device.int64_atomics) source.define("INT64_ATOMICS");
  if (Update(key.update) == Update::add && has_sums(key.to)) source.define("SUMS");
  return source;
}

// The parameter struct of index.cl, laid out for the dimensions and indices at hand.
class Parameters {
 public:
  template <class T>
  void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    data_.insert(data_.end(), bytes, bytes + sizeof value);
  }
  std::span<const std::byte> finished() {
    data_.resize((data_.size() + 7) / 8 * 8);
    return data_;
  }

 private:
  std::vector<std::byte> data_;
};

// One operation while it is prepared. Operands of the plan: the first, the second, then the indices, which address the
// second, or the first one of a write.
struct Operation {
  Plan plan;
  Form form;
  Update update;
  std::size_t start;  // offset of the addressed tensor
  std::int64_t sizes[max_indices], steps[max_indices];
  // Of a work-item that goes through lines: elements of each, lines, and addresses of an update.
  std::int64_t slice = 0, share = 0, part = 0;
  int indices() const { return plan.count() - 2; }
  const Operand& dense() const { return plan.operands[form == Form::write]; }
  const Operand& base() const { return plan.operands[form != Form::write]; }
};

// Moves the widest units that all strides, steps and addresses allow; returns their size.
int widen(Operation& o) {
  const int element = int(size_of(o.dense().dtype));
  int unit = 16;
  const bool rows = o.dense().strides[0] == 1 && o.base().strides[0] == 1;
  bool whole = rows;
  for (int k = 0; k < o.indices(); k++) whole = whole && o.plan.operands[2 + k].strides[0] == 0;
  if (!whole) return element;
  auto limit = [&](std::int64_t bytes) {
    while (unit > element && bytes % unit != 0) unit /= 2;
  };
  limit(o.plan.sizes[0] * element);
  for (int k = 0; k < 2; k++) {
    limit(std::int64_t(o.plan.operands[k].data.offset));
    for (int d = 1; d < o.plan.dims; d++) limit(o.plan.operands[k].strides[d] * element);
  }
  for (int k = 0; k < o.indices(); k++) limit(o.steps[k] * element);
  const int factor = unit / element;
  if (factor == 1) return element;
  o.plan.sizes[0] /= factor;
  for (int k = 0; k < 2; k++)
    for (int d = 1; d < o.plan.dims; d++) o.plan.operands[k].strides[d] /= factor;
  for (int k = 0; k < o.indices(); k++) o.steps[k] /= factor;
  return unit;
}

// Complex sums are sums of pairs of reals: one more dimension.
void split_complex(Operation& o) {
  Plan& plan = o.plan;
  plan.split_elements(2, 2);
  for (int k = 0; k < 2; k++) {
    DataType& type = plan.operands[k].dtype;
    type = type == DataType::complex64 ? DataType::float32 : DataType::float64;
  }
  for (int k = 0; k < o.indices(); k++) o.steps[k] *= 2;
}

// Puts a dimension behind all others.
void put_last(Plan& plan, int dim) {
  for (int d = dim; d + 1 < plan.dims; d++) {
    std::swap(plan.sizes[d], plan.sizes[d + 1]);
    for (int k = 0; k < plan.count(); k++) std::swap(plan.operands[k].strides[d], plan.operands[k].strides[d + 1]);
  }
}

constexpr std::int64_t whole = std::numeric_limits<std::int64_t>::max();

// The sum of Lines for an operation.
std::uint8_t kind_of_lines(const Operation& o) {
  for (int k = 0; k < o.indices(); k++)
    if (o.plan.operands[2 + k].strides[0] != 0) return by_lines;
  return by_lines | same_index | (o.base().strides[0] == 1 && o.dense().strides[0] == 1 ? unit_strides : 0);
}

// Shares an update among a CPU's work-items so that no two of them write to the same element. Elements that differ in a
// coordinate that the destination has, too, not an index in its place, are different: work-items take shares of the
// slowest such dimension, or slices of the fastest. Where there is none, each looks at all indices and takes those that
// lead to its part of the destination. Returns the sum of Lines; 0 where that would be too many looks, or parts are unknown.
std::uint8_t share_update(Operation& o, unsigned units) {
  constexpr std::int64_t shares_of_unit = 4, most_parts = 8;
  constexpr std::int64_t in_cache = 4 << 20;  // bytes
  constexpr std::int64_t most_places = std::int64_t(1) << 40;  // indices that stand for several may lead anywhere
  // Slices of one line share pages of memory, and work-items that take parts all indices.
  const std::int64_t smallest_slice = units > most_parts ? 16 : 256;
  Plan& plan = o.plan;
  const auto kept = [&](int d) { return o.base().strides[d] != 0; };
  const std::int64_t wanted = shares_of_unit * units;
  int chosen = plan.dims - 1;
  while (chosen > 0 && !(kept(chosen) && plan.sizes[chosen] >= std::int64_t(units))) chosen--;
  if (chosen > 0) put_last(plan, chosen);
  const std::int64_t length = plan.sizes[0], lines = plan.numel() / length;
  o.slice = length, o.share = lines, o.part = whole;
  if (chosen > 0) {
    const std::int64_t last = plan.sizes[plan.dims - 1];
    o.share = (last + wanted - 1) / wanted * (lines / last);
  } else if (kept(0) && (length >= 2 * smallest_slice || plan.dims == 1)) {
    o.slice = std::max(smallest_slice, (length + units - 1) / units);
  } else {
    std::int64_t extent = 1;
    for (int d = 0; d < plan.dims; d++) extent += (plan.sizes[d] - 1) * std::abs(o.base().strides[d]);
    for (int k = 0; k < o.indices(); k++) {
      if (units > most_parts || o.sizes[k] > most_places) return 0;
      extent += (o.sizes[k] - 1) * std::abs(o.steps[k]);
    }
    const bool longer = (kind_of_lines(o) & same_index) && length >= 16;
    if (longer || extent * std::int64_t(size_of(plan.operands[0].dtype)) > in_cache)
      o.part = std::max<std::int64_t>(1, (extent + units - 1) / units);
  }
  return kind_of_lines(o);
}

// Shares what needs no order among work-items.
std::uint8_t share_moves(Operation& o, unsigned units) {
  constexpr std::int64_t shares_of_unit = 4, smallest = 1024;  // elements
  const std::int64_t length = o.plan.sizes[0], lines = o.plan.numel() / length, wanted = shares_of_unit * units;
  const auto share = [&](std::int64_t all, std::int64_t least) {
    return std::min(all, std::max((all + wanted - 1) / wanted, least));
  };
  o.slice = lines < wanted ? share(length, smallest) : length;
  o.share = lines < wanted ? 1 : share(lines, (smallest + length - 1) / length);
  o.part = whole;
  return kind_of_lines(o);
}

NDRange range_of_lines(const Operation& o, unsigned units) {
  const std::int64_t length = o.plan.sizes[0], lines = o.plan.numel() / length;
  const bool parted = o.part != whole;
  const auto count = [](std::int64_t all, std::int64_t each) { return std::size_t((all + each - 1) / each); };
  return NDRange(count(length, o.slice), count(lines, o.share), parted ? units : 1, 1, 1, 1);
}

NDRange range_of_elements(const Operation& o, std::size_t elements) {
  const std::size_t line = elements == 1 ? 1 : 32, count = std::size_t(o.plan.numel());  // LINE of index.cl
  return NDRange((count + line * elements - 1) / (line * elements) * line, work_group);
}

template <class... Indices>
void launch_with(Queue& queue, Kernel& kernel, Operation& o, const NDRange& range,
                 std::span<const std::byte> parameters, std::uint64_t bytes, const Indices&... indices) {
  const int given = int(sizeof...(Indices));
  if constexpr (sizeof...(Indices) < max_indices) {
    if (given < o.indices())
      return launch_with(queue, kernel, o, range, parameters, bytes, indices..., o.plan.operands[2 + given].data);
  }
  launch(queue, kernel, range, Traffic{bytes}, o.plan.operands[0].data, o.plan.operands[1].data,
         queue.status().buffer(), parameters, indices...);
}

// Whether one launch can describe the operation.
bool fits(const Operation& o) {
  const int words = (2 + o.indices()) * o.plan.dims + 3 * o.plan.dims + 5;
  return std::size_t(16 * o.indices() + 24 + 4 * words) <= parameter_limit && o.plan.fits_32bit();
}

void run(Queue& queue, Operation& o, const IndexOptions& options) {
  if (!fits(o)) {
    Operation rest = o;
    rest.plan = o.plan.split();
    o.plan.coalesce(), rest.plan.coalesce();
    run(queue, o, options);
    return run(queue, rest, options);
  }
  const DeviceInfo& device = queue.device().info();
  const bool moves = o.form == Form::read || (o.form == Form::write && o.update == Update::assign);
  Key key{};
  key.unit = std::uint8_t(moves ? widen(o) : 0);
  key.form = o.form, key.dims = std::uint8_t(o.plan.dims), key.indices = std::uint8_t(o.indices());
  key.index = o.plan.operands[2].dtype, key.elements = 1;
  if (o.form != Form::write) key.elements = std::uint8_t(elements_per_item(device, o.plan.numel(), o.indices()));
  const unsigned units = device.compute_units;
  if (o.form != Form::positions && device.cpu && !settings.gpu_forms)
    key.lines = moves ? share_moves(o, units) : share_update(o, units);
  if (!moves && o.form == Form::write)
    key.update = std::uint8_t(o.update), key.to = o.plan.operands[0].dtype, key.from = o.plan.operands[1].dtype;
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] { return make_source(key, device); });

  Parameters p;
  const Plan& plan = o.plan;
  for (int k = 0; k < o.indices(); k++) p.put(o.sizes[k]);
  for (int k = 0; k < o.indices(); k++) p.put(o.steps[k]);
  p.put(options.ignore.value_or(0));
  p.put(std::int64_t(o.base().data.offset - o.start) / std::int64_t(size_of(o.base().dtype)));
  p.put(o.part);
  for (int d = 0; d < plan.dims; d++) p.put(std::int32_t(o.dense().strides[d]));
  for (int d = 0; d < plan.dims; d++) p.put(std::int32_t(o.base().strides[d]));
  for (int k = 0; k < o.indices(); k++)
    for (int d = 0; d < plan.dims; d++) p.put(std::int32_t(plan.operands[2 + k].strides[d]));
  for (int d = 0; d < plan.dims; d++) p.put(Divider(std::uint32_t(plan.sizes[d])));
  p.put(std::uint32_t(plan.numel()));
  p.put(std::int32_t(options.wrap ? 1 : 0) | std::int32_t(options.ignore ? 2 : 0));
  p.put(std::int32_t(queue.status().arm(options.message)));
  p.put(std::uint32_t(o.slice)), p.put(std::uint32_t(o.share));
  const std::uint64_t bytes = std::uint64_t(plan.numel()) * (key.unit ? key.unit : size_of(o.base().dtype)) * 2;
  const NDRange range = key.lines ? range_of_lines(o, units) : range_of_elements(o, key.elements);
  launch_with(queue, kernel, o, range, p.finished(), bytes);
}

Operation prepare(const TensorView& first, const TensorView& second, std::span<const IndexedDim> dims, Form form,
                  Update update, const char* op) {
  DLPRIM_EXPECT(!dims.empty() && dims.size() <= max_indices, op, "1 to ", max_indices, " index tensors, got ",
                dims.size());
  std::vector<TensorView> inputs{second};
  Operation o{};
  for (const IndexedDim& dim : dims) {
    const DataType type = dim.index.dtype;
    DLPRIM_EXPECT((type == DataType::int64 || type == DataType::int32) && type == dims[0].index.dtype, op,
                  "indices of dtype int64 or int32, got ", type);
    o.sizes[&dim - dims.data()] = dim.size, o.steps[&dim - dims.data()] = dim.stride;
    inputs.push_back(dim.index);
  }
  o.plan = make_plan({&first, 1}, inputs, op);
  o.form = form, o.update = update;
  o.start = (form == Form::write ? first : second).data.offset;
  return o;
}

// `view` as seen by a loop of `shape`, in which dimension `dim` is addressed by an index.
TensorView addressed_view(const TensorView& view, int dim, const TensorView& shape) {
  TensorView result = view;
  result.sizes = shape.sizes, result.dims = shape.dims;
  if (view.dims > 0) result.strides[dim] = 0;
  return result;
}

IndexedDim along(const TensorView& view, int dim, const TensorView& index) {
  return view.dims == 0 ? IndexedDim{index, 1, 1} : IndexedDim{index, view.sizes[dim], view.strides[dim]};
}

// A one-dimensional index as a tensor of `shape` that varies along `dim` only.
TensorView expanded(const TensorView& index, int dim, const TensorView& shape) {
  TensorView result = shape;
  result.data = index.data, result.dtype = index.dtype;
  for (int d = 0; d < shape.dims; d++) result.strides[d] = d == dim && index.dims > 0 ? index.strides[0] : 0;
  return result;
}

TensorView shrunk(const TensorView& view, const TensorView& shape) {
  TensorView result = view;
  result.sizes = shape.sizes;
  return result;
}

struct OrderedKey {
  DataType type;
  Update update;
  std::uint8_t items;
};

Kernel& ordered_kernel(Queue& queue, DataType type, Update update, std::uint8_t items) {
  static KernelCache<OrderedKey> cache;
  return cache.get(queue.device(), OrderedKey{type, update, items}, [&] {
    KernelSource source("index.cl", "ordered_write");
    source.define("ORDERED")
        .define("ITEMS", items)
        .define("TO", tag(type))
        .define("COMBINE(a, b)", combination(update, type));
    if (update == Update::assign) source.define("ASSIGN");
    const DataType sum = accumulate_type(type);
    source.define("TO_ACC(v)", cl_cast(type, sum, "v")).define("FROM_ACC(v)", cl_cast(sum, type, "v"));
    return source;
  });
}

// An update as rows that go to one position each: of `inner` values, which are `step` elements apart in the destination.
struct Rows {
  TensorView destination, values;  // the dimensions of rows, then those within a row, with the same sizes
  int outer = 0;
  std::int64_t inner = 1, step = 1;
  std::vector<IndexedDim> dims;

  TensorView first_of_each() const {
    TensorView result = destination;
    result.dims = outer;
    return result;
  }
};

// Dimensions along which no index varies, and that lie as one, are those within a row.
Rows as_rows(const TensorView& destination, const TensorView& values, std::span<const IndexedDim> dims) {
  Rows rows;
  std::vector<int> order, within;
  const auto free = [&](int d) {
    return destination.strides[d] != 0 && destination.sizes[d] > 1 &&
           std::ranges::all_of(dims, [&](const IndexedDim& dim) { return dim.index.strides[d] == 0; });
  };
  for (int d = 0; d < destination.dims; d++)
    if (free(d)) within.push_back(d);
  std::ranges::sort(within, {}, [&](int d) { return std::abs(destination.strides[d]); });
  std::vector<int> inside;
  for (const int d : within) {
    if (inside.empty()) rows.step = destination.strides[d];
    else if (destination.strides[d] != rows.step * rows.inner) break;
    rows.inner *= destination.sizes[d], inside.insert(inside.begin(), d);
  }
  for (int d = 0; d < destination.dims; d++)
    if (std::ranges::find(inside, d) == inside.end()) order.push_back(d);
  rows.outer = int(order.size());
  order.insert(order.end(), inside.begin(), inside.end());
  rows.destination = permuted(destination, order), rows.values = permuted(values, order);
  for (IndexedDim dim : dims) {
    dim.index = permuted(dim.index, order), dim.index.dims = rows.outer;
    rows.dims.push_back(dim);
  }
  return rows;
}

// `view` with the sizes of another, of as many dimensions or more.
TensorView broadcast(const TensorView& view, const TensorView& shape) {
  TensorView result = shape;
  result.data = view.data, result.dtype = view.dtype;
  for (int d = 0; d < shape.dims; d++) {
    const int own = d - (shape.dims - view.dims);
    result.strides[d] = own < 0 || view.sizes[own] == 1 ? 0 : view.strides[own];
  }
  return result;
}

// Sorts the values by where they go, then writes those of each place one after the other.
void write_in_order(Queue& queue, const TensorView& destination, const TensorView& values,
                    std::span<const IndexedDim> dims, Update update, const IndexOptions& options) {
  const std::int64_t count = destination.numel();
  if (count == 0) return;
  std::vector<IndexedDim> of_loop(dims.begin(), dims.end());
  for (IndexedDim& dim : of_loop) dim.index = broadcast(dim.index, destination);
  const Rows rows = as_rows(destination, broadcast(values, destination), of_loop);
  const std::int64_t lines = count / rows.inner;
  const Workspace places(queue, std::size_t(lines) * sizeof(cl_long)),
      order(queue, std::size_t(lines) * sizeof(cl_long));
  const TensorView beginnings = rows.first_of_each();
  Operation o = prepare({places.data(), DataType::int64, beginnings.shape()}, beginnings, rows.dims, Form::positions,
                        Update::assign, "indexed_write");
  run(queue, o, options);
  Workspace converted;
  TensorView given = rows.values;
  if (values.dtype != destination.dtype || !given.is_contiguous()) {
    converted = Workspace(queue, std::size_t(count) * size_of(destination.dtype));
    given = {converted.data(), destination.dtype, rows.destination.shape()};
    copy(queue, given, rows.values);
  }
  sort_order(queue, {places.data(), DataType::int64, {1, lines}}, {order.data(), DataType::int64, {1, lines}}, false);
  const std::int64_t items = rows.inner >= 128 ? 4 : 1;
  Kernel& kernel = ordered_kernel(queue, destination.dtype, update, std::uint8_t(items));
  const std::size_t group = std::bit_floor(kernel.work_group(work_group));
  const auto most = std::int64_t(group);
  const auto across = std::int64_t(std::bit_ceil(std::uint64_t(std::min(divide_up(rows.inner, items), most))));
  const std::int64_t groups = divide_up(rows.inner, items * across) * divide_up(lines, most / across);
  launch(queue, kernel, NDRange(std::size_t(groups) * group, group), destination.data, given.data, places.data(),
         order.data(), cl_ulong(lines), cl_ulong(rows.inner), cl_long(rows.step), cl_uint(across));
}

// More index tensors than a kernel takes, as fewer: the offsets to which groups of them lead. An index out of range is
// reported while these are computed, and is out of range among them, too.
struct Grouped {
  std::vector<Workspace> memory;
  std::vector<IndexedDim> dims;
  IndexOptions options;

  Grouped(Queue& queue, const TensorView& shape, std::span<const IndexedDim> all, const IndexOptions& given)
      : options(given) {
    if (options.ignore) throw ValidationError("[index] expected one index tensor beside an index to ignore");
    options.wrap = false;
    TensorView still = shape;
    still.strides.fill(0);
    for (std::size_t first = 0; first < all.size(); first += max_indices) {
      const auto group = all.subspan(first, std::min<std::size_t>(max_indices, all.size() - first));
      memory.emplace_back(queue, std::size_t(shape.numel()) * sizeof(cl_long));
      const TensorView offsets{memory.back().data(), DataType::int64, shape.shape()};
      Operation o = prepare(offsets, still, group, Form::positions, Update::assign, "index");
      run(queue, o, given);
      dims.push_back({offsets, std::numeric_limits<std::int64_t>::max(), 1});
    }
  }
};

}  // namespace

void indexed_read(Queue& queue, const TensorView& out, const TensorView& source, std::span<const IndexedDim> dims,
                  const IndexOptions& options) {
  if (out.dtype != source.dtype)
    throw ValidationError(std::string("[indexed_read] expected equal dtypes, got ") + name(out.dtype) + " and " +
                          name(source.dtype));
  if (out.numel() > 0 && dims.size() > max_indices) {
    const Grouped grouped(queue, out, dims, options);
    return indexed_read(queue, out, source, grouped.dims, grouped.options);
  }
  Operation o = prepare(out, source, dims, Form::read, Update::assign, "indexed_read");
  if (o.plan.numel() > 0) run(queue, o, options);
}

void indexed_write(Queue& queue, const TensorView& destination, const TensorView& values,
                   std::span<const IndexedDim> dims, Update update, const IndexOptions& options) {
  const DataType type = destination.dtype;
  DLPRIM_EXPECT((update != Update::assign && !is_complex(type)) || type == values.dtype, "indexed_write",
                "equal dtypes, got ", type, " and ", values.dtype);
  if (destination.numel() > 0 && dims.size() > max_indices) {
    const Grouped grouped(queue, destination, dims, options);
    return indexed_write(queue, destination, values, grouped.dims, update, grouped.options);
  }
  const bool ordering = update == Update::maximum || update == Update::minimum;
  if (is_complex(type) && ordering)
    throw NotImplementedError("[indexed_write] expected assign, add or multiply for complex numbers");
  const bool wide = (size_of(type) == 8 && type != DataType::complex64) || type == DataType::complex128;
  const bool product = is_complex(type) && update == Update::multiply;
  const bool atomic = update == Update::assign || !(product || (wide && !queue.device().info().int64_atomics));
  if (options.ordered || !atomic) return write_in_order(queue, destination, values, dims, update, options);
  Operation o = prepare(destination, values, dims, Form::write, update, "indexed_write");
  if (o.plan.numel() == 0) return;
  if (is_complex(type) && update == Update::add) split_complex(o);
  run(queue, o, options);
}

void gather(Queue& queue, const TensorView& out, const TensorView& source, int dim, const TensorView& index,
            const IndexOptions& options) {
  const IndexedDim dims[] = {along(source, dim, index)};
  indexed_read(queue, out, addressed_view(source, dim, index), dims, options);
}

void scatter(Queue& queue, const TensorView& destination, int dim, const TensorView& index, const TensorView& values,
             Update update, const IndexOptions& options) {
  const IndexedDim dims[] = {along(destination, dim, index)};
  indexed_write(queue, addressed_view(destination, dim, index), shrunk(values, index), dims, update, options);
}

void index_select(Queue& queue, const TensorView& out, const TensorView& source, int dim, const TensorView& index,
                  const IndexOptions& options) {
  const IndexedDim dims[] = {along(source, dim, expanded(index, dim, out))};
  indexed_read(queue, out, addressed_view(source, dim, out), dims, options);
}

void index_update(Queue& queue, const TensorView& destination, int dim, const TensorView& index,
                  const TensorView& values, Update update, const IndexOptions& options) {
  const IndexedDim dims[] = {along(destination, dim, expanded(index, dim, values))};
  indexed_write(queue, addressed_view(destination, dim, values), values, dims, update, options);
}

}  // namespace dlprim
