// SPDX-License-Identifier: MIT
// The _foreach_* operators on lists of tensors: one kernel for all of them, by rows of the pointwise table.
// Lists that differ in dtype, layout or device take PyTorch's composite loop over single tensors.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/primitives/pointwise_code.hpp>
#include <torch/library.h>

#include "generated/functions/tensor.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::PointwiseId;

// An operator as a row of dlprim's pointwise table: what the row's x0, x1, ... and, behind a bar, w0, w1, ... are, by
// letters for the arguments in the order of the schema (`a` is self), or digits for numbers.
struct ForeachRow {
  const char* name;
  int arguments;  // operands, scalars included
  PointwiseId row;
  const char* operands;
};

constexpr ForeachRow rows[] = {
#define UNARY(name) {#name, 1, PointwiseId::name, "a"}
    UNARY(abs),
    UNARY(acos),
    UNARY(asin),
    UNARY(atan),
    UNARY(ceil),
    UNARY(cos),
    UNARY(cosh),
    UNARY(erf),
    UNARY(erfc),
    UNARY(exp),
    UNARY(expm1),
    UNARY(floor),
    UNARY(frac),
    UNARY(log),
    UNARY(log10),
    UNARY(log1p),
    UNARY(log2),
    UNARY(neg),
    UNARY(reciprocal),
    UNARY(round),
    UNARY(rsqrt),
    UNARY(sigmoid),
    UNARY(sign),
    UNARY(sin),
    UNARY(sinh),
    UNARY(sqrt),
    UNARY(tan),
    UNARY(tanh),
    UNARY(trunc),
#undef UNARY
    {"zero", 1, PointwiseId::fill, "|0"},
    {"copy", 2, PointwiseId::copy, "b"},
    {"add", 2, PointwiseId::add, "ab|1"},
    {"add", 3, PointwiseId::add, "ab|c"},
    {"sub", 2, PointwiseId::sub, "ab|1"},
    {"sub", 3, PointwiseId::sub, "ab|c"},
    {"mul", 2, PointwiseId::mul, "ab"},
    {"div", 2, PointwiseId::div_true, "ab"},
    {"pow", 2, PointwiseId::pow_tensor_tensor, "ab"},
    {"maximum", 2, PointwiseId::maximum, "ab"},
    {"minimum", 2, PointwiseId::minimum, "ab"},
    {"clamp_min", 2, PointwiseId::maximum, "ab"},
    {"clamp_max", 2, PointwiseId::minimum, "ab"},
    {"addcmul", 4, PointwiseId::addcmul, "abc|d"},
    {"addcdiv", 4, PointwiseId::addcdiv, "abc|d"},
    {"lerp", 3, PointwiseId::lerp_tensor, "abc"},
};

// The statement that sets `result` to the row's value of variables called as the letters.
std::string code_of(const ForeachRow& row, const std::string& result) {
  std::vector<std::string> inputs, scalars;
  std::vector<std::string>* operands = &inputs;
  for (const char* letter = row.operands; *letter; letter++) {
    if (*letter == '|') operands = &scalars;
    else operands->emplace_back(1, *letter);
  }
  return dlprim::assign_row(row.row, result, inputs, scalars);
}

const ForeachRow* find_row(std::string_view name, int arguments) {
  for (const ForeachRow& row : rows)
    if (name == row.name && row.arguments == arguments) return &row;
  return nullptr;
}

// What an operator was called with, in the order of its schema, as dlprim takes it. Each add() says whether lists,
// numbers or tensors fit: the same dtype, device and layout as the first list. What is written in
// place must not overlap a part of what is read, as PyTorch's single operators demand.
class Operands {
 public:
  Operands(at::TensorList like, bool in_place) : like_(like), first_(like[0]), in_place_(in_place) {}

  bool add(at::TensorList list) {
    if (list.size() != like_.size()) return false;
    auto& buffers = lists.emplace_back();
    buffers.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); i++) {
      const at::Tensor& tensor = list[i];
      if (tensor.scalar_type() != first_.scalar_type() || tensor.device() != first_.device() ||
          tensor.layout() != at::kStrided || !tensor.is_non_overlapping_and_dense() || !same_layout(tensor, like_[i]))
        return false;
      if (in_place_) at::assert_no_partial_overlap(like_[i], tensor);
      buffers.push_back(buffer_of(tensor));
    }
    return true;
  }
  bool add(const at::Tensor& tensor) {
    if (tensor.dim() != 0 || tensor.device() != first_.device() || tensor.scalar_type() != first_.scalar_type())
      return false;
    singles.emplace_back(like_.size(), buffer_of(tensor));
    return true;
  }
  bool add(const at::Scalar& scalar) { return add_number(scalar, scalars); }
  bool add(at::ArrayRef<at::Scalar> numbers) {
    for (const at::Scalar& scalar : numbers)
      if (!add_number(scalar, tensor_scalars)) return false;
    return numbers.size() == like_.size();
  }
  bool add(bool /*non_blocking*/) { return true; }

  std::vector<std::vector<dlprim::BufferRef>> lists, singles;
  std::vector<double> scalars, tensor_scalars;  // of the whole list, of each tensor

 private:
  static bool add_number(const at::Scalar& scalar, std::vector<double>& numbers) {
    if (scalar.isComplex() || scalar.isBoolean()) return false;  // of bools, some operators raise
    numbers.push_back(scalar.toDouble());
    return true;
  }
  at::TensorList like_;
  const at::Tensor& first_;
  bool in_place_;
};

enum class Kind : char { list = 'L', tensor = 'T', scalar = 'S', scalars = 'N', flag = 'B' };

// One operator: what its arguments are and the code they lead to, known once it is registered.
class ForeachKernel {
 public:
  ForeachKernel(c10::OperatorHandle op, const ForeachRow& row, bool in_place)
      : op_(std::move(op)), in_place_(in_place), moves_(row.row == PointwiseId::copy || row.row == PointwiseId::fill),
        code_(row.name, "", "", true) {
    int lists = 0, scalars = 0, letters = 0;
    for (const c10::Argument& argument : op_.schema().arguments()) {
      const std::string type = argument.type()->str();
      kinds_ += char(type == "Tensor[]"     ? Kind::list
                     : type == "Tensor"     ? Kind::tensor
                     : type == "bool"       ? Kind::flag
                     : type.ends_with("[]") ? Kind::scalars
                                            : Kind::scalar);
      lists += type == "Tensor[]";
    }
    int tensors = lists;
    lists = 0;
    for (const char kind : kinds_) {
      if (Kind(kind) == Kind::flag) continue;
      const std::string source = Kind(kind) == Kind::list     ? "x" + std::to_string(lists++)
                                 : Kind(kind) == Kind::tensor ? "x" + std::to_string(tensors++)
                                 : Kind(kind) == Kind::scalar ? "s" + std::to_string(scalars++)
                                                              : "t0";
      code_.each += std::string("const T ") + char('a' + letters++) + " = " + source + "; ";
    }
    code_.each += code_of(row, "x" + (in_place ? "0" : std::to_string(tensors)));
  }

  // The kinds of the arguments, a letter each.
  const std::string& kinds() const { return kinds_; }

  // The results; none in place. What only the composite takes goes there.
  template <class... Arguments>
  std::vector<at::Tensor> operator()(at::TensorList self, Arguments... arguments) const {
    if (in_place_) make_own(self);
    if (!self.empty() && serves(self[0].scalar_type())) {
      Operands operands(self, in_place_);
      if (operands.add(self) && (operands.add(arguments) && ...)) return run(self, operands);
    }
    torch::jit::Stack stack = c10::impl::boxArgs(self, arguments...);
    op_.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, stack);
    return in_place_ ? std::vector<at::Tensor>() : stack[0].toTensorVector();
  }

 private:
  bool serves(at::ScalarType type) const {
    return at::isFloatingType(type) || (moves_ && at::elementSize(type) <= sizeof(std::int64_t));
  }

  // Bits that are moved are integers.
  dlprim::DataType compute_type(at::ScalarType type) const {
    if (!moves_) return data_type_of(type, code_.name.c_str());
    switch (at::elementSize(type)) {
      case 1: return dlprim::DataType::uint8;
      case 2: return dlprim::DataType::int16;
      case 4: return dlprim::DataType::int32;
      default: return dlprim::DataType::int64;
    }
  }

  std::vector<at::Tensor> run(at::TensorList like, const Operands& operands) const {
    const at::Tensor& first = like[0];
    const c10::DeviceGuard guard(first.device());
    std::vector<at::Tensor> results;
    std::vector<std::int64_t> sizes;
    std::vector<dlprim::BufferRef> outputs;
    sizes.reserve(like.size());
    if (!in_place_) results.reserve(like.size()), outputs.reserve(like.size());
    for (const at::Tensor& tensor : like) {
      sizes.push_back(tensor.numel());
      if (in_place_) continue;
      results.push_back(
          ops::empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), {}, tensor.device(), {}));
      outputs.push_back(buffer_of(results.back()));
    }
    const dlprim::DataType dtype = compute_type(first.scalar_type());
    std::vector<dlprim::ForeachList> lists;
    for (const auto& list : operands.lists) lists.push_back({list, dtype, dlprim::ForeachMode::read});
    for (const auto& single : operands.singles) lists.push_back({single, dtype, dlprim::ForeachMode::broadcast});
    if (in_place_) lists[0].mode = dlprim::ForeachMode::update;
    else lists.push_back({outputs, dtype, dlprim::ForeachMode::write});
    dlprim::foreach(current_queue(), code_, dtype, sizes, lists, operands.scalars, operands.tensor_scalars);
    return results;
  }

  c10::OperatorHandle op_;
  bool in_place_, moves_;
  std::string kinds_;
  dlprim::ForeachCode code_;
};

template <class... Arguments>
bool implement_as(torch::Library& m, const char* name, const char* kinds, const ForeachKernel& kernel, bool in_place) {
  if (kernel.kinds() != kinds) return false;
  if (in_place) m.impl(name, [kernel](at::TensorList self, Arguments... rest) -> void { kernel(self, rest...); });
  else m.impl(name, [kernel](at::TensorList self, Arguments... rest) { return kernel(self, rest...); });
  return true;
}

// Registers a kernel under the one of the signatures that its arguments spell. Others, of a PyTorch to come, are left
// to the composite.
bool implement(torch::Library& m, const char* name, const ForeachKernel& kernel, bool in_place) {
  using List = at::TensorList;
  using Number = const at::Scalar&;
  using Numbers = at::ArrayRef<at::Scalar>;
  using Tensor = const at::Tensor&;
  return implement_as<>(m, name, "L", kernel, in_place) || implement_as<List>(m, name, "LL", kernel, in_place) ||
         implement_as<List, bool>(m, name, "LLB", kernel, in_place) ||
         implement_as<Number>(m, name, "LS", kernel, in_place) ||
         implement_as<Numbers>(m, name, "LN", kernel, in_place) ||
         implement_as<Tensor>(m, name, "LT", kernel, in_place) ||
         implement_as<Tensor, Number>(m, name, "LTS", kernel, in_place) ||
         implement_as<List, Number>(m, name, "LLS", kernel, in_place) ||
         implement_as<List, Numbers>(m, name, "LLN", kernel, in_place) ||
         implement_as<List, List>(m, name, "LLL", kernel, in_place) ||
         implement_as<List, List, Number>(m, name, "LLLS", kernel, in_place) ||
         implement_as<List, List, Numbers>(m, name, "LLLN", kernel, in_place) ||
         implement_as<List, List, Tensor>(m, name, "LLLT", kernel, in_place);
}

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
        const std::string full = *overload ? name + "." + overload : name;
        implement(m, full.c_str(), ForeachKernel(*op, *own, *suffix != 0), *suffix != 0);
      }
  }
}

}  // namespace pytorch_ocl
