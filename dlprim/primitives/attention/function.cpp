// SPDX-License-Identifier: MIT
#include "function.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace dlprim {

namespace {

struct Functions {
  using Name = std::tuple<std::string, std::vector<DataType>, bool, std::string>;
  std::mutex mutex;
  std::map<Name, std::uint32_t> numbers;
  std::deque<const Name*> names;
};

Functions& functions() {
  static auto* all = new Functions;
  return *all;
}

}  // namespace

std::uint32_t number_of(const AttentionFunction& function) {
  Functions& all = functions();
  std::vector<DataType> types;
  for (const TensorView& tensor : function.tensors) types.push_back(tensor.dtype);
  Functions::Name name{function.text, std::move(types), function.bends, function.slope};
  const std::lock_guard guard(all.mutex);
  const auto [found, is_new] = all.numbers.emplace(std::move(name), std::uint32_t(all.names.size() + 1));
  if (is_new) all.names.push_back(&found->first);
  return found->second;
}

void define_function(KernelSource& source, std::uint32_t number) {
  Functions& all = functions();
  const std::unique_lock guard(all.mutex);
  const auto& [text, types, bends, slope] = *all.names[number - 1];
  std::string arguments, members, pointers;
  for (std::size_t i = 0; i < types.size(); i++) {
    const std::string type = std::string("STORAGE(") + tag(types[i]) + ")", name = "x" + std::to_string(i);
    arguments += "CONST_GLOBAL(" + type + ", " + name + "), ";
    members += " __global const " + type + " *" + name + ";";
    pointers += ", CONST_POINTER(" + type + ", " + name + ")";
  }
  source.define("BIAS_FUNCTION", text).define("BIAS_TENSORS", arguments).define("BIAS_MEMBERS", members);
  source.define("BIAS_POINTERS", pointers).define("BENDS", bends);
  if (!slope.empty()) source.define("BIAS_SLOPE", slope);
}

}  // namespace dlprim
