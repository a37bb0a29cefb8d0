// SPDX-License-Identifier: MIT
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "fuzz.hpp"
#include "onnx.pb.h"

namespace dlprim::fuzz {

std::int64_t Dice::number() {
  constexpr std::int64_t odd[] = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  -1,
                                  -2,
                                  -3,
                                  63,
                                  64,
                                  255,
                                  1000,
                                  65536,
                                  1 << 20,
                                  (1LL << 31) - 1,
                                  1LL << 31,
                                  -(1LL << 31),
                                  1LL << 32,
                                  1LL << 33,
                                  1LL << 40,
                                  1LL << 46,
                                  1LL << 61,
                                  -(1LL << 62),
                                  3037000500,
                                  1LL << 62,
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min()};
  if (one_in(3)) return std::int64_t(below(12)) - 3;
  return one_in(6) ? std::int64_t(engine_()) : odd[below(std::size(odd))];
}

std::string mutate_bytes(std::string contents, Dice& dice) {
  for (std::size_t times = 1 + dice.below(4); times-- && !contents.empty();) {
    const std::size_t at = dice.below(contents.size()),
                      length = 1 + dice.below(std::min<std::size_t>(64, contents.size() - at));
    switch (dice.below(6)) {
      case 0: contents[at] = char(contents[at] ^ (1 << dice.below(8))); break;
      case 1: contents[at] = char(dice.below(256)); break;
      case 2: contents.resize(at); break;
      case 3: contents.erase(at, length); break;
      case 4: contents.insert(at, contents.substr(dice.below(contents.size()), length)); break;
      default: contents.replace(at, length, contents.substr(dice.below(contents.size()), length));
    }
  }
  return contents;
}

namespace {

using onnx_format::Attribute, onnx_format::Graph, onnx_format::Model, onnx_format::Node, onnx_format::Tensor,
    onnx_format::ValueInfo;

template <class List>
auto* any(List* list, Dice& dice) {
  return list->size() ? list->Mutable(int(dice.below(std::size_t(list->size())))) : nullptr;
}

// A name that some value has.
std::string any_value(Graph* graph, Dice& dice) {
  Node* node = any(graph->mutable_node(), dice);
  if (node && dice.one_in(2) && node->output_size())
    return node->output(int(dice.below(std::size_t(node->output_size()))));
  if (auto* tensor = any(graph->mutable_initializer(), dice); tensor && dice.one_in(2)) return tensor->name();
  auto* input = any(graph->mutable_input(), dice);
  return input && !dice.one_in(8) ? input->name() : dice.one_in(2) ? "" : "nowhere";
}

// A size, or what is no number in range.
double any_real(Dice& dice) {
  constexpr double odd[] = {0,
                            -1,
                            1e-300,
                            1e300,
                            1e19,
                            -1e19,
                            3.5,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  return dice.one_in(2) ? odd[dice.below(std::size(odd))] : double(dice.number());
}

// Sizes and contents that fit each other, as far as they are small.
void resize(Tensor* tensor, Dice& dice) {
  if (tensor->dims_size() && !dice.one_in(4))
    tensor->set_dims(int(dice.below(std::size_t(tensor->dims_size()))), std::int64_t(dice.below(6)));
  else if (tensor->dims_size() && dice.one_in(2)) tensor->mutable_dims()->RemoveLast();
  else tensor->add_dims(std::int64_t(dice.below(3)));
  std::size_t elements = 1;
  for (std::int64_t size : tensor->dims()) elements *= std::size_t(size);
  if (elements > 100000) return;
  if (tensor->int64_data_size()) tensor->mutable_int64_data()->Resize(int(elements), 1);
  else if (tensor->float_data_size()) tensor->mutable_float_data()->Resize(int(elements), 0.5f);
  else tensor->mutable_raw_data()->resize(elements * (tensor->data_type() == 7 ? 8 : 4));
}

void set_number(Tensor* tensor, Dice& dice) {
  if (tensor->int64_data_size()) {
    tensor->set_int64_data(int(dice.below(std::size_t(tensor->int64_data_size()))), dice.number());
  } else if (tensor->float_data_size()) {
    tensor->set_float_data(int(dice.below(std::size_t(tensor->float_data_size()))), float(any_real(dice)));
  } else if (const std::size_t count = tensor->raw_data().size() / 8) {
    const std::int64_t number = dice.number();
    std::memcpy(tensor->mutable_raw_data()->data() + 8 * dice.below(count), &number, 8);
    const auto real = float(any_real(dice));
    if (tensor->data_type() == 1) std::memcpy(tensor->mutable_raw_data()->data() + 4 * dice.below(2 * count), &real, 4);
  }
}

void mutate_tensor(Tensor* tensor, Dice& dice) {
  constexpr const char* places[] = {"../../x", "file", "folder",         "pipe",
                                    "link",    "away", "folder/../file", "/etc/passwd"};
  switch (dice.below(10)) {
    case 0: tensor->add_dims(dice.number()); break;
    case 1:
      if (tensor->dims_size()) tensor->set_dims(int(dice.below(std::size_t(tensor->dims_size()))), dice.number());
      break;
    case 2: tensor->set_data_type(std::int32_t(dice.below(28))); break;
    case 3: {
      tensor->set_data_location(1);
      auto* place = tensor->add_external_data();
      place->set_key(dice.one_in(3) ? "offset" : "location"),
          place->set_value(dice.one_in(3) ? std::to_string(dice.number()) : places[dice.below(std::size(places))]);
      break;
    }
    case 4:
    case 5:
    case 6: resize(tensor, dice); break;
    default: set_number(tensor, dice);
  }
}

void mutate_graph(Graph* graph, Dice& dice, int depth);

void mutate_attribute(Attribute* a, Dice& dice, int depth) {
  if (a->has_g() && depth < 3 && !dice.one_in(4)) return mutate_graph(a->mutable_g(), dice, depth + 1);
  if (a->has_t() && !dice.one_in(4)) return mutate_tensor(a->mutable_t(), dice);
  if (a->ints_size() && !dice.one_in(3))
    return a->set_ints(int(dice.below(std::size_t(a->ints_size()))), dice.number());
  if (a->has_i() && !dice.one_in(3)) return a->set_i(dice.number());
  switch (dice.below(6)) {
    case 0: a->set_type(std::int32_t(dice.below(16))); break;
    case 1: a->set_i(dice.number()); break;
    case 2: a->set_f(float(any_real(dice))); break;
    case 3: a->add_ints(dice.number()); break;
    case 4:
      if (a->ints_size()) a->mutable_ints()->RemoveLast();
      break;
    default: a->set_s(mutate_bytes(a->s(), dice));
  }
}

void mutate_node(Graph* graph, Node* node, Dice& dice, int depth) {
  constexpr const char* types[] = {"Conv",  "Reshape", "Loop",   "If",        "Gather",    "Resize",    "TopK",
                                   "Range", "Concat",  "MatMul", "Pad",       "LSTM",      "Attention", "Expand",
                                   "Slice", "NonZero", "OneHot", "ScatterND", "Unsqueeze", "NoSuch"};
  switch (dice.below(10)) {
    case 0:
      if (node->input_size()) node->set_input(int(dice.below(std::size_t(node->input_size()))), any_value(graph, dice));
      break;
    case 1: node->add_input(any_value(graph, dice)); break;
    case 2:
      if (node->input_size()) node->mutable_input()->RemoveLast();
      break;
    case 3: node->add_output("extra" + std::to_string(dice.below(3))); break;
    case 4:
      if (node->output_size()) node->set_output(0, any_value(graph, dice));
      break;
    case 5:
      if (Node* other = any(graph->mutable_node(), dice); other && dice.one_in(2)) node->set_op_type(other->op_type());
      else node->set_op_type(types[dice.below(std::size(types))]);
      break;
    default:
      if (auto* a = any(node->mutable_attribute(), dice)) mutate_attribute(a, dice, depth);
  }
}

void mutate_value(ValueInfo* value, Dice& dice) {
  auto* tensor = value->mutable_type()->mutable_tensor_type();
  switch (dice.below(7)) {
    case 0: tensor->set_elem_type(std::int32_t(dice.below(28))); break;
    case 1: tensor->mutable_shape()->add_dim()->set_dim_value(dice.number()); break;
    case 2: tensor->clear_shape(); break;
    case 3:
      if (auto* dim = any(tensor->mutable_shape()->mutable_dim(), dice)) dim->set_dim_value(dice.number());
      break;
    case 4:
      if (tensor->mutable_shape()->dim_size()) tensor->mutable_shape()->mutable_dim()->RemoveLast();
      break;
    default:
      if (auto* dim = any(tensor->mutable_shape()->mutable_dim(), dice))
        dim->set_dim_value(std::int64_t(dice.below(6)));
  }
}

void mutate_graph(Graph* graph, Dice& dice, int depth) {
  Node* node = any(graph->mutable_node(), dice);
  switch (dice.below(10)) {
    case 0:
    case 4:
      if (auto* value = any(graph->mutable_input(), dice)) mutate_value(value, dice);
      break;
    case 1:
    case 5:
      if (auto* tensor = any(graph->mutable_initializer(), dice)) mutate_tensor(tensor, dice);
      break;
    case 2:
      if (node && dice.one_in(4)) graph->mutable_node()->SwapElements(0, graph->node_size() - 1);
      else if (node) *graph->add_node() = Node(*node);
      break;
    case 3:
      if (dice.one_in(3) && graph->initializer_size()) graph->mutable_initializer()->RemoveLast();
      else if (dice.one_in(2) && graph->input_size()) graph->mutable_input()->RemoveLast();
      else if (node) graph->mutable_node()->RemoveLast();
      break;
    default:
      if (node) mutate_node(graph, node, dice, depth);
  }
}

// Every place in a JSON document.
void collect(nlohmann::json& value, std::vector<nlohmann::json*>& places) {
  places.push_back(&value);
  if (value.is_structured())
    for (auto& element : value) collect(element, places);
}

}  // namespace

// Functions that call the next one several times.
void add_functions(Model* model, Dice& dice) {
  const std::size_t depth = 1 + dice.below(50), calls = 1 + dice.below(4);
  for (std::size_t i = 0; i < depth; i++) {
    auto* function = model->add_functions();
    function->set_domain("d"), function->set_name("f" + std::to_string(i));
    function->add_input("v0"), function->add_output("v" + std::to_string(calls));
    for (std::size_t k = 0; k < calls; k++) {
      Node* node = function->add_node();
      const bool last = i + 1 == depth && !dice.one_in(10);
      node->set_op_type(last ? "Relu" : "f" + std::to_string((i + 1) % depth)), node->set_domain(last ? "" : "d");
      node->add_input("v" + std::to_string(k)), node->add_output("v" + std::to_string(k + 1));
    }
  }
  Graph* graph = model->mutable_graph();
  if (Node* node = any(graph->mutable_node(), dice)) node->set_op_type("f0"), node->set_domain("d");
}

void add_sparse(Graph* graph, Dice& dice) {
  auto* sparse = graph->add_sparse_initializer();
  sparse->mutable_values()->set_name(any_value(graph, dice)), sparse->mutable_values()->set_data_type(1);
  sparse->mutable_values()->add_dims(1), sparse->mutable_values()->add_float_data(1);
  sparse->mutable_indices()->set_data_type(7), sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(dice.number());
  for (std::size_t d = 1 + dice.below(2); d--;) sparse->add_dims(dice.number());
}

std::string mutate_onnx(const std::string& contents, Dice& dice) {
  Model model;
  if (dice.one_in(6) || !model.ParseFromString(contents)) return mutate_bytes(contents, dice);
  for (std::size_t times = dice.one_in(4) ? 3 : 1; times--;) mutate_graph(model.mutable_graph(), dice, 0);
  if (dice.one_in(20)) add_functions(&model, dice);
  if (dice.one_in(20)) add_sparse(model.mutable_graph(), dice);
  if (dice.one_in(12) && model.opset_import_size()) model.mutable_opset_import(0)->set_version(dice.number());
  return model.SerializeAsString();
}

std::string mutate_json(const std::string& contents, Dice& dice) {
  auto json = nlohmann::json::parse(contents, nullptr, false, true);
  if (dice.one_in(6) || json.is_discarded()) return mutate_bytes(contents, dice);
  for (std::size_t times = dice.one_in(4) ? 3 : 1; times--;) {
    std::vector<nlohmann::json*> places;
    collect(json, places);
    nlohmann::json& place = *places[dice.below(places.size())];
    const nlohmann::json other = *places[dice.below(places.size())];
    switch (dice.below(7)) {
      case 0: place = dice.number(); break;
      case 1: place = other; break;
      case 2:
        if (place.is_structured() && !place.empty())
          place.erase(std::next(place.begin(), std::ptrdiff_t(dice.below(place.size()))));
        break;
      case 3:
        if (place.is_array()) place.push_back(other);
        else if (place.is_object()) place["unknown"] = other;
        break;
      case 4: place = any_real(dice) * 0.37; break;
      case 5:
        if (place.is_string()) place = mutate_bytes(place.get<std::string>(), dice);
        break;
      default:
        if (place.is_number()) place = dice.number();
        else place = nullptr;
    }
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string mutate_parameters(const std::string& contents, Dice& dice) {
  const bool dlp = contents.starts_with("DLPW");
  const std::size_t begin = contents.find('{'), end = contents.rfind('}');
  if (contents.starts_with("\x89HDF") || dice.one_in(3) || begin == std::string::npos || end <= begin)
    return mutate_bytes(contents, dice);
  const std::string header = mutate_json(contents.substr(begin, end + 1 - begin), dice);
  std::string length(dlp ? 4 : 8, '\0');
  std::uint64_t size = dice.one_in(8) ? std::uint64_t(dice.number()) : header.size();
  for (std::size_t i = 0; i < length.size(); i++, size >>= 8)
    length[dlp ? length.size() - 1 - i : i] = char(size & 255);
  return (dlp ? "DLPW" : "") + length + header + contents.substr(end + 1);
}

}  // namespace dlprim::fuzz
