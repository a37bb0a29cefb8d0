// SPDX-License-Identifier: MIT
// If, Loop and Scan run inner graphs. Conditions and trip counts are read on the host.
#include "../array.hpp"
#include "../control.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

void if_op(Call& call) {
  const auto condition = call.read_integers(0);
  if (condition.size() != 1) call.fail("expected one condition");
  const std::vector<Value> results = call.run(*call.attributes<IfAttributes>().branches[condition[0] ? 0 : 1], {});
  for (int i = 0; i < call.outputs() && i < int(results.size()); i++) call.set(i, results[std::size_t(i)]);
}

constexpr std::int64_t most_trips = 1 << 16;  // files may ask for loops without end

bool truth(Queue& queue, const Value& value) {
  return !value.tensor.defined() || to_integers(queue, value.tensor).at(0);
}

// Collected results of all iterations, joined along a new axis.
Tensor stacked(Queue& queue, const std::vector<Tensor>& parts, int axis) {
  std::vector<Tensor> slices;
  for (const Tensor& part : parts) slices.push_back(unsqueeze(part, part.shape().axis(axis, 1)));
  return concat(queue, slices, parts[0].shape().axis(axis, 1));
}

void loop(Call& call) {
  const Graph& body = *call.attributes<LoopAttributes>().body;
  const std::int64_t trips = call.has(0) ? call.read_integers(0).at(0) : std::numeric_limits<std::int64_t>::max();
  bool go_on = !call.has(1) || call.read_integers(1).at(0);
  const std::size_t carried = std::size_t(std::max(0, call.inputs() - 2));
  if (body.outputs.size() < carried + 1 || body.inputs.size() != carried + 2)
    call.fail("the body does not take and give the loop's values");
  std::vector<Value> state;
  for (std::size_t i = 0; i < carried; i++) state.push_back(call.value(int(i) + 2));
  std::vector<std::vector<Tensor>> scanned(body.outputs.size() - carried - 1);
  for (std::int64_t i = 0; i < trips && go_on; i++) {
    if (i == most_trips) call.fail("expected at most " + std::to_string(most_trips) + " trips");
    const std::uint8_t yes = 1;
    std::vector<Value> inputs{{Tensor::from_host(DataType::int64, {}, &i), nullptr},
                              {Tensor::from_host(DataType::boolean, {}, &yes), nullptr}};
    inputs.insert(inputs.end(), state.begin(), state.end());
    std::vector<Value> results = call.run(body, inputs);
    go_on = truth(call.queue(), results[0]);
    for (std::size_t k = 0; k < carried; k++) state[k] = std::move(results[k + 1]);
    for (std::size_t k = 0; k < scanned.size(); k++) scanned[k].push_back(results[k + carried + 1].tensor);
  }
  call.varies();
  for (std::size_t k = 0; k < carried; k++) call.set(int(k), state[k]);
  for (std::size_t k = 0; k < scanned.size(); k++) {
    if (!call.wants(int(k + carried))) continue;
    if (scanned[k].empty()) call.fail("a loop that never runs has no sizes for its collected outputs");
    call.set(int(k + carried), stacked(call.queue(), scanned[k], 0));
  }
}

// One pass over the sequences; the inputs begin at `first`.
std::vector<Tensor> scan_sequences(Call& call, std::vector<Value> state, const std::vector<Tensor>& sequences,
                                   const std::vector<std::int64_t>& axes) {
  const auto& attributes = call.attributes<ScanAttributes>();
  const Graph& body = *attributes.body;
  const std::vector<std::int64_t>&directions = attributes.input_directions, &out_axes = attributes.output_axes,
        &out_directions = attributes.output_directions;
  auto at = [](const std::vector<std::int64_t>& list, std::size_t i) { return i < list.size() ? list[i] : 0; };
  if (sequences.empty() || body.inputs.size() != state.size() + sequences.size() || body.outputs.size() < state.size())
    call.fail("the body does not take and give the scan's values");
  const std::int64_t length = sequences[0].shape()[sequences[0].shape().axis(axes[0])];
  std::vector<std::vector<Tensor>> scanned(body.outputs.size() - state.size());
  for (std::int64_t t = 0; t < length; t++) {
    std::vector<Value> inputs = state;
    for (std::size_t k = 0; k < sequences.size(); k++) {
      const int axis = sequences[k].shape().axis(axes[k]);
      if (sequences[k].shape()[axis] != length) call.fail("the sequences differ in length");
      inputs.push_back({select(sequences[k], axis, at(directions, k) ? length - 1 - t : t), nullptr});
    }
    std::vector<Value> results = call.run(body, inputs);
    for (std::size_t k = 0; k < state.size(); k++) state[k] = std::move(results[k]);
    for (std::size_t k = 0; k < scanned.size(); k++) scanned[k].push_back(results[k + state.size()].tensor);
  }
  std::vector<Tensor> outputs;
  for (const Value& value : state) outputs.push_back(value.tensor);
  for (std::size_t k = 0; k < scanned.size(); k++) {
    if (scanned[k].empty()) call.fail("a scan over nothing has no sizes for its outputs");
    if (at(out_directions, k)) std::reverse(scanned[k].begin(), scanned[k].end());
    outputs.push_back(stacked(call.queue(), scanned[k], int(at(out_axes, k))));
  }
  return outputs;
}

void scan(Call& call) {
  const bool batched = call.version() < 9;  // a first input of lengths, and a batch in every tensor
  const int first = batched ? 1 : 0;
  if (batched && call.has(0)) call.fail("sequence_lens is not supported");
  const int sequences = int(call.attributes<ScanAttributes>().inputs), states = call.inputs() - first - sequences;
  if (sequences < 1 || states < 0) call.fail("expected num_scan_inputs of at least 1");
  std::vector<std::int64_t> axes = call.attributes<ScanAttributes>().input_axes;
  axes.resize(std::size_t(sequences), 0);
  const std::int64_t batches = batched ? call.input(first).shape()[0] : 1;
  std::vector<std::vector<Tensor>> results;
  for (std::int64_t n = 0; n < batches; n++) {
    auto of_batch = [&](int i) { return batched ? select(call.input(first + i), 0, n) : call.input(first + i); };
    std::vector<Value> state;
    std::vector<Tensor> inputs;
    for (int i = 0; i < states; i++) state.push_back({of_batch(i), nullptr});
    for (int i = 0; i < sequences; i++) inputs.push_back(of_batch(states + i));
    results.push_back(scan_sequences(call, state, inputs, axes));
  }
  call.varies();
  for (std::size_t k = 0; k < results.at(0).size(); k++) {
    std::vector<Tensor> parts;
    for (const auto& result : results) parts.push_back(result[k]);
    call.set(int(k), batched ? stacked(call.queue(), parts, 0) : parts[0]);
  }
}

}  // namespace

void control(Registry& registry) {
  registry.add<IfAttributes>("If", if_op, "then_branch else_branch");
  registry.add<LoopAttributes>("Loop", loop, "body");
  registry.add<ScanAttributes>("Scan", scan,
                               "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
                               "scan_output_directions directions");
}

}  // namespace dlprim::operators
