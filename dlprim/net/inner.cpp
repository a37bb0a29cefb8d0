// SPDX-License-Identifier: MIT
#include "inner.hpp"

#include "training.hpp"

namespace dlprim {

struct Inner::State {
  Node named;  // with its attributes by name
  Node node, training;
  std::once_flag trained;
};

Inner::Inner(const char* type, Attributes attributes, std::int64_t version) : state_(std::make_shared<State>()) {
  Node& named = state_->named;
  named.type = type, named.version = version, named.attributes = std::move(attributes);
  named.implementation = Registry::get().find("", type);
  state_->node = named;
  parse_attributes(state_->node);
  state_->node.attributes.clear();
}

const Node& Inner::node() const noexcept { return state_->node; }

const Node& Inner::training_node() const {
  std::call_once(state_->trained, [&] {  // not before: the gradient may hold the same operator
    Node& node = state_->training = state_->named;
    std::vector<std::string> values;
    prepare_training(node, values);
    node.attributes.clear();
  });
  return state_->training;
}

}  // namespace dlprim
