// SPDX-License-Identifier: MIT
#include "check.hpp"

#include <gtest/gtest.h>

namespace dlprim {
namespace {

TEST(Check, NothingIsPutTogetherWhileItHolds) {
  int texts = 0;
  auto costly = [&] { return texts++, std::string("text"); };
  DLPRIM_EXPECT(true, "test", costly(), " and ", costly());
  EXPECT_EQ(texts, 0);
}

TEST(Check, TellsWhatWasExpectedAndWhatCame) {
  const TensorView x({}, DataType::float32, {2, 3});
  try {
    DLPRIM_EXPECT(x.dims == 3, "test", "3 dims for ", 4, " of ", DataType::bfloat16, ", got ", x);
    FAIL() << "expected an error";
  } catch (const ValidationError& error) {
    EXPECT_STREQ(error.what(), "[test] expected 3 dims for 4 of bfloat16, got float32 [2, 3]");
  }
}

}  // namespace
}  // namespace dlprim
