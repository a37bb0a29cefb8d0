// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "check.hpp"
#include "permuted.hpp"
#include "reduce_plan.hpp"
#include "welford.hpp"

namespace dlprim {

namespace {

enum class Kind { value, indexed, moments, pair };
enum class Accumulate { sum, same, real, flag, index };

struct Row {
  const char* name;
  Kind kind;
  Accumulate accumulate;
  const char *identity, *map, *combine, *finish, *second;
};

constexpr Row rows[] = {
#define ROW(name, kind, accumulate, ...) {#name, Kind::kind, Accumulate::accumulate, __VA_ARGS__},
#include <dlprim/primitives/reduce_table.inc>
#undef ROW
};

std::string output(int k, const std::string& expression) {
  return "SET(" + std::to_string(k) + ", (" + expression + ")) ";
}

// The statements of a row's kind.
ReduceCode code_of(const Row& row) {
  const std::string identity = row.identity, map = row.map, combine = row.combine;
  ReduceCode code;
  std::string open;
  switch (row.kind) {
    case Kind::value:
      code = {"ACC_T v;",
              1,
              "p->v = " + identity + ";",
              "const ACC_T a = p->v, b = " + map + "; p->v = " + combine + ";",
              "const ACC_T a = p->v, b = q.v; p->v = " + combine + ";",
              ""};
      open = "const ACC_T a = p->v; ";
      break;
    case Kind::indexed:
      // Indices grow, so that of equal elements the first is kept by itself; without one, all are the identity.
      code = {"ACC_T v; IDX i;",
              2,
              "p->v = " + identity + "; p->i = (IDX)-1;",
              "const ACC_T a = p->v, b = " + map + "; if (" + combine + ") { p->v = b; p->i = index; }",
              "const ACC_T a = p->v, b = q.v; if ((" + combine +
                  ") || (q.i < p->i && (a == b || (a != a && b != b)))) *p = q;",
              ""};
      open = "const ACC_T v = p->v; const IDX i = p->i == (IDX)-1 ? 0 : p->i; ";
      break;
    case Kind::moments:
      code = {welford::members, welford::member_count, welford::start, welford::update, welford::merge, "",
              welford::block};
      open = "const REAL mean = p->mean, m2 = p->m2; ";
      break;
    case Kind::pair:
      code = {"ACC_T lo, hi;",
              2,
              "p->lo = HIGHEST; p->hi = LOWEST;",
              "const ACC_T v = x0; p->lo = p->lo < v || p->lo != p->lo ? p->lo : v; "
              "p->hi = p->hi > v || p->hi != p->hi ? p->hi : v;",
              "p->lo = p->lo < q.lo || p->lo != p->lo ? p->lo : q.lo; "
              "p->hi = p->hi > q.hi || p->hi != p->hi ? p->hi : q.hi;",
              ""};
      open = "const ACC_T lo = p->lo, hi = p->hi; ";
      break;
  }
  code.finish = open + output(0, row.finish) + (*row.second ? "SECOND(" + output(1, row.second) + ")" : "");
  return code;
}

// Programs by their code; ids are positions.
struct Programs {
  std::mutex mutex;
  std::deque<ReduceCode> codes;
  std::map<std::string, std::uint32_t> ids;
};

Programs& programs() {
  static Programs* instance = new Programs;
  return *instance;
}

struct Key {
  std::uint32_t program = 0;
  ReduceForm form;
  std::uint16_t stage = 0;  // 0 whole, 1 to partials, 2 from partials
  DataType accumulate{};
  std::uint8_t inputs = 0, outputs = 0;
  DataType types[reduce_max_operands + 3] = {};  // the last fill up
};

struct Job {
  const ReduceProgram& program;
  DataType accumulate;
  const ReduceOperands& operands;
};

// Parameters, pointers and element access of the operands, as macros.
void define_operands(KernelSource& source, const Job& job, const ReduceForm& form, int stage) {
  std::string operands, pointers, loads, held, hold, packed, take, stores;
  auto load = [&](const std::string& type, const std::string& name, const std::string& value) {
    loads += "const " + type + " " + name + " = " + value + "; ";
    held += type + " held_" + name + "[AHEAD][VECTOR]; ";
    hold += "held_" + name + "[ahead][v] = " + value + "; ";
    take += "const " + type + " " + name + " = held_" + name + "[ahead][v]; ";
  };
  auto add = [&](const std::string& type, const std::string& name, bool constant) {
    operands += (operands.empty() ? "" : ", ") + std::string(constant ? "CONST_" : "") + "GLOBAL(" + type + ", " +
                name + "_data)";
    pointers += std::string("__global ") + (constant ? "const " : "") + type + " *" + name +
                (constant ? "_in" : "_out") + " = " + (constant ? "CONST_" : "") + "POINTER(" + type + ", " + name +
                "_data); ";
  };
  if (stage == 2) {
    operands = "CONST_GLOBAL(acc_t, partials)";
    pointers = "__global const acc_t *parts = CONST_POINTER(acc_t, partials); ";
    load("acc_t", "q", "parts[at(0)]");
  } else {
    for (std::size_t k = 0; k < job.operands.inputs.size(); k++) {
      const std::string i = std::to_string(k), t = tag(job.operands.inputs[k].dtype);
      source.define("X" + i, "VALUE(" + t + ")");
      add("STORAGE(" + t + ")", "x" + i, true);
      load("X" + i, "x" + i, "LOAD(" + t + ", x" + i + "_in, at(" + i + "))");
      if (!form.packed) continue;
      packed += "{ const FOUR(" + t + ") words = *(__global const FOUR(" + t + ") *)(x" + i + "_in + at(" + i + ")); ";
      for (int v = 0; v < form.vector; v++) {
        const std::string n = std::to_string(v);
        packed += "held_x" + i + "[ahead][" + n + "] = DECODE(" + t + ", words." + "xyzw"[v] + "); ";
      }
      packed += "} ";
    }
  }
  std::string declare;
  if (stage == 1) {
    operands += ", GLOBAL(acc_t, partials)";
    pointers += "__global acc_t *partials = POINTER(acc_t, partials); ";
  } else {
    for (std::size_t k = 0; k < job.operands.outputs.size(); k++) {
      const DataType type = job.operands.outputs[k].dtype;
      const std::string i = std::to_string(k), t = tag(type);
      add("STORAGE(" + t + ")", "y" + i, false);
      declare += "VALUE(" + t + ") y" + i + "; ";
      stores += "STORE(" + t + ", y" + i + "_out, out[" + i + "], y" + i + "); ";
      source.define("SET_" + i + "(v)", "y" + i + " = " + (type == DataType::boolean ? "(v) != 0;" : "(v);"));
      source.define("OLD_" + i, "LOAD(" + t + ", y" + i + "_out, out[" + i + "])");
    }
  }
  source.define("SECOND(v)", job.operands.outputs.size() > 1 ? "v" : "");
  source.define("SET(k, v)", "SET_##k(v)").define("OLD(k)", "OLD_##k");
  source.define("OPERANDS", operands).define("POINTERS", pointers).define("LOADS", loads);
  source.define("HELD", held).define("HOLD", form.packed ? packed : hold).define("TAKE", take);
  source.define("FINISH", declare + job.program.code().finish + " " + stores);
}

KernelSource source_of(const Job& job, const ReduceForm& form, int stage) {
  const ReduceCode& code = job.program.code();
  const DataType acc = job.accumulate, x = job.operands.inputs[0].dtype;
  const bool wide_real = acc == DataType::float64 || acc == DataType::complex128;
  KernelSource source("reduce.cl", "reduce");
  source.define("ACC_TAG", tag(acc)).define("ACC_T", std::string("VALUE(") + tag(acc) + ")");
  source.define("REAL", wide_real ? "double" : "float");
  source.define("COMPLEX", is_complex(x)).define("X_FLOATING", is_floating(x));
  source.define("FIELDS", code.fields).define("IDENTITY", code.identity).define("COMBINE", code.combine);
  source.define("STEP", stage == 2 ? "combine(p, q);" : code.step);
  if (stage != 2 && !code.block.empty() && form.ahead * (form.columns ? 1 : form.vector) >= 4)
    source.define("BLOCK_STEP", code.block);
  source.define("KEPT_ITEMS", form.kept_items).define("REDUCE_ITEMS", form.reduce_items);
  source.define("VECTOR", form.lines ? reduce_most_columns : form.vector).define("LINES", form.lines);
  source.define("COLUMNS", form.columns).define("ALIGNED", form.aligned);
  source.define("PACKED", form.packed).define("AHEAD", form.ahead);
  source.define("NESTED", form.nested).define("UNITS", form.units).define("FIXED", form.fixed);
  source.define("FAST_DIM", form.columns ? 0 : form.kept_dims);
  source.define("KEPT_DIMS", form.kept_dims).define("REDUCED_DIMS", form.reduced_dims);
  source.define("INPUTS", stage == 2 ? 1 : std::int64_t(job.operands.inputs.size()));
  source.define("OUTPUTS", std::int64_t(job.operands.outputs.size())).define("TO_PARTIALS", stage == 1);
  if (form.wide) source.define("WIDE");
  define_operands(source, job, form, stage);
  return source;
}

Kernel& kernel_of(Device& device, const Job& job, const ReduceForm& form, int stage) {
  static KernelCache<Key> cache;
  Key key;
  key.program = job.program.id();
  key.form = form;
  key.stage = std::uint16_t(stage);
  key.accumulate = job.accumulate;
  key.inputs = std::uint8_t(job.operands.inputs.size());
  key.outputs = std::uint8_t(job.operands.outputs.size());
  DataType* type = key.types;
  for (const TensorView& view : job.operands.inputs) *type++ = view.dtype;
  for (const TensorView& view : job.operands.outputs) *type++ = view.dtype;
  return cache.get(device, key, [&] { return source_of(job, form, stage); });
}

template <class Scalar>
struct Scalars {
  Scalar s[16] = {};
  explicit Scalars(std::span<const double> values) {
    for (std::size_t k = 0; k < std::min<std::size_t>(16, values.size()); k++) s[k] = Scalar(values[k]);
  }
};

template <class Scalar>
void run(Queue& queue, Kernel& kernel, const ReducePlan& plan, const Scalars<Scalar>& scalars,
         std::span<const BufferRef> b, Traffic traffic) {
  const std::size_t group = std::size_t(plan.form.kept_items) * plan.form.reduce_items;
  const std::size_t groups = (plan.parameters.tiles + plan.parameters.passes - 1) / plan.parameters.passes;
  const NDRange range(groups * group, plan.splits, group, 1);
  const ReduceParameters& p = plan.parameters;
  switch (b.size()) {
    case 2: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1]);
    case 3: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1], b[2]);
    case 4: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1], b[2], b[3]);
    case 5: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1], b[2], b[3], b[4]);
    case 6: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1], b[2], b[3], b[4], b[5]);
    case 7: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1], b[2], b[3], b[4], b[5], b[6]);
    default: return launch(queue, kernel, range, traffic, p, scalars, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
  }
}

DataType accumulate_of(const Row& row, DataType x, DataType y) {
  const bool wide = x == DataType::float64 || x == DataType::complex128 || y == DataType::float64;
  switch (row.accumulate) {
    case Accumulate::flag: return DataType::int32;
    case Accumulate::index: return DataType::int64;
    case Accumulate::same: return compute_type(x);
    case Accumulate::real: return wide ? DataType::float64 : DataType::float32;
    case Accumulate::sum: break;
  }
  if (is_complex(x)) return x;
  if (is_complex(y)) return y;
  if (is_floating(x) || is_floating(y)) return wide ? DataType::float64 : DataType::float32;
  return accumulate_type(x);
}

// Copies of operands of more dims than a kernel walks, as dense matrices [kept, reduced].
class PackedOperands {
 public:
  PackedOperands(Queue& queue, const ReduceOperands& operands, bool updates) : queue_(queue), operands_(operands) {
    const TensorView &x = operands.inputs[0], &y = operands.outputs[0];
    for (const bool reduced : {false, true})
      for (int d = 0; d < x.dims; d++)
        if ((x.sizes[d] != y.sizes[d]) == reduced) order_.push_back(d);
    for (const TensorView& view : operands.inputs) inputs_.push_back(packed(view, y.numel(), true));
    for (const TensorView& view : operands.outputs) outputs_.push_back(packed(view, y.numel(), updates));
  }
  ReduceOperands matrices() const { return {outputs_, inputs_}; }
  void unpack() const {
    for (std::size_t k = 0; k < outputs_.size(); k++) {
      const TensorView to = permuted(operands_.outputs[k], order_);
      copy(queue_, to, TensorView(outputs_[k].data, to.dtype, to.shape()));
    }
  }

 private:
  TensorView packed(const TensorView& view, std::int64_t kept, bool filled) {
    const TensorView from = permuted(view, order_);
    const auto count = std::size_t(view.numel());
    memory_.emplace_back(queue_, std::max<std::size_t>(count, 1) * size_of(view.dtype));
    const TensorView to(memory_.back().data(), view.dtype, from.shape());
    if (filled) copy(queue_, to, from);
    return TensorView(to.data, to.dtype, {kept, view.numel() / kept});
  }

  Queue& queue_;
  const ReduceOperands& operands_;
  std::vector<int> order_;
  std::vector<Workspace> memory_;
  std::vector<TensorView> inputs_, outputs_;
};

}  // namespace

const char* name(ReduceId id) noexcept { return rows[int(id)].name; }

ReduceProgram::ReduceProgram(const ReduceCode& code) {
  Programs& all = programs();
  const std::string text = code.fields + '\1' + code.identity + '\1' + code.step + '\1' + code.combine + '\1' +
                           code.finish + '\1' + code.block;
  std::lock_guard guard(all.mutex);
  const auto [entry, added] = all.ids.try_emplace(text, std::uint32_t(all.codes.size()));
  if (added) all.codes.push_back(code);
  id_ = entry->second;
  code_ = &all.codes[id_];
}

void reduce(Queue& queue, const ReduceProgram& program, DataType accumulate, const ReduceOperands& operands,
            std::span<const double> values, bool ordered) {
  Device& device = queue.device();
  const int fields = program.code().field_count;
  const std::optional<ReducePlan> planned = plan_reduction("reduce", operands, device.info(), fields, ordered);
  if (operands.outputs[0].numel() == 0) return;
  if (!planned) {
    const bool updates = program.code().finish.find("OLD(") != std::string::npos;
    const PackedOperands packed(queue, operands, updates);
    reduce(queue, program, accumulate, packed.matrices(), values, ordered);
    return packed.unpack();
  }
  const ReducePlan& plan = *planned;
  const Job job{program, accumulate, operands};
  std::vector<BufferRef> inputs, outputs;
  Traffic traffic;
  for (const TensorView& view : operands.inputs)
    inputs.push_back(view.data), traffic.bytes += std::uint64_t(view.numel()) * size_of(view.dtype);
  for (const TensorView& view : operands.outputs) {
    outputs.push_back(view.data);
    traffic.bytes += std::uint64_t(view.numel()) * size_of(view.dtype);
  }
  const bool fp64 = device.info().fp64;
  auto start = [&](Kernel& kernel, const ReducePlan& stage, std::vector<BufferRef> buffers,
                   const std::vector<BufferRef>& more, Traffic moved) {
    buffers.insert(buffers.end(), more.begin(), more.end());
    if (fp64) run(queue, kernel, stage, Scalars<double>(values), buffers, moved);
    else run(queue, kernel, stage, Scalars<float>(values), buffers, moved);
  };
  if (plan.splits == 1) return start(kernel_of(device, job, plan.form, 0), plan, inputs, outputs, traffic);
  const Workspace partials(queue, std::size_t(plan.splits) * plan.parameters.kept * std::size_t(fields) * 16);
  start(kernel_of(device, job, plan.form, 1), plan, inputs, {partials.data()}, traffic);
  const ReducePlan merge = plan_merge(plan, int(inputs.size()), int(outputs.size()), device.info(), fields);
  start(kernel_of(device, job, merge.form, 2), merge, {partials.data()}, outputs, {});
}

void reduce(Queue& queue, ReduceId id, const ReduceOperands& operands, std::span<const double> scalars) {
  static const std::vector<ReduceProgram>* const all = [] {
    auto* list = new std::vector<ReduceProgram>;
    for (const Row& row : rows) list->emplace_back(code_of(row));
    return list;
  }();
  const Row& row = rows[int(id)];
  if (operands.inputs.empty() || operands.outputs.empty())
    throw ValidationError(std::string("[") + row.name + "] expected an input and an output, got none");
  const DataType x = operands.inputs[0].dtype, y = operands.outputs[0].dtype;
  const DataType acc = accumulate_of(row, x, y);
  expect_precision(row.name, queue.device().info(), acc);
  reduce(queue, (*all)[std::size_t(id)], acc, operands, scalars, row.kind == Kind::indexed);
}

}  // namespace dlprim
