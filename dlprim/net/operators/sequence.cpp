// SPDX-License-Identifier: MIT
// Sequences of tensors, and values that may be absent.
#include "../array.hpp"
#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

using Tensors = std::vector<Tensor>;

struct MapAttributes {
  explicit MapAttributes(const AttributeReader& reader) : body(reader.graph("body")) {}
  std::shared_ptr<const Graph> body;
};

struct SequenceAttributes {
  explicit SequenceAttributes(const AttributeReader& reader)
      : new_axis(reader.integer("new_axis", 0)), axis(reader.integer("axis", 0)),
        keepdims(reader.integer("keepdims", 1)) {}
  std::int64_t new_axis, axis, keepdims;
};

const SequenceAttributes& attributes_of(const Call& call) { return call.attributes<SequenceAttributes>(); }

const Tensors& sequence_of(Call& call, int i) {
  const auto& sequence = call.value(i).sequence;
  if (!sequence) call.fail("expected a sequence as input " + std::to_string(i));
  return *sequence;
}

void set_sequence(Call& call, int i, Tensors tensors) {
  call.set(i, Value{{}, std::make_shared<const Tensors>(std::move(tensors))});
}

std::int64_t position(Call& call, int i, std::size_t size, std::int64_t otherwise) {
  if (!call.has(i)) return otherwise;
  const std::int64_t at = call.read_integers(i).at(0);
  const std::int64_t from_start = at < 0 ? at + std::int64_t(size) : at;
  if (from_start < 0 || from_start > std::int64_t(size))
    call.fail("position " + std::to_string(at) + " is out of range");
  return from_start;
}

void construct(Call& call) {
  Tensors tensors;
  for (int i = 0; i < call.inputs(); i++) tensors.push_back(call.input(i));
  set_sequence(call, 0, std::move(tensors));
}

void empty(Call& call) { set_sequence(call, 0, {}); }

void length(Call& call) {
  const std::int64_t length = std::int64_t(sequence_of(call, 0).size());
  call.set(0, Tensor::from_host(DataType::int64, {}, &length));
}

void at(Call& call) {
  const Tensors& tensors = sequence_of(call, 0);
  const std::int64_t i = position(call, 1, tensors.size(), 0);
  if (i >= std::int64_t(tensors.size())) call.fail("position " + std::to_string(i) + " is out of range");
  call.set(0, tensors[std::size_t(i)]);
}

void erase(Call& call) {
  Tensors tensors = sequence_of(call, 0);
  const std::int64_t i = position(call, 1, tensors.size(), std::int64_t(tensors.size()) - 1);
  if (i < 0 || i >= std::int64_t(tensors.size())) call.fail("there is nothing to erase");
  tensors.erase(tensors.begin() + i);
  set_sequence(call, 0, std::move(tensors));
}

void insert(Call& call) {
  Tensors tensors = sequence_of(call, 0);
  tensors.insert(tensors.begin() + position(call, 2, tensors.size(), std::int64_t(tensors.size())), call.input(1));
  set_sequence(call, 0, std::move(tensors));
}

void concat_from(Call& call) {
  Tensors tensors = sequence_of(call, 0);
  if (tensors.empty()) call.fail("expected at least one tensor");
  const bool fresh = attributes_of(call).new_axis;
  const int axis = tensors[0].shape().axis(attributes_of(call).axis, fresh ? 1 : 0);
  if (fresh)
    for (Tensor& tensor : tensors) tensor = unsqueeze(tensor, axis);
  call.set(0, concat(call.queue(), tensors, axis));
}

void split_to(Call& call) {
  const Tensor& x = call.input(0);
  const int axis = x.shape().axis(attributes_of(call).axis);
  const std::int64_t size = x.shape()[axis];
  std::vector<std::int64_t> lengths(call.has(1) ? 0 : host_elements(size, "a number of parts"), 1);
  if (call.has(1)) {
    lengths = call.read_integers(1);
    if (call.input(1).shape().size() == 0) {
      const std::int64_t each = lengths.at(0);
      if (each <= 0) call.fail("expected parts of 1 or more");
      lengths.clear();
      host_elements(divide_up(size, each), "a number of parts");
      for (std::int64_t start = 0; start < size; start += each) lengths.push_back(std::min(each, size - start));
    }
  }
  Tensors parts;
  std::int64_t start = 0;
  for (std::int64_t length : lengths) {
    if (length < 0 || length > size - start)
      call.fail("parts " + Shape(lengths).text() + " do not fit " + x.shape().text());
    const bool squeeze = !call.has(1) && !attributes_of(call).keepdims;
    parts.push_back(squeeze ? select(x, axis, start) : narrow(x, axis, start, length));
    start += length;
  }
  set_sequence(call, 0, std::move(parts));
}

// Runs the body on each element of the first sequence; tensors among the other inputs are given every time.
void map(Call& call) {
  const Graph& body = *call.attributes<MapAttributes>().body;
  const std::size_t count = sequence_of(call, 0).size();
  std::vector<Tensors> results(std::size_t(call.outputs()));
  for (std::size_t i = 0; i < count; i++) {
    std::vector<Value> inputs;
    for (int k = 0; k < call.inputs(); k++) {
      const Value& value = call.value(k);
      if (value.sequence && value.sequence->size() != count) call.fail("the sequences differ in length");
      inputs.push_back({value.sequence ? (*value.sequence)[i] : value.tensor, nullptr});
    }
    const std::vector<Value> outputs = call.run(body, inputs);
    for (std::size_t k = 0; k < results.size() && k < outputs.size(); k++) results[k].push_back(outputs[k].tensor);
  }
  call.varies();
  for (std::size_t k = 0; k < results.size(); k++) set_sequence(call, int(k), std::move(results[k]));
}

void optional(Call& call) { call.set(0, call.inputs() ? call.value(0) : Value()); }

void get_element(Call& call) {
  if (!call.has(0)) call.fail("the optional is empty");
  call.set(0, call.value(0));
}

void has_element(Call& call) {
  const std::uint8_t has = call.has(0);
  call.set(0, Tensor::from_host(DataType::boolean, {}, &has));
}

}  // namespace

void sequence(Registry& registry) {
  registry.add("SequenceConstruct", construct);
  registry.add("SequenceEmpty", empty, "dtype");
  registry.add("SequenceLength", length);
  registry.add("SequenceAt", at);
  registry.add("SequenceErase", erase);
  registry.add("SequenceInsert", insert);
  registry.add<MapAttributes>("SequenceMap", map, "body");
  registry.add<SequenceAttributes>("ConcatFromSequence", concat_from, "axis new_axis");
  registry.add<SequenceAttributes>("SplitToSequence", split_to, "axis keepdims");
  registry.add("Optional", optional, "type");
  registry.add("OptionalGetElement", get_element);
  registry.add("OptionalHasElement", has_element);
}

}  // namespace dlprim::operators
