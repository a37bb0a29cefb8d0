// SPDX-License-Identifier: MIT
#include "floats.hpp"

namespace dlprim {
namespace {

using testing::Variable;

TEST(Environment, OneRuleForSwitches) {
  EXPECT_FALSE(environment::choice("DLPRIM_DEBUG_BUILD"));
  for (const char* off : {"0", "off", "OFF", "false", "no"}) {
    const Variable set("DLPRIM_DEBUG_BUILD", off);
    EXPECT_EQ(environment::choice("DLPRIM_DEBUG_BUILD"), false) << off;
  }
  for (const char* on : {"1", "on", "yes", "2"}) {
    const Variable set("DLPRIM_DEBUG_BUILD", on);
    EXPECT_TRUE(environment::is_on("DLPRIM_DEBUG_BUILD")) << on;
  }
  const Variable empty("DLPRIM_DEBUG_BUILD", "");
  EXPECT_FALSE(environment::choice("DLPRIM_DEBUG_BUILD"));
  EXPECT_EQ(environment::text("DLPRIM_DEBUG_BUILD"), nullptr);
  EXPECT_STREQ(environment::raw("DLPRIM_DEBUG_BUILD"), "");
}

TEST(Environment, NumbersArePositiveAndWhole) {
  EXPECT_FALSE(environment::number("DLPRIM_MEMORY_LIMIT"));
  for (const char* wrong : {"", "0", "-3", "1.5", "10 MB", "many", "99999999999999999999"}) {
    const Variable set("DLPRIM_MEMORY_LIMIT", wrong);
    EXPECT_FALSE(environment::number("DLPRIM_MEMORY_LIMIT")) << wrong;
  }
  const Variable set("DLPRIM_MEMORY_LIMIT", "512");
  EXPECT_EQ(environment::number("DLPRIM_MEMORY_LIMIT"), 512);
}

TEST(Environment, IsReadOnce) {
  const Variable set("DLPRIM_SORT", "radix");
  const char* first = environment::text("DLPRIM_SORT");
  ASSERT_STREQ(first, "radix");
  {
    const Variable other("DLPRIM_SORT", "reference");  // of tests: has it read again
    EXPECT_STREQ(environment::text("DLPRIM_SORT"), "reference");
  }
  EXPECT_EQ(environment::text("DLPRIM_SORT"), nullptr);
  EXPECT_STREQ(first, "radix") << "given out before";
}

}  // namespace
}  // namespace dlprim
