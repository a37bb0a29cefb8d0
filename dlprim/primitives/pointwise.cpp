// SPDX-License-Identifier: MIT
#include <dlprim/primitives/indexing.hpp>
#include <dlprim/primitives/pointwise_code.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cstring>
#include <deque>

#include "check.hpp"
#include "words.hpp"

namespace dlprim {

namespace {

constexpr int max_constants = 16;
// Work-items of a group in the form for CPUs whose compiler has vector code for functions across work-items, not in loops.
constexpr std::uint8_t vector_lanes = 16;
constexpr std::size_t parameter_limit = 800;  // bytes; with the buffers within the 1024 every device takes

// Whether expressions of real and complex numbers call builtins, where lib/loop_math.clh serves none or some of them.
struct Calls {
  explicit Calls(const PointwiseRow& row) {
    for (const bool loop_math : {false, true}) {
      real[loop_math] = row.special || calls_builtins(row.expression, loop_math);
      complex[loop_math] = calls_builtins(row.complex_expression, loop_math);
    }
  }
  bool real[2], complex[2];
};

// An expression and the number that stands for it in kernel keys.
struct Expression {
  PointwiseRow row;
  std::uint32_t number;
  Calls calls;
};

enum Access : std::uint8_t { contiguous, broadcast, strided, reversed, constant };
constexpr const char* access_names[] = {"contiguous", "broadcast", "strided", "reversed"};

// All that the source of a kernel depends on.
struct Key {
  std::uint32_t expression;
  std::uint8_t compute, vector, dims, outputs, inputs, scalars;
  std::uint8_t dtypes[max_operands], access[max_operands];
  // exact: functions go through double; lanes: work-items of a CPU that share a row, or 0
  std::uint8_t exact, lanes;
};

// The kernel's struct Parameters, written field by field: its layout depends on the compute type.
class Parameters {
 public:
  void put(Scalar value, DataType type) { size_ += value.store(type, bytes_ + size_); }
  void align_to(std::size_t bytes) {
    alignment_ = std::max(alignment_, bytes);
    size_ = (size_ + bytes - 1) / bytes * bytes;
  }
  template <class T>
  void put(const T& value) {
    std::memcpy(bytes_ + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  std::span<const std::byte> finished() {
    align_to(alignment_);
    return {bytes_, size_};
  }

 private:
  alignas(16) std::byte bytes_[parameter_limit + 256];
  std::size_t size_ = 0, alignment_ = 1;
};

Access access_of(const Operand& operand) {
  if (operand.constant()) return constant;
  return operand.strides[0] == 1 ? contiguous : operand.strides[0] == 0 ? broadcast : strided;
}

// Elements that a work-item of a GPU loads at once: as many as fill 16 bytes of the narrowest operand and at most 32 of
// the widest, and stay aligned in every one.
std::uint8_t vector_width(const Plan& plan) {
  std::size_t largest = 0, smallest = 16;
  for (int k = 0; k < plan.count(); k++)
    if (access_of(plan.operands[k]) == contiguous) {
      largest = std::max(largest, size_of(plan.operands[k].dtype));
      smallest = std::min(smallest, size_of(plan.operands[k].dtype));
    }
  if (largest == 0) return 1;
  std::size_t width = largest == 16 ? 1 : std::min(16 / smallest, 32 / largest);
  auto aligned = [&] {
    for (int k = 0; k < plan.count(); k++) {
      const Operand& x = plan.operands[k];
      if (access_of(x) != contiguous) continue;
      if (x.data.offset % (width * size_of(x.dtype))) return false;
      for (int d = 1; d < plan.dims; d++)
        if (x.strides[d] % std::int64_t(width)) return false;
    }
    return true;
  };
  while (width > 1 && (std::int64_t(width) > plan.sizes[0] || !aligned())) width /= 2;
  return std::uint8_t(width);
}

DataType result_type(ResultType result, DataType compute) {
  switch (result) {
    case ResultType::truth: return DataType::boolean;
    case ResultType::real:
      return compute == DataType::complex64    ? DataType::float32
             : compute == DataType::complex128 ? DataType::float64
                                               : compute;
    case ResultType::pair: return compute == DataType::float64 ? DataType::complex128 : DataType::complex64;
    default: return compute;
  }
}

// Rounded to `type` where kernels compute in a wider one.
std::string rounded(DataType type, const std::string& value) {
  const std::string t = tag(type);
  return type == compute_type(type) ? value : "DECODE(" + t + ", ENCODE(" + t + ", " + value + "))";
}

// Conversion of an input to the compute type.
std::string input_cast(DataType from, DataType compute) {
  const std::string value = cl_cast(from, compute, "v");
  return from == compute || from == DataType::boolean ? value : rounded(compute, value);
}

// Conversion of a result to its tensor's type: rounded to its own before, even if it is wider.
std::string output_cast(DataType result, DataType to) {
  return cl_cast(result, to, result == to ? "v" : rounded(result, "v"));
}

std::string body_of(const Expression& expression, DataType compute) {
  std::string text = is_complex(compute) ? expression.row.complex_expression : expression.row.expression;
  std::replace(text.begin(), text.end(), '\n', ' ');  // it becomes a macro
  if (text.find("y0 =") != std::string::npos) return text;
  const bool truth = result_type(expression.row.result, compute) == DataType::boolean;
  return "y0 = (" + text + (truth ? ") != 0;" : ");");
}

KernelSource make_source(const Expression& expression, const Plan& plan, const Key& key) {
  const DataType compute = DataType(key.compute), result = result_type(expression.row.result, compute);
  const std::string kernel = std::string("pointwise_") + expression.row.name;
  KernelSource source("pointwise.cl", kernel);
  std::string inputs, outputs, constants;
  int tensors = 0, values = 0;
  for (; values < key.scalars; values++)
    constants += " M(w" + std::to_string(values) + ", " + std::to_string(values) + ")";
  for (int k = 0; k < plan.count(); k++) {
    const bool output = k < plan.outputs;
    const std::string name = output ? "y" + std::to_string(k) : "x" + std::to_string(k - plan.outputs);
    const Operand& x = plan.operands[k];
    if (x.constant()) {
      constants += " M(" + name + ", " + std::to_string(values++) + ")";
      continue;
    }
    // Only what lies side by side is moved in words of several elements.
    const std::size_t together = key.access[k] == contiguous ? std::max<std::size_t>(key.vector, 1) : 1;
    const std::size_t bytes = together * size_of(x.dtype);
    const bool packed = together > 1 && size_of(x.dtype) < 4 && bytes >= 4;
    (output ? outputs : inputs) += " M(" + name + ", " + tag(x.dtype) + ", " + std::to_string(tensors++) + ", " +
                                   access_names[key.access[k]] + ", " + word_type(bytes) + ", " +
                                   std::to_string(packed ? 4 / size_of(x.dtype) : 1) + ")";
    source.define("CAST_" + name + "(v)", output ? output_cast(result, x.dtype) : input_cast(x.dtype, compute));
  }
  source.define("NAME", kernel).define("RANK", plan.dims).define("VECTOR", key.vector);
  source.define("LANES", key.lanes).define("TENSORS", tensors).define("CONSTANTS", values);
  define_compute(source, compute);
  source.define("RESULT", tag(result));
  const bool wide = compute == DataType::float64 || compute == DataType::complex128;
  source.define("FOR_INPUTS(M)", inputs).define("FOR_OUTPUTS(M)", outputs).define("FOR_CONSTANTS(M)", constants);
  source.define("BODY", body_of(expression, compute));
  if (expression.number >= std::uint32_t(pointwise_row_count())) source.build_now();
  if (expression.row.special) source.define("SPECIAL");
  if (key.exact) source.define("EXACT");
  if (!wide && !(key.exact && expression.row.special)) source.option("-cl-single-precision-constant");
  return source;
}

struct Launch {
  NDRange range{1};
  std::uint32_t share = 0, row_share = 0;
};

bool in_cpu_form(const Device& device) { return device.info().cpu && !settings.gpu_forms; }

constexpr std::int64_t short_row = 4;

// To find out where a row begins takes as long as several elements of it: a CPU's loop runs along the next long
// dimension where rows are short. Returns how many rows pass over the same memory then, and belong together.
std::int64_t lengthen_rows(Plan& plan) {
  constexpr std::int64_t long_row = 16;
  const std::int64_t length = plan.sizes[0];
  int next = 1;
  while (next < plan.dims && plan.sizes[next] < long_row) next++;
  if (next == plan.dims) return 1;
  const auto to_front = [&](std::int64_t* values) { std::rotate(values, values + next, values + next + 1); };
  to_front(plan.sizes);
  for (int k = 0; k < plan.count(); k++) to_front(plan.operands[k].strides);
  return length;
}

// A CPU gets a few work-items a core, each with a long loop, or as many groups of lanes. `together`: of lengthen_rows.
Launch cpu_range(const Plan& plan, std::int64_t rows, unsigned compute_units, std::size_t lanes,
                 std::int64_t together) {
  constexpr std::int64_t smallest = 8192, largest = 65536;
  const std::int64_t length = plan.sizes[0], total = rows * length;
  const std::int64_t share = std::clamp((total / (4 * compute_units) + 63) / 64 * 64, smallest, largest);
  Launch launch;
  launch.share = std::uint32_t(std::min((share / together + 63) / 64 * 64, length));
  launch.row_share = std::uint32_t(std::max<std::int64_t>(1, share / (together * length)) * together);
  launch.range = NDRange(std::size_t((rows + launch.row_share - 1) / launch.row_share) * lanes,
                         std::size_t((length + launch.share - 1) / launch.share), lanes, 1);
  return launch;
}

// Whether integers become floats. Such values are few and often compared exactly, so that functions of them take the
// way through double where there is one (lib/exact_math.clh).
bool from_integers(const Plan& plan) {
  for (int k = plan.outputs; k < plan.count(); k++)
    if (is_floating(plan.operands[k].dtype) || is_complex(plan.operands[k].dtype)) return false;
  return plan.inputs > 0;
}

// Between floats and integers of 64 bits, and from floats to shorter ones by way of these.
bool converts_slowly(const Plan& plan, DataType compute) {
  const auto integers = [](DataType type) { return is_integral(type) && type != DataType::boolean; };
  for (int k = 0; k < plan.count(); k++) {
    const DataType type = plan.operands[k].dtype;
    const bool output = k < plan.outputs;
    if (integers(type) && is_floating(compute) && (output || size_of(type) == 8)) return true;
    if (output && is_floating(type) && integers(compute) && size_of(compute) == 8) return true;
  }
  return false;
}

bool profits_from_lanes(const Expression& expression, const Plan& plan, DataType compute, bool exact) {
  if (converts_slowly(plan, compute)) return true;
  if (is_complex(compute)) return expression.calls.complex[compute == DataType::complex64];
  return is_floating(compute) && expression.calls.real[compute != DataType::float64 && !exact];
}

Key make_key(const Expression& expression, const Plan& plan, DataType compute, std::size_t scalars, bool cpu) {
  Key key{};
  key.expression = expression.number, key.compute = std::uint8_t(compute), key.scalars = std::uint8_t(scalars);
  key.vector = cpu ? 0 : vector_width(plan);
  key.dims = std::uint8_t(plan.dims);
  key.outputs = std::uint8_t(plan.outputs), key.inputs = std::uint8_t(plan.inputs);
  for (int k = 0; k < plan.count(); k++) {
    const Operand& x = plan.operands[k];
    key.dtypes[k] = std::uint8_t(x.dtype), key.access[k] = access_of(x);
    if (cpu && key.access[k] == strided && x.strides[0] == -1) key.access[k] = reversed;
  }
  return key;
}

// `together`: of lengthen_rows.
void launch_plan(Queue& queue, const Expression& expression, const Plan& plan, DataType compute,
                 std::span<const Scalar> scalars, std::int64_t together) {
  static KernelCache<Key> cache;
  Device& device = queue.device();
  const bool cpu = in_cpu_form(device);
  Key key = make_key(expression, plan, compute, scalars.size(), cpu);
  key.exact = compute == DataType::float32 && device.info().fp64 && from_integers(plan);
  if (cpu && device.info().vendor == Vendor::intel && profits_from_lanes(expression, plan, compute, key.exact))
    key.lanes = vector_lanes;
  Kernel& kernel = cache.get(device, key, [&] { return make_source(expression, plan, key); });

  Parameters parameters;
  for (const Scalar& scalar : scalars) parameters.put(scalar, compute);
  BufferRef buffers[max_operands];
  int tensors = 0;
  std::int64_t rows = 1;
  for (int d = 1; d < plan.dims; d++) rows *= plan.sizes[d];
  Traffic traffic;
  for (int k = 0; k < plan.count(); k++) {
    const Operand& x = plan.operands[k];
    if (x.constant()) parameters.put(x.value, compute);
    else buffers[tensors++] = x.data, traffic.bytes += std::uint64_t(rows * plan.sizes[0]) * size_of(x.dtype);
  }
  if (scalars.size() + plan.count() > std::size_t(tensors)) parameters.align_to(size_of(compute_type(compute)));
  parameters.align_to(4);
  parameters.put(std::uint32_t(plan.sizes[0]));
  parameters.put(std::uint32_t(rows));
  Launch range;
  if (cpu) {
    range = cpu_range(plan, rows, device.info().compute_units, std::max<std::size_t>(key.lanes, 1), together);
    parameters.put(range.share), parameters.put(range.row_share);
  } else {
    const std::uint32_t shares = std::uint32_t((plan.sizes[0] + key.vector - 1) / key.vector);
    parameters.put(std::uint32_t(shares * rows));
    parameters.put(Divider(shares));
    range.range = NDRange(std::size_t(shares * rows), kernel.work_group(256));
  }
  for (int d = 1; d < plan.dims; d++) parameters.put(Divider(std::uint32_t(plan.sizes[d])));
  for (int k = 0; k < plan.count(); k++)
    for (int d = 0; !plan.operands[k].constant() && d < plan.dims; d++)
      parameters.put(std::int32_t(plan.sizes[d] > 1 ? plan.operands[k].strides[d] : 0));
  launch(queue, kernel, range.range, traffic, std::span<const BufferRef>(buffers, std::size_t(tensors)),
         parameters.finished());
}

bool fits(const Plan& plan, std::size_t scalars) {
  const std::size_t bytes = 16 * (scalars + plan.inputs) + 32 + 12 * plan.dims + 4 * plan.count() * plan.dims;
  return bytes <= parameter_limit && plan.fits_32bit();
}

void run(Queue& queue, const Expression& expression, const Plan& plan, DataType compute,
         std::span<const Scalar> scalars) {
  if (fits(plan, scalars.size())) {
    if (plan.dims == 1 || plan.sizes[0] > short_row || !in_cpu_form(queue.device()))
      return launch_plan(queue, expression, plan, compute, scalars, 1);
    Plan longer = plan;
    const std::int64_t together = lengthen_rows(longer);
    return launch_plan(queue, expression, longer, compute, scalars, together);
  }
  Plan first = plan;
  const Plan rest = first.split();
  first.coalesce();
  run(queue, expression, first, compute, scalars);
  Plan second = rest;
  second.coalesce();
  run(queue, expression, second, compute, scalars);
}

void check_and_run(Queue& queue, const Expression& expression, const Plan& plan, DataType compute,
                   std::span<const Scalar> scalars) {
  DLPRIM_EXPECT(scalars.size() <= max_constants, expression.row.name, "at most ", max_constants, " scalars, got ",
                scalars.size());
  const auto prefix = [&] { return std::string("[") + expression.row.name + "] "; };
  if (is_complex(compute) && *expression.row.complex_expression == 0)
    throw NotImplementedError(prefix() + "not implemented for " + name(compute));
  expect_precision(expression.row.name, queue.device().info(), compute);
  for (const Operand& x : std::span(plan.operands, std::size_t(plan.count())))
    if (!x.constant())
      expect_precision(expression.row.name, queue.device().info(), x.dtype);  // constants: as `compute`
  if (plan.numel() > 0) run(queue, expression, plan, compute, scalars);
}

// Expressions given as text, numbered after the table's rows. Texts live as long as the process, as their kernels do.
Expression numbered(std::string_view statements) {
  static std::shared_mutex mutex;
  static std::deque<std::pair<std::string, Calls>> texts;
  static std::unordered_map<std::string_view, std::uint32_t> numbers;
  auto row_of = [](const std::string& text) {
    return PointwiseRow{"operation", ResultType::same, text.c_str(), text.c_str(), false};
  };
  auto make = [&](std::uint32_t n) {
    const auto& [text, calls] = texts[n];
    return Expression{row_of(text), std::uint32_t(pointwise_row_count()) + n, calls};
  };
  {
    std::shared_lock guard(mutex);
    if (auto it = numbers.find(statements); it != numbers.end()) return make(it->second);
  }
  std::unique_lock guard(mutex);
  if (auto it = numbers.find(statements); it != numbers.end()) return make(it->second);
  const auto n = std::uint32_t(texts.size());
  const std::string text(statements);
  numbers.emplace(texts.emplace_back(text, Calls(row_of(text))).first, n);
  return make(n);
}

// Powers as lib/math.clh has them, without the choice among all, which vectors make by computing each.
const char* common_power(double exponent) {
  return exponent == 2      ? "y0 = x0 * x0;"
         : exponent == 3    ? "y0 = x0 * x0 * x0;"
         : exponent == 0.5  ? "y0 = sqrt(x0);"
         : exponent == -0.5 ? "y0 = 1 / sqrt(x0);"
         : exponent == -1   ? "y0 = 1 / x0;"
         : exponent == -2   ? "y0 = 1 / (x0 * x0);"
                            : nullptr;
}

DataType compute_type_of(std::span<const TensorView> outputs, std::span<const TensorView> inputs) {
  if (inputs.empty()) return outputs[0].dtype;
  DataType type = inputs[0].dtype;
  for (const TensorView& x : inputs.subspan(1)) type = promote(type, x.dtype);
  return is_floating(outputs[0].dtype) && !is_floating(type) && !is_complex(type) ? outputs[0].dtype : type;
}

}  // namespace

void pointwise(Queue& queue, PointwiseId id, const Plan& plan, DataType compute, std::span<const Scalar> scalars) {
  static const std::vector<Calls> calls = [] {
    std::vector<Calls> rows;
    for (int k = 0; k < pointwise_row_count(); k++) rows.emplace_back(pointwise_row(PointwiseId(k)));
    return rows;
  }();
  if (id == PointwiseId::pow_tensor_scalar && is_floating(compute) && queue.device().info().cpu)
    if (const char* power = common_power(scalars[0].real()))
      return check_and_run(queue, numbered(power), plan, compute, {});
  const Expression expression{pointwise_row(id), std::uint32_t(id), calls[std::size_t(id)]};
  check_and_run(queue, expression, plan, compute, scalars);
}

void pointwise(Queue& queue, PointwiseId id, std::span<const TensorView> outputs, std::span<const TensorView> inputs,
               std::span<const Scalar> scalars) {
  const Plan plan = make_plan(outputs, inputs, pointwise_row(id).name);
  pointwise(queue, id, plan, compute_type_of(outputs, inputs), scalars);
}

void pointwise_operation(Queue& queue, const Plan& plan, DataType compute, std::span<const Scalar> scalars,
                         std::string_view statements) {
  check_and_run(queue, numbered(statements), plan, compute, scalars);
}

void pointwise_operation(Queue& queue, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                         std::span<const Scalar> scalars, std::string_view statements,
                         std::optional<DataType> compute) {
  const Plan plan = make_plan(outputs, inputs, "pointwise_operation");
  pointwise_operation(queue, plan, compute ? *compute : compute_type_of(outputs, inputs), scalars, statements);
}

}  // namespace dlprim
