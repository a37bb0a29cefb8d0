// SPDX-License-Identifier: MIT
// Convolutions whose sums have no terms.
#include <dlprim/primitives/conv.hpp>

#include "tensors.hpp"

namespace dlprim::testing {

// An image without columns, of which padding makes some: there is nothing to read.
TEST(Conv, SumsOfNothing) {
  const DataType type = DataType::bfloat16;
  const TensorView x({}, type, {1, 2, 3, 0});
  const DeviceTensor w(type, {1, 2, 1, 1}, {5, 7}), y(type, {1, 1, 3, 2}), bias(type, {1}, {0.5});
  const DeviceTensor residual(type, {1, 1, 3, 2}, {-2, -1, 0, 1, 2, 3});
  const ConvOptions options{{1, 1, 1}, {0, 1, 0}, {1, 1, 1}, 1};
  conv_forward(queue(), x, w.view(), bias.view(), y.view(), options, Activation::relu, residual.view());
  EXPECT_EQ(y.read(), (std::vector<double>{0, 0, 0.5, 1.5, 2.5, 3.5}));
  conv_backward_weights(queue(), x, y.view(), w.view(), options);
  EXPECT_EQ(w.read(), (std::vector<double>{0, 0}));
}

}  // namespace dlprim::testing
