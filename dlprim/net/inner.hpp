// SPDX-License-Identifier: MIT
// Operators that others run inside of them.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <type_traits>

#include "operator.hpp"

namespace dlprim {

/// An operator of ONNX's main domain with its attributes read: made once, by the attributes of the operator around it or
/// as a constant of the code, and run often. Copies share what was read.
class Inner {
 public:
  using Attributes = std::map<std::string, Attribute>;
  /// What operators are written for where a node's version does not say it.
  static constexpr std::int64_t newest = 23;

  explicit Inner(const char* type, Attributes attributes = {}, std::int64_t version = newest);
  /// A node's own operator.
  explicit Inner(const AttributeReader& reader)
      : Inner(reader.node().type.c_str(), reader.node().attributes, reader.node().version) {}

  /// The node, without inputs, outputs and names of attributes.
  const Node& node() const noexcept;
  /// The same in training, with as many outputs as its gradient reads; set up when it is first asked for.
  const Node& training_node() const;
  /// Whether one is a copy of the other.
  bool operator==(const Inner&) const = default;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

namespace detail {

/// A text as an argument of a template.
template <std::size_t size>
struct Literal {
  consteval Literal(const char (&from)[size]) { std::copy_n(from, size, text); }
  char text[size]{};
};

inline Attribute as_attribute(std::int64_t value) { return value; }
inline Attribute as_attribute(const std::vector<std::int64_t>& value) { return value; }
inline Attribute as_attribute(DataType value) { return std::string(name(value)); }

}  // namespace detail

/// An operator without attributes: "Add"_op.
template <detail::Literal type>
const Inner& operator""_op() {
  static const Inner made(type.text);
  return made;
}

/// An operator with one attribute, which depends on tensors: made for each value that is asked for, and kept.
template <detail::Literal type, detail::Literal attribute, class Value = std::int64_t>
const Inner& inner(const std::type_identity_t<Value>& value) {
  static std::mutex mutex;
  static std::map<Value, Inner> made;
  std::lock_guard guard(mutex);
  const auto it = made.find(value);
  if (it != made.end()) return it->second;
  return made.emplace(value, Inner(type.text, {{attribute.text, detail::as_attribute(value)}})).first->second;
}

}  // namespace dlprim
