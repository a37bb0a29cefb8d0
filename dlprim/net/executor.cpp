// SPDX-License-Identifier: MIT
#include <algorithm>

#include "operator.hpp"

namespace dlprim {

Value& Executor::slot(int id) {
  if (std::size_t(id) >= values_.size()) values_.resize(std::size_t(id) + 1);
  return values_[std::size_t(id)];
}

const Value& Executor::value(int id) const {
  static const Value nothing;
  return std::size_t(id) < values_.size() ? values_[std::size_t(id)] : nothing;
}

void Executor::run(const Graph& graph) {
  const bool outer = std::exchange(random_, false);
  for (const Node& node : graph.nodes) {
    auto known = [&](int id) { return id < 0 || (value(id).data != Known::never && value(id).present()); };
    if (!std::all_of(node.outputs.begin(), node.outputs.end(), known)) run(node);
    for (int id : node.dead)
      if (value(id).data == Known::never) slot(id) = Value{value(id).tensor.released(), nullptr};
  }
  random_ |= outer;
}

void Executor::run(const Node& node) {
  with_name(node, [&] {
    if (!node.implementation) throw NotImplementedError("no such operator");
    Call call(*this, node);
    node.implementation->function(call);
    random_ |= call.random_;
  });
}

void with_name(const Node& node, const std::function<void()>& function) {
  const std::string prefix = "[" + node.type + (node.name.empty() ? "" : " '" + node.name + "'") + "] ";
  try {
    function();
  } catch (const ValidationError& error) {
    throw ValidationError(prefix + error.what());
  } catch (const NotImplementedError& error) {
    throw NotImplementedError(prefix + error.what());
  }
}

void Executor::forget_shapes() {
  for (Value& value : values_)
    if (value.data == Known::with_shapes) value = {};
}

}  // namespace dlprim
