// SPDX-License-Identifier: MIT
#include <dlprim/net/profile.hpp>

#include <algorithm>
#include <mutex>
#include <new>

#include "operator.hpp"

namespace dlprim {

namespace {

// Names of operators that were profiled; Profiler::correlation is `first` and their place here.
struct Labels {
  static constexpr std::uint64_t first = std::uint64_t(1) << 62;
  std::mutex mutex;
  std::map<std::string, std::uint64_t> numbers;
  std::vector<std::string> names;
  std::uint64_t number(const std::string& name) {
    std::lock_guard guard(mutex);
    const auto [it, is_new] = numbers.try_emplace(name, first + names.size());
    if (is_new) names.push_back(name);
    return it->second;
  }
};

Labels& labels() {
  static Labels instance;
  return instance;
}

}  // namespace

std::string profiled_operator(const ProfiledCommand& command) {
  Labels& all = labels();
  std::lock_guard guard(all.mutex);
  const std::uint64_t i = command.correlation - Labels::first;
  return command.correlation >= Labels::first && i < all.names.size() ? all.names[i] : "";
}

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
    // Nodes of networks are set up; one that runs for itself, while loading, is not.
    const bool late = node.implementation->parse && !node.parsed.has_value();
    const std::any parsed = late ? node.implementation->parse(AttributeReader(node)) : std::any();
    Call call(*this, node, late ? parsed : node.parsed);
    node.implementation->function(call);
    random_ |= call.random_;
  });
}

void with_name(const Node& node, const std::function<void()>& function) {
  // Texts are made for errors and profilers only.
  const auto label = [&] { return node.type + (node.name.empty() ? "" : " '" + node.name + "'"); };
  const auto named = [&](const std::string& text) { return "[" + label() + "] " + text; };
  if (Profiler::enabled()) Profiler::correlation = labels().number(label());
  try {
    function();
  } catch (const ValidationError& error) {
    throw ValidationError(named(error.what()));
  } catch (const NotImplementedError& error) {
    throw NotImplementedError(named(error.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(named("the host's memory is exhausted"));
  } catch (const std::exception& error) {  // a value that is missing or out of range
    throw ValidationError(
        named(std::string("expected inputs and attributes that fit each other (") + error.what() + ")"));
  }
}

void Executor::forget_shapes() {
  for (Value& value : values_)
    if (value.data == Known::with_shapes) value = {};
}

}  // namespace dlprim
