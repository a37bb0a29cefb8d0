// SPDX-License-Identifier: MIT
#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

void to(Call& call, DataType dtype) { call.set(0, cast(call.queue(), call.input(0), dtype)); }

void cast_op(Call& call) {
  if (call.given("to") && std::holds_alternative<std::string>(call.attribute("to"))) {  // operator sets before 6
    std::string type = call.text("to", "");
    for (char& c : type) c = char(std::tolower(c));
    return to(call, parse_data_type(type));
  }
  to(call, element_type(call.integer("to", 1)));
}

void cast_like(Call& call) { to(call, call.input(1).dtype()); }

void bit_cast(Call& call) {
  call.set(0, contiguous(call.queue(), call.input(0)).reinterpreted(element_type(call.integer("to", 1))));
}

}  // namespace

void cast(Registry& registry) {
  registry.add("Cast", cast_op, "to saturate round_mode");
  registry.add("CastLike", cast_like, "saturate round_mode");
  registry.add("BitCast", bit_cast, "to");
}

}  // namespace dlprim::operators
