// SPDX-License-Identifier: MIT
// Gradients of If, Loop and Scan: the inner graphs run again, trip by trip, and backward in the reverse order.
#include <algorithm>
#include <memory>

#include "../control.hpp"
#include "../gradient.hpp"
#include "../training.hpp"

namespace dlprim::gradients {

namespace {

int largest_value(const Graph& graph) {
  int largest = -1;
  for (const auto* ids : {&graph.inputs, &graph.outputs})
    for (int id : *ids) largest = std::max(largest, id);
  for (const Node& node : graph.nodes) {
    for (const auto* ids : {&node.inputs, &node.outputs, &node.captured})
      for (int id : *ids) largest = std::max(largest, id);
    for (const auto& [name, attribute] : node.attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute))
        largest = std::max(largest, largest_value(**inner));
  }
  return largest;
}

// An inner graph as its gradients run it, and the plan for them.
struct Trained {
  Graph graph;
  KeptTraining training;
};
using TrainedPointer = std::shared_ptr<Trained>;

// Sets an inner graph up for training. Statistics of batches stay as they are.
TrainedPointer for_training(const Graph& from) {
  auto trained = std::make_shared<Trained>(Trained{from, {}});
  for (Node& node : trained->graph.nodes) {
    node.dead.clear();
    if (node.type == "BatchNormalization") node.attributes["is_test"] = std::int64_t(1), node.parsed.reset();
  }
  std::vector<std::string> values(std::size_t(largest_value(from) + 1));
  prepare_training(trained->graph, values);
  return trained;
}

struct IfGradient {
  explicit IfGradient(const AttributeReader& reader) {
    const IfAttributes attributes(reader);
    for (std::size_t i = 0; i < 2; i++) branches[i] = for_training(*attributes.branches[i]);
  }
  TrainedPointer branches[2];
};

// Of a Loop or Scan.
template <class Attributes>
struct BodyGradient : Attributes {
  explicit BodyGradient(const AttributeReader& reader) : Attributes(reader), trained(for_training(*this->body)) {}
  TrainedPointer trained;
};

// One run of such a graph with everything that its gradients need.
class Trip {
 public:
  Trip(GradientCall& call, Trained& trained, const std::vector<Tensor>& inputs)
      : call_(call), graph_(trained.graph), executor_(call.queue()) {
    if (inputs.size() != graph_.inputs.size()) call.fail("the inner graph does not take the values that it is given");
    std::set<int> sources;
    for (int id : call.captured()) {
      executor_.slot(id) = Value{call.captured_value(id).tensor, call.captured_value(id).sequence};
      if (call.needs_value(id)) sources.insert(id);
    }
    for (std::size_t i = 0; i < inputs.size(); i++) {
      executor_.slot(graph_.inputs[i]) = Value{inputs[i], nullptr};
      if (inputs[i].defined() && is_floating(inputs[i].dtype())) sources.insert(graph_.inputs[i]);
    }
    training_ = trained.training.get(graph_, sources);
    executor_.run(graph_);
    if (executor_.random()) throw NotImplementedError("there is no gradient through random operators of inner graphs");
  }

  const Tensor& output(std::size_t i) const { return executor_.value(graph_.outputs[i]).tensor; }

  // Adds the gradients of captured values; gives those of the inputs, undefined where there are none.
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) {
    std::map<int, Tensor> arrived;
    for (std::size_t i = 0; i < gradients.size(); i++) {
      if (!gradients[i].defined()) continue;
      Tensor& sum = arrived[graph_.outputs[i]];
      sum = sum.defined() ? apply(call_.queue(), "y0 = x0 + x1;", {sum, gradients[i]}) : gradients[i];
    }
    std::map<int, Tensor> results = training_->backward(executor_, std::move(arrived));
    for (int id : call_.captured())
      if (auto it = results.find(id); it != results.end()) call_.add_to_value(id, it->second);
    std::vector<Tensor> of_inputs;
    for (int id : graph_.inputs) of_inputs.push_back(results.contains(id) ? results.at(id) : Tensor());
    return of_inputs;
  }

 private:
  GradientCall& call_;
  const Graph& graph_;
  Executor executor_;
  std::shared_ptr<const Training> training_;
};

void if_op(GradientCall& call) {
  Trip trip(call, *call.attributes<IfGradient>().branches[call.read_integers(0).at(0) ? 0 : 1], {});
  std::vector<Tensor> gradients;
  for (int i = 0; i < call.outputs(); i++) gradients.push_back(call.gradient(i));
  trip.backward(gradients);
}

void loop(GradientCall& call) {
  Trained& body = *call.attributes<BodyGradient<LoopAttributes>>().trained;
  const std::int64_t trips = call.has(0) ? call.read_integers(0).at(0) : std::numeric_limits<std::int64_t>::max();
  const auto carried = std::size_t(std::max(0, call.inputs() - 2));
  bool go_on = !call.has(1) || call.read_integers(1).at(0);
  std::vector<Tensor> state;
  for (std::size_t i = 0; i < carried; i++) state.push_back(call.value(int(i) + 2).tensor);
  std::vector<std::unique_ptr<Trip>> done;
  for (std::int64_t i = 0; i < trips && go_on; i++) {
    const std::uint8_t yes = 1;
    std::vector<Tensor> inputs{Tensor::from_host(DataType::int64, {}, &i),
                               Tensor::from_host(DataType::boolean, {}, &yes)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    Trip& trip = *done.emplace_back(std::make_unique<Trip>(call, body, inputs));
    go_on = !trip.output(0).defined() || to_integers(call.queue(), trip.output(0)).at(0);
    for (std::size_t k = 0; k < carried; k++) state[k] = trip.output(k + 1);
  }
  std::vector<Tensor> of_state;
  for (std::size_t k = 0; k < carried; k++) of_state.push_back(call.gradient(int(k)));
  for (std::size_t i = done.size(); i-- > 0;) {
    std::vector<Tensor> gradients{Tensor()};
    gradients.insert(gradients.end(), of_state.begin(), of_state.end());
    for (std::size_t k = carried; k + 1 < body.graph.outputs.size(); k++) {
      const Tensor all = call.gradient(int(k));
      gradients.push_back(all.defined() ? select(all, 0, std::int64_t(i)) : Tensor());
    }
    const std::vector<Tensor> results = done[i]->backward(gradients);
    of_state.assign(results.begin() + 2, results.end());
    done.pop_back();
  }
  for (std::size_t k = 0; k < carried; k++)
    if (of_state[k].defined()) call.add(int(k) + 2, of_state[k]);
}

void scan(GradientCall& call) {
  if (call.version() < 9) throw NotImplementedError("there is no gradient for Scan before operator set 9");
  const auto& attributes = call.attributes<BodyGradient<ScanAttributes>>();
  Trained& body = *attributes.trained;
  const auto sequences = std::size_t(attributes.inputs), states = std::size_t(call.inputs()) - sequences;
  using Integers = std::vector<std::int64_t>;
  auto number = [](const Integers& list, std::size_t i) { return i < list.size() ? list[i] : 0; };
  auto dim = [&](std::size_t k) { return call.shape(int(states + k)).axis(number(attributes.input_axes, k)); };
  const std::int64_t length = call.shape(int(states))[dim(0)];
  auto place = [&](const Integers& directions, std::size_t k, std::int64_t t) {
    return number(directions, k) ? length - 1 - t : t;
  };
  std::vector<Tensor> state;
  for (std::size_t i = 0; i < states; i++) state.push_back(call.input(int(i)));
  std::vector<std::unique_ptr<Trip>> done;
  for (std::int64_t t = 0; t < length; t++) {
    std::vector<Tensor> inputs = state;
    for (std::size_t k = 0; k < sequences; k++)
      inputs.push_back(select(call.input(int(states + k)), dim(k), place(attributes.input_directions, k, t)));
    Trip& trip = *done.emplace_back(std::make_unique<Trip>(call, body, inputs));
    for (std::size_t k = 0; k < states; k++) state[k] = trip.output(k);
  }
  std::vector<Tensor> of_state;
  for (std::size_t k = 0; k < states; k++) of_state.push_back(call.gradient(int(k)));
  std::vector<std::vector<Tensor>> slices(sequences, std::vector<Tensor>(std::size_t(length)));
  for (std::int64_t t = length - 1; t >= 0; t--) {
    std::vector<Tensor> gradients = of_state;
    for (std::size_t k = 0; states + k < body.graph.outputs.size(); k++) {
      const Tensor all = call.gradient(int(states + k));
      const int axis = all.defined() ? all.shape().axis(number(attributes.output_axes, k)) : 0;
      gradients.push_back(all.defined() ? select(all, axis, place(attributes.output_directions, k, t)) : Tensor());
    }
    const std::vector<Tensor> results = done[std::size_t(t)]->backward(gradients);
    of_state.assign(results.begin(), results.begin() + std::ptrdiff_t(states));
    for (std::size_t k = 0; k < sequences; k++)
      slices[k][std::size_t(place(attributes.input_directions, k, t))] = results[states + k];
    done.pop_back();
  }
  for (std::size_t k = 0; k < states; k++)
    if (of_state[k].defined()) call.add(int(k), of_state[k]);
  for (std::size_t k = 0; k < sequences; k++) {
    if (!call.needs(int(states + k))) continue;
    const int axis = dim(k);
    for (Tensor& slice : slices[k]) {
      Shape shape = call.shape(int(states + k));
      shape.erase(axis);
      slice = unsqueeze(slice.defined() ? slice : filled(call.queue(), call.dtype(int(states + k)), shape, 0), axis);
    }
    call.add(int(states + k), concat(call.queue(), slices[k], axis));
  }
}

}  // namespace

void control(GradientRegistry& registry) {
  registry.add<IfGradient>("If", if_op, "x* c*");
  registry.add<BodyGradient<LoopAttributes>>("Loop", loop, "x* c*");
  registry.add<BodyGradient<ScanAttributes>>("Scan", scan, "x* c*");
}

}  // namespace dlprim::gradients
