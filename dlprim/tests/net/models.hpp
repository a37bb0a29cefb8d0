// SPDX-License-Identifier: MIT
// Small ONNX models, made in memory.
#pragma once
#include <dlprim/dlprim.hpp>

#include <cstring>

#include "onnx.pb.h"
#include "testing.hpp"

namespace dlprim::testing {

/// Builds a model node by node. Tensors are float32, sizes of -1 stay open as "N".
class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset = 17) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    graph_ = model_.mutable_graph();
    graph_->set_name("test");
  }
  ModelBuilder& input(const std::string& name, const std::vector<std::int64_t>& shape, int type = 1) {
    return value(graph_->add_input(), name, shape, type);
  }
  ModelBuilder& output(const std::string& name, const std::vector<std::int64_t>& shape, int type = 1) {
    return value(graph_->add_output(), name, shape, type);
  }
  ModelBuilder& constant(const std::string& name, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& data) {
    auto* tensor = graph_->add_initializer();
    tensor->set_name(name), tensor->set_data_type(1);
    for (std::int64_t size : shape) tensor->add_dims(size);
    tensor->set_raw_data(data.data(), data.size() * sizeof(float));
    return *this;
  }
  ModelBuilder& integers(const std::string& name, const std::vector<std::int64_t>& data) {
    auto* tensor = graph_->add_initializer();
    tensor->set_name(name), tensor->set_data_type(7), tensor->add_dims(std::int64_t(data.size()));
    for (std::int64_t value : data) tensor->add_int64_data(value);
    return *this;
  }
  onnx_format::Node* node(const std::string& type, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
    auto* node = graph_->add_node();
    node->set_op_type(type);
    for (const std::string& name : inputs) node->add_input(name);
    for (const std::string& name : outputs) node->add_output(name);
    return node;
  }
  onnx_format::Graph* graph() { return graph_; }

  std::string bytes() const { return model_.SerializeAsString(); }
  ONNXModel model() const {
    ONNXModel result;
    const std::string data = bytes();
    result.load_bytes(std::as_bytes(std::span(data)));
    return result;
  }

 private:
  ModelBuilder& value(onnx_format::ValueInfo* info, const std::string& name, const std::vector<std::int64_t>& shape,
                      int type) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (std::int64_t size : shape) {
      auto* dim = tensor->mutable_shape()->add_dim();
      if (size < 0) dim->set_dim_param("N");
      else dim->set_dim_value(size);
    }
    return *this;
  }
  onnx_format::Model model_;
  onnx_format::Graph* graph_;
};

inline void attribute(onnx_format::Node* node, const std::string& name, const std::vector<std::int64_t>& values) {
  auto* a = node->add_attribute();
  a->set_name(name), a->set_type(7);
  for (std::int64_t value : values) a->add_ints(value);
}

inline void attribute(onnx_format::Node* node, const std::string& name, std::int64_t value) {
  auto* a = node->add_attribute();
  a->set_name(name), a->set_type(2), a->set_i(value);
}

inline void real_attribute(onnx_format::Node* node, const std::string& name, float value) {
  auto* a = node->add_attribute();
  a->set_name(name), a->set_type(1), a->set_f(value);
}

inline void attribute(onnx_format::Node* node, const std::string& name, const std::string& value) {
  auto* a = node->add_attribute();
  a->set_name(name), a->set_type(3), a->set_s(value);
}

/// Runs a net on one vector and gives its first output.
inline std::vector<float> run(Net& net, const std::vector<float>& input) {
  const ExecutionContext ec = net.context().make_execution_context();
  net.input(0).to_device(ec, input);
  net.forward(ec);
  std::vector<float> result(std::size_t(net.output(0).numel()));
  net.output(0).to_host(ec, result);
  return result;
}

}  // namespace dlprim::testing
