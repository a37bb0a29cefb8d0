// SPDX-License-Identifier: MIT
// The _foreach_* operators on lists of tensors: one boxed kernel for all of them, driven by a table of expressions.
// Lists that differ in dtype, layout or device take PyTorch's composite loop over single tensors.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/foreach.hpp>
#include <torch/library.h>

#include "generated/functions/tensor.h"
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

const ForeachRow* find_row(std::string_view name, int arguments) {
  for (const ForeachRow& row : rows)
    if (name == row.name && row.arguments == arguments) return &row;
  return nullptr;
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t d = 0; d < a.dim(); d++)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

// The buffers of a list whose tensors match those of `like` in dtype, device and layout; false when one does not.
bool gather(c10::ArrayRef<c10::IValue> list, c10::ArrayRef<c10::IValue> like, std::vector<dlprim::BufferRef>& buffers) {
  if (list.size() != like.size()) return false;
  const at::Tensor& first = like[0].toTensor();
  buffers.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); i++) {
    const at::Tensor& tensor = list[i].toTensor();
    if (tensor.scalar_type() != first.scalar_type() || tensor.device() != first.device() ||
        tensor.layout() != at::kStrided || !tensor.is_non_overlapping_and_dense() ||
        !same_layout(tensor, like[i].toTensor()))
      return false;
    buffers.push_back(buffer_of(tensor));
  }
  return true;
}

bool add_number(const c10::Scalar& scalar, std::vector<double>& numbers) {
  if (!scalar.isComplex()) numbers.push_back(scalar.toDouble());
  return !scalar.isComplex();
}

// One operator: what its arguments are and the code they lead to, known once it is registered.
class ForeachKernel : public c10::OperatorKernel {
 public:
  ForeachKernel(const c10::FunctionSchema& schema, const ForeachRow& row, bool in_place)
      : name_(row.name), in_place_(in_place) {
    int lists = 0, scalars = 0, letters = 0;
    std::string code;
    for (const c10::Argument& argument : schema.arguments()) {
      const std::string type = argument.type()->str();
      Kind kind = Kind::ignored;
      if (argument.name() != "non_blocking")
        kind = type == "Tensor[]" ? Kind::list : type == "Tensor" ? Kind::tensor
               : type.ends_with("[]") ? Kind::scalars : Kind::scalar;
      kinds_.push_back(kind);
      lists += kind == Kind::list;
    }
    int tensors = lists;
    lists = 0;
    for (const Kind kind : kinds_) {
      if (kind == Kind::ignored) continue;
      const std::string source = kind == Kind::list     ? "x" + std::to_string(lists++)
                                 : kind == Kind::tensor ? "x" + std::to_string(tensors++)
                                 : kind == Kind::scalar ? "s" + std::to_string(scalars++)
                                                        : "t0";
      code += std::string("const T ") + char('a' + letters++) + " = " + source + "; ";
    }
    code_ = code + "x" + (in_place ? "0" : std::to_string(tensors)) + " = " + row.each + ";";
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (!run(*stack)) op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
  }

 private:
  enum class Kind { list, tensor, scalar, scalars, ignored };

  // Replaces the arguments by the results; false, changing nothing, when only the composite takes them.
  bool run(torch::jit::Stack& stack) const {
    const auto arguments = torch::jit::last(stack, kinds_.size());
    const auto like = arguments[0].toListRef();
    if (like.empty() || !at::isFloatingType(like[0].toTensor().scalar_type())) return false;
    const at::Tensor& first = like[0].toTensor();
    std::vector<std::vector<dlprim::BufferRef>> data, singles;
    std::vector<double> scalars, tensor_scalars;
    for (std::size_t i = 0; i < kinds_.size(); i++)
      if (!read(arguments[i], kinds_[i], like, data, singles, kinds_[i] == Kind::scalars ? tensor_scalars : scalars))
        return false;
    if (!tensor_scalars.empty() && tensor_scalars.size() != like.size()) return false;

    const c10::DeviceGuard guard(first.device());
    std::vector<at::Tensor> results;
    std::vector<std::int64_t> sizes;
    std::vector<dlprim::BufferRef> outputs;
    sizes.reserve(like.size());
    if (!in_place_) results.reserve(like.size()), outputs.reserve(like.size());
    for (const c10::IValue& value : like) {
      sizes.push_back(value.toTensor().numel());
      if (in_place_) continue;
      const at::Tensor& tensor = value.toTensor();
      results.push_back(
          ops::empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), {}, tensor.device(), {}));
      outputs.push_back(buffer_of(results.back()));
    }
    const auto dtype = data_type_of(first, name_);
    std::vector<dlprim::ForeachList> lists;
    for (const auto& list : data) lists.push_back({list, dtype, dlprim::ForeachMode::read});
    for (const auto& single : singles) lists.push_back({single, dtype, dlprim::ForeachMode::broadcast});
    if (in_place_) lists[0].mode = dlprim::ForeachMode::update;
    else lists.push_back({outputs, dtype, dlprim::ForeachMode::write});
    dlprim::foreach(current_queue(), {code_.c_str(), code_.c_str()}, dtype, sizes, lists, scalars, tensor_scalars);
    torch::jit::drop(stack, kinds_.size());
    if (!in_place_) torch::jit::push(stack, std::move(results));
    return true;
  }

  static bool read(const c10::IValue& value, Kind kind, c10::ArrayRef<c10::IValue> like,
                   std::vector<std::vector<dlprim::BufferRef>>& lists,
                   std::vector<std::vector<dlprim::BufferRef>>& singles, std::vector<double>& scalars) {
    const at::Tensor& first = like[0].toTensor();
    switch (kind) {
      case Kind::list: return gather(value.toListRef(), like, lists.emplace_back());
      case Kind::scalar: return add_number(value.toScalar(), scalars);
      case Kind::scalars: {
        for (const c10::IValue& scalar : value.toListRef())
          if (!add_number(scalar.toScalar(), scalars)) return false;
        return true;
      }
      case Kind::tensor: {
        const at::Tensor& tensor = value.toTensor();
        if (tensor.dim() != 0 || tensor.device() != first.device() || tensor.scalar_type() != first.scalar_type())
          return false;
        singles.emplace_back(like.size(), buffer_of(tensor));
        return true;
      }
      default: return true;
    }
  }

  const char* name_;
  bool in_place_;
  std::vector<Kind> kinds_;
  std::string code_;
};

int arguments_of(const c10::FunctionSchema& schema) {
  int count = 0;
  for (const c10::Argument& argument : schema.arguments()) count += argument.name() != "non_blocking";
  return count;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  std::string previous;
  for (const ForeachRow& row : rows) {
    if (row.name == previous) continue;  // a stem with rows for several numbers of arguments
    previous = row.name;
    for (const char* suffix : {"", "_"})
      for (const char* overload : {"", "Scalar", "ScalarList", "List", "Tensor"}) {
        const std::string name = std::string("_foreach_") + row.name + suffix;
        const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
        if (!op) continue;
        const ForeachRow* own = find_row(row.name, arguments_of(op->schema()));
        if (!own || op->schema().arguments()[0].type()->str() != "Tensor[]") continue;
        m.impl((*overload ? name + "." + overload : name).c_str(),
               torch::CppFunction::makeFromBoxedFunctor(
                   std::make_unique<ForeachKernel>(op->schema(), *own, *suffix != 0)));
      }
  }
}

}  // namespace pytorch_ocl
