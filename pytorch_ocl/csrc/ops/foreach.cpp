// SPDX-License-Identifier: MIT
// The _foreach_* operators on lists of tensors: one boxed kernel for all of them, driven by a table of expressions.
// Lists that differ in dtype, layout or device take PyTorch's composite loop over single tensors.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/foreach.hpp>
#include <torch/library.h>

#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

struct ForeachRow {
  const char* name;
  int arguments;  // operands, scalars included
  const char* each;  // x0 is the result; a, b, c, d are the arguments in the order of the schema
};

constexpr ForeachRow rows[] = {
    {"abs", 1, "fabs(a)"}, {"acos", 1, "acos(a)"}, {"asin", 1, "asin(a)"}, {"atan", 1, "atan(a)"},
    {"ceil", 1, "ceil(a)"}, {"cos", 1, "cos(a)"}, {"cosh", 1, "cosh(a)"}, {"erf", 1, "erf(a)"},
    {"erfc", 1, "erfc(a)"}, {"exp", 1, "exp(a)"}, {"expm1", 1, "expm1(a)"}, {"floor", 1, "floor(a)"},
    {"frac", 1, "a - trunc(a)"}, {"log", 1, "log(a)"}, {"log10", 1, "log10(a)"}, {"log1p", 1, "log1p(a)"},
    {"log2", 1, "log2(a)"}, {"neg", 1, "-a"}, {"reciprocal", 1, "1 / a"}, {"round", 1, "rint(a)"},
    {"rsqrt", 1, "1 / sqrt(a)"}, {"sigmoid", 1, "1 / (1 + exp(-a))"},
    {"sign", 1, "(a > 0) - (a < 0)"}, {"sin", 1, "sin(a)"}, {"sinh", 1, "sinh(a)"}, {"sqrt", 1, "sqrt(a)"},
    {"tan", 1, "tan(a)"}, {"tanh", 1, "tanh(a)"}, {"trunc", 1, "trunc(a)"}, {"zero", 1, "0"},
    {"add", 2, "a + b"}, {"add", 3, "a + c * b"}, {"sub", 2, "a - b"}, {"sub", 3, "a - c * b"},
    {"mul", 2, "a * b"}, {"div", 2, "a / b"}, {"pow", 2, "pow(a, b)"}, {"copy", 2, "b"},
    {"maximum", 2, "isnan(a) || isnan(b) ? a + b : fmax(a, b)"},
    {"minimum", 2, "isnan(a) || isnan(b) ? a + b : fmin(a, b)"},
    {"clamp_min", 2, "isnan(a) || isnan(b) ? a + b : fmax(a, b)"},
    {"clamp_max", 2, "isnan(a) || isnan(b) ? a + b : fmin(a, b)"},
    {"addcmul", 4, "a + d * b * c"}, {"addcdiv", 4, "a + d * (b / c)"},
    // As at::lerp: from the nearer end, which is exact at both.
    {"lerp", 3, "fabs(c) < (T)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c)"},
};

// An operator as the table sees it: "aten::_foreach_add_" -> "add", in place.
struct Name {
  std::string stem;
  bool in_place;
  explicit Name(const std::string& name) : stem(name.substr(std::string_view("aten::_foreach_").size())) {
    in_place = stem.ends_with('_');
    if (in_place) stem.pop_back();
  }
};

// The arguments of one call, sorted by kind, and the code that names them.
struct Call {
  std::vector<std::vector<at::Tensor>> lists;
  std::vector<at::Tensor> singles;  // 0-dim tensors
  std::vector<c10::Scalar> scalars, tensor_scalars;
  std::string code;

  // False when an argument has a kind that only the composite takes.
  bool add(const c10::IValue& value, char letter, bool is_scalar_type) {
    std::string source;
    if (value.isTensorList()) {
      source = "x" + std::to_string(lists.size());
      lists.push_back(value.toTensorVector());
    } else if (value.isTensor()) {
      if (value.toTensor().dim() != 0 || value.toTensor().is_cpu()) return false;
      source = "@" + std::to_string(singles.size());  // numbered once the lists are known
      singles.push_back(value.toTensor());
    } else if (value.isList() && is_scalar_type) {
      if (!tensor_scalars.empty()) return false;
      source = "t0";
      for (const c10::IValue& scalar : value.toListRef()) tensor_scalars.push_back(scalar.toScalar());
    } else if (value.isScalar()) {
      source = "s" + std::to_string(scalars.size());
      scalars.push_back(value.toScalar());
    } else {
      return false;
    }
    code += std::string("const T ") + letter + " = " + source + "; ";
    return true;
  }
};

bool read_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack, Call& call, int& count) {
  const auto& arguments = op.schema().arguments();
  const auto values = torch::jit::last(stack, arguments.size());
  count = 0;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (arguments[i].name() == "non_blocking") continue;
    const bool scalar_list = arguments[i].type()->str().find("Scalar[]") != std::string::npos ||
                             arguments[i].type()->str() == "number[]";
    if (!call.add(values[i], char('a' + count), scalar_list)) return false;
    count++;
  }
  return !call.lists.empty() && !call.lists[0].empty() && values[0].isTensorList();
}

const ForeachRow* find_row(std::string_view stem, int arguments) {
  for (const ForeachRow& row : rows)
    if (stem == row.name && row.arguments == arguments) return &row;
  return nullptr;
}

bool fits_one_launch(const Call& call) {
  std::vector<at::TensorList> lists(call.lists.begin(), call.lists.end());
  for (const auto& list : lists)
    if (list.size() != lists[0].size()) return false;
  if (!at::isFloatingType(lists[0][0].scalar_type())) return false;
  if (!call.tensor_scalars.empty() && call.tensor_scalars.size() != lists[0].size()) return false;
  for (const at::Tensor& single : call.singles)
    if (single.device() != lists[0][0].device() || single.scalar_type() != lists[0][0].scalar_type()) return false;
  auto real = [](const c10::Scalar& scalar) { return !scalar.isComplex(); };
  return std::all_of(call.scalars.begin(), call.scalars.end(), real) &&
         std::all_of(call.tensor_scalars.begin(), call.tensor_scalars.end(), real) &&
         at::native::check_fast_path_restrictions(lists, call.tensor_scalars);
}

std::vector<double> numbers(const std::vector<c10::Scalar>& scalars) {
  std::vector<double> result;
  for (const auto& scalar : scalars) result.push_back(scalar.toDouble());
  return result;
}

// Runs the call in one sweep; returns the results, empty for an in-place operator.
std::vector<at::Tensor> run(Call& call, const ForeachRow& row, bool in_place) {
  const std::size_t tensors = call.lists[0].size(), inputs = call.lists.size();
  const c10::DeviceGuard guard(call.lists[0][0].device());
  std::vector<at::Tensor> results;
  if (!in_place)
    for (const at::Tensor& tensor : call.lists[0]) results.push_back(at::empty_like(tensor));

  const auto dtype = data_type_of(call.lists[0][0], row.name);
  std::vector<std::vector<dlprim::BufferRef>> data;
  std::vector<dlprim::ForeachList> lists;
  data.reserve(inputs + call.singles.size() + 1);
  auto add = [&](const auto& list, dlprim::ForeachMode mode) {
    auto& buffers = data.emplace_back();
    for (std::size_t i = 0; i < tensors; i++) buffers.push_back(buffer_of(list(i)));
    lists.push_back({buffers, dtype, mode});
  };
  for (std::size_t k = 0; k < inputs; k++)
    add([&](std::size_t i) { return call.lists[k][i]; },
        k == 0 && in_place ? dlprim::ForeachMode::update : dlprim::ForeachMode::read);
  for (std::size_t k = 0; k < call.singles.size(); k++) {
    const auto at = call.code.find("@" + std::to_string(k));
    call.code.replace(at, 1, "x").replace(at + 1, 1, std::to_string(lists.size()));
    add([&](std::size_t) { return call.singles[k]; }, dlprim::ForeachMode::broadcast);
  }
  std::string target = "x0";
  if (!in_place) {
    target = "x" + std::to_string(lists.size());
    add([&](std::size_t i) { return results[i]; }, dlprim::ForeachMode::write);
  }
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& tensor : call.lists[0]) sizes.push_back(tensor.numel());
  const std::string each = call.code + target + " = " + row.each + ";";
  const auto scalars = numbers(call.scalars), tensor_scalars = numbers(call.tensor_scalars);
  dlprim::foreach(current_queue(), {each.c_str(), each.c_str()}, dtype, sizes, lists, scalars, tensor_scalars);
  return results;
}

void foreach_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Name name(op.schema().name());
  Call call;
  int count = 0;
  const bool readable = read_arguments(op, *stack, call, count);
  const ForeachRow* row = readable ? find_row(name.stem, count) : nullptr;
    if (!row || !fits_one_launch(call)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
    return;
  }
  auto results = run(call, *row, name.in_place);
  torch::jit::drop(*stack, op.schema().arguments().size());
  if (!name.in_place) torch::jit::push(*stack, std::move(results));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const ForeachRow& row : rows)
    for (const char* suffix : {"", "_"})
      for (const char* overload : {"", "Scalar", "ScalarList", "List", "Tensor"}) {
        if (&row != find_row(row.name, row.arguments)) continue;
        const std::string name = std::string("_foreach_") + row.name + suffix;
        const bool repeated = row.arguments == 3 && find_row(row.name, 2);
        if (repeated || !c10::Dispatcher::singleton().findSchema({"aten::" + name, overload})) continue;
        m.impl((*overload ? name + "." + overload : name).c_str(),
               torch::CppFunction::makeFromBoxedFunction<&foreach_kernel>());
      }
}

}  // namespace pytorch_ocl
