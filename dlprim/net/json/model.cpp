// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/json.hpp>

#include "../file.hpp"
#include "importer.hpp"

namespace dlprim {

void JSONModel::load(const std::string& path) {
  constexpr std::size_t largest = std::size_t(1) << 28;
  load_text(read_file(path, largest));
}

void JSONModel::load_text(std::string_view text) {
  const Json json = parse_json(text, "network");
  network_ = import_json(json);
}

struct NetConfig::State {
  Json json = {{"inputs", Json::array()}, {"operators", Json::array()}, {"outputs", Json::array()}};
  std::vector<std::string> last;
};

NetConfig::NetConfig() : state_(std::make_unique<State>()) {}
NetConfig::~NetConfig() = default;
NetConfig::NetConfig(NetConfig&&) noexcept = default;
NetConfig& NetConfig::operator=(NetConfig&&) noexcept = default;

NetConfig& NetConfig::add_input(const std::string& name, const Shape& shape, DataType dtype) {
  state_->json["inputs"].push_back({{"name", name}, {"shape", shape.sizes()}, {"dtype", dlprim::name(dtype)}});
  if (state_->last.empty()) state_->last = {name};
  return *this;
}

NetConfig& NetConfig::add(const Operator& op) {
  Json& operators = state_->json["operators"];
  Json entry = {{"name", op.name.empty() ? op.type + "_" + std::to_string(operators.size()) : op.name},
                {"type", op.type}};
  entry["inputs"] = !op.inputs.empty() || op.type == "Parameter" ? op.inputs : state_->last;
  entry["outputs"] = op.outputs.empty() ? std::vector<std::string>{entry["name"]} : op.outputs;
  for (const auto& [key, value] : op.options) std::visit([&](const auto& v) { entry["options"][key] = v; }, value);
  if (!op.params.empty()) entry["params"] = op.params;
  if (op.frozen) entry["frozen"] = true;
  state_->last = entry["outputs"].get<std::vector<std::string>>();
  operators.push_back(std::move(entry));
  return *this;
}

NetConfig& NetConfig::add_output(const std::string& name, double loss_weight) {
  Json& outputs = state_->json["outputs"];
  if (loss_weight != 0) outputs.push_back({{"name", name}, {"loss_weight", loss_weight}});
  else outputs.push_back(name);
  return *this;
}

std::string NetConfig::text() const {
  Json json = state_->json;
  if (json["outputs"].empty()) json["outputs"] = state_->last;
  return json.dump(2);
}

void NetConfig::save(const std::string& path) const { write_file(path, text()); }

}  // namespace dlprim
