// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "gradient.hpp"

namespace dlprim {
namespace {

Node node_of(const char* type, std::map<std::string, Attribute> attributes) {
  Node node;
  node.type = type, node.name = "n", node.version = 20, node.attributes = std::move(attributes);
  node.implementation = Registry::get().find("", type);
  return node;
}

TEST(Attributes, AreReadByNameAndType) {
  const Node node = node_of("Any", {{"i", std::int64_t(3)}, {"r", 0.5}, {"list", std::vector<std::int64_t>{1, 2}}});
  const AttributeReader reader(node);
  EXPECT_EQ(reader.integer("i", 1), 3);
  EXPECT_EQ(reader.integer("j", 1), 1);
  EXPECT_EQ(reader.number("i", 1), 3.0);
  EXPECT_EQ(reader.number("r", 1), 0.5);
  EXPECT_EQ(reader.integers("list"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(reader.integers("none").empty());
  EXPECT_FALSE(reader.find<double>("none"));
  EXPECT_THROW(reader.integer("r", 1), ValidationError);
  EXPECT_THROW(reader.graph("body"), ValidationError);
}

TEST(Attributes, AreKeptWithTheNode) {
  Node node = node_of("Concat", {{"axis", std::int64_t(1)}});
  parse_attributes(node);
  EXPECT_TRUE(node.parsed.has_value());
  node.attributes["axis"] = 1.5;
  try {
    parse_attributes(node);
    FAIL();
  } catch (const ValidationError& error) {
    EXPECT_STREQ(error.what(), "[Concat 'n'] attribute 'axis' has the wrong type");
  }
}

// What an operator cannot do without is missed by name, whatever else is not given.
void expect_readable(ParseFunction parse, const Node& node) {
  try {
    if (parse) parse(AttributeReader(node));
  } catch (const ValidationError& error) {
    EXPECT_NE(std::string(error.what()).find("is missing"), std::string::npos) << node.type << ": " << error.what();
  }
}

TEST(Attributes, OfEveryOperatorAndGradientAreReadWhereNoneAreGiven) {
  for (const auto& [key, implementation] : Registry::get().all()) {
    Node node = node_of(key.second.c_str(), {});
    node.domain = key.first, node.implementation = &implementation;
    expect_readable(implementation.parse, node);
    if (const Gradient* gradient = GradientRegistry::get().find(node)) expect_readable(gradient->parse, node);
  }
}

}  // namespace
}  // namespace dlprim
