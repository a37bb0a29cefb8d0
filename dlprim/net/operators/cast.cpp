// SPDX-License-Identifier: MIT
#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// Names of types are for operator sets before 6.
DataType type_of(const AttributeReader& reader) {
  const auto attribute = reader.node().attributes.find("to");
  if (attribute == reader.node().attributes.end() || !std::holds_alternative<std::string>(attribute->second))
    return element_type(reader.integer("to", 1));
  std::string name = std::get<std::string>(attribute->second);
  for (char& c : name) c = char(std::tolower(c));
  return parse_data_type(name);
}

struct CastAttributes {
  explicit CastAttributes(const AttributeReader& reader) : to(type_of(reader)) {}
  DataType to;
};

void to(Call& call, DataType dtype) { call.set(0, cast(call.queue(), call.input(0), dtype)); }

void cast_op(Call& call) { to(call, call.attributes<CastAttributes>().to); }

void cast_like(Call& call) { to(call, call.input(1).dtype()); }

void bit_cast(Call& call) {
  call.set(0, contiguous(call.queue(), call.input(0)).reinterpreted(call.attributes<CastAttributes>().to));
}

}  // namespace

void cast(Registry& registry) {
  registry.add<CastAttributes>("Cast", cast_op, "to saturate round_mode");
  registry.add("CastLike", cast_like, "saturate round_mode");
  registry.add<CastAttributes>("BitCast", bit_cast, "to");
}

}  // namespace dlprim::operators
