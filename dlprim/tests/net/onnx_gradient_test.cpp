// SPDX-License-Identifier: MIT
#include "onnx_gradients.hpp"

namespace dlprim::testing {
namespace {

GRADIENTS(Unary) {
  for (const char* type :
       {"Identity", "Abs",       "Atan", "Asinh", "Cos",     "Cosh",        "Erf",      "Exp",      "Neg",
        "Sin",      "Sinh",      "Tan",  "Relu",  "Sigmoid", "Tanh",        "Softplus", "Softsign", "HardSwish",
        "Mish",     "LeakyRelu", "Elu",  "Celu",  "Selu",    "HardSigmoid", "Shrink",   "Swish",    "Gelu"})
    check({type, {{3, 4}}});
  for (const char* type : {"Acos", "Asin", "Atanh"}) check({type, {{3, 4}}, {}, {}, -0.9, 0.9});
  for (const char* type : {"Log", "Reciprocal", "Sqrt"}) check({type, {{3, 4}}, {}, {}, 0.5, 2});
  check({"Acosh", {{3, 4}}, {}, {}, 1.2, 3});
  check({"Gelu", {{3, 4}}, {{"approximate", std::string("tanh")}}});
  check({"LeakyRelu", {{3, 4}}, {{"alpha", 0.3}}});
  check({"ThresholdedRelu", {{3, 4}}, {{"alpha", 0.4}}});
  check({"HardSwish", {{3, 4}}, {}, {}, -5, 5});
  check({"Clip", {{3, 4}}, {}, {number(-0.5), number(0.7)}});
  check({"Clip", {{3, 4}}, {}, {Tensor(), number(0.7)}});
  check({"Dropout", {{3, 4}}, {{"ratio", 0.0}}, {}, -1, 1, 11});
  check({"Floor", {{3, 4}}});
}

GRADIENTS(ElementwiseWithBroadcasting) {
  for (const char* type : {"Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"})
    for (const auto& inputs : std::vector<std::vector<Shape>>{
             {{3, 4}, {3, 4}}, {{2, 3, 4}, {3, 1}}, {{4}, {2, 1, 4}}, {{2, 1}, {1, 3}}, {{}, {5}}})
      check({type, inputs});
  for (const char* type : {"Div", "Pow"}) {
    check({type, {{3, 4}, {3, 4}}, {}, {}, 0.5, 2});
    check({type, {{2, 1, 3}, {4, 1}}, {}, {}, 0.5, 2});
  }
  check({"PRelu", {{2, 3, 4}, {3, 1}}});
  for (const char* type : {"Max", "Min", "Sum", "Mean"}) check({type, {{3, 4}, {4}, {3, 1}}, {}, {}, -1.5, 1.6});
  check({"Mul", {{2, 300}, {300}}});
}

GRADIENTS(Products) {
  for (const auto& inputs : std::vector<std::vector<Shape>>{{{3, 4}, {4, 5}},
                                                            {{2, 3, 4}, {4, 5}},
                                                            {{2, 3, 4}, {2, 4, 5}},
                                                            {{2, 1, 3, 4}, {5, 4, 2}},
                                                            {{3, 4}, {2, 4, 5}},
                                                            {{4}, {4, 5}},
                                                            {{3, 4}, {4}},
                                                            {{4}, {4}},
                                                            {{4}, {2, 4, 3}},
                                                            {{2, 3, 4}, {4}}})
    check({"MatMul", inputs});
  check({"Gemm", {{3, 4}, {4, 5}, {5}}, {{"alpha", 0.5}, {"beta", 2.0}}});
  check({"Gemm", {{4, 3}, {5, 4}, {3, 1}}, {{"transA", std::int64_t(1)}, {"transB", std::int64_t(1)}}});
  check({"Gemm", {{3, 4}, {5, 4}}, {{"transB", std::int64_t(1)}}});
}

GRADIENTS(Convolutions) {
  check({"Conv", {{2, 3, 6}, {4, 3, 3}, {4}}, {{"pads", Integers{1, 0}}}});
  check({"Conv",
         {{1, 2, 5, 6}, {4, 1, 3, 2}},
         {{"pads", Integers{1, 0, 2, 1}}, {"group", std::int64_t(2)}, {"strides", Integers{2, 1}}}});
  check({"Conv", {{1, 2, 5, 6}, {3, 2, 2, 2}, {3}}, {{"auto_pad", std::string("SAME_UPPER")}}});
  check({"Conv", {{1, 2, 3, 4, 3}, {2, 2, 2, 2, 2}, {2}}});
  check({"Conv", {{1, 4, 6, 6}, {4, 1, 3, 3}, {4}}, {{"group", std::int64_t(4)}, {"pads", Integers{1, 1, 1, 1}}}});
  check({"ConvTranspose", {{1, 2, 4}, {2, 3, 3}, {3}}, {{"strides", Integers{2}}}});
  check({"ConvTranspose",
         {{1, 2, 3, 3}, {2, 2, 3, 3}},
         {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}, {"output_padding", Integers{1, 1}}}});
}

GRADIENTS(Pools) {
  check({"MaxPool", {{2, 2, 6}}, {{"kernel_shape", Integers{3}}, {"strides", Integers{2}}}});
  check({"MaxPool",
         {{1, 2, 5, 5}},
         {{"kernel_shape", Integers{2, 2}}, {"dilations", Integers{2, 2}}, {"pads", Integers{1, 0, 0, 1}}}});
  check({"AveragePool",
         {{1, 2, 6, 5}},
         {{"kernel_shape", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}}});
  check({"AveragePool",
         {{1, 2, 5, 5}},
         {{"kernel_shape", Integers{2, 2}}, {"pads", Integers{1, 0, 0, 1}}, {"count_include_pad", std::int64_t(1)}}});
  check({"AveragePool", {{1, 1, 3, 4, 3}}, {{"kernel_shape", Integers{2, 2, 2}}}});
  check({"GlobalAveragePool", {{2, 3, 4, 2}}});
  check({"GlobalMaxPool", {{2, 3, 4, 2}}});
}

GRADIENTS(Normalization) {
  const auto ones = [](std::int64_t n) {
    const std::vector<double> wide(std::size_t(n), 1);
    const std::vector<float> narrow(std::size_t(n), 1);
    return widest() == DataType::float64 ? Tensor::from_host(DataType::float64, {n}, wide.data())
                                         : Tensor::from_host(DataType::float32, {n}, narrow.data());
  };
  check({"BatchNormalization", {{4, 3, 2}, {3}, {3}}, {}, {ones(3), ones(3)}});
  check({"LayerNormalization", {{3, 2, 5}, {5}, {5}}});
  check({"LayerNormalization", {{3, 2, 5}, {2, 5}}, {{"axis", std::int64_t(1)}}});
  check({"RMSNormalization", {{3, 5}, {5}}, {}, {}, -1.5, 1.5, 23});
  check({"SimplifiedLayerNormalization", {{3, 5}, {5}}});
  check({"InstanceNormalization", {{2, 3, 5}, {3}, {3}}});
  check({"GroupNormalization", {{2, 4, 5}, {4}, {4}}, {{"num_groups", std::int64_t(2)}}, {}, -1.5, 1.5, 21});
}

GRADIENTS(Reductions) {
  for (const char* type : {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp",
                           "ReduceMax", "ReduceMin"}) {
    check({type, {{2, 3, 4}}});
    check({type, {{2, 3, 4}}, {{"axes", Integers{0, -1}}, {"keepdims", std::int64_t(0)}}});
  }
  check({"ReduceSum", {{2, 3, 4}}, {{"keepdims", std::int64_t(0)}}, {integers({1})}});
  check({"ReduceLogSum", {{2, 3}}, {{"axes", Integers{1}}}, {}, 0.5, 2});
}

GRADIENTS(SoftmaxAndLosses) {
  for (const char* type : {"Softmax", "LogSoftmax"}) {
    check({type, {{2, 3, 4}}});
    check({type, {{2, 3, 4}}, {{"axis", std::int64_t(1)}}});
    check({type, {{2, 3, 4}}, {}, {}, -1.5, 1.5, 11});
  }
  for (const char* how : {"none", "mean", "sum"}) {
    check({"SoftmaxCrossEntropyLoss", {{3, 4}}, {{"reduction", std::string(how)}}, {integers({1, 3, 0})}});
    check({"NegativeLogLikelihoodLoss",
           {{3, 4}},
           {{"reduction", std::string(how)}, {"ignore_index", std::int64_t(3)}},
           {integers({1, 3, 0})}});
  }
}

GRADIENTS(Shapes) {
  check({"Reshape", {{2, 6}}, {}, {integers({3, -1})}});
  check({"Flatten", {{2, 3, 2}}});
  check({"Squeeze", {{2, 1, 3}}, {}, {integers({1})}});
  check({"Unsqueeze", {{2, 3}}, {}, {integers({0, 3})}});
  check({"Transpose", {{2, 3, 4}}});
  check({"Transpose", {{2, 3, 4}}, {{"perm", Integers{1, 2, 0}}}});
  check({"Slice", {{4, 5}}, {}, {integers({3, 0}), integers({0, 5}), integers({0, 1}), integers({-1, 2})}});
  check({"Split", {{4, 6}}, {{"axis", std::int64_t(1)}}, {integers({1, 2, 3})}, -1.5, 1.5, 17, 3});
  check({"Expand", {{3, 1}}, {}, {integers({2, 3, 4})}});
  check({"Concat", {{2, 3}, {2, 1}, {2, 2}}, {{"axis", std::int64_t(-1)}}});
  check({"Tile", {{2, 3}}, {}, {integers({2, 3})}});
  for (const char* mode : {"DCR", "CRD"})
    check({"DepthToSpace", {{1, 8, 2, 3}}, {{"blocksize", std::int64_t(2)}, {"mode", std::string(mode)}}});
  check({"SpaceToDepth", {{1, 2, 4, 6}}, {{"blocksize", std::int64_t(2)}}});
  check({"Pad", {{2, 3}}, {}, {integers({1, -1, 0, 2})}});
}

GRADIENTS(IndexingAndResizing) {
  check({"Gather", {{4, 3}}, {}, {integers({0, 2, 2, -1})}});
  check({"Gather", {{4, 3}}, {{"axis", std::int64_t(1)}}, {integers({1})}});
  check({"GatherElements", {{3}}, {}, {integers({2, 0, 0})}});
  const Integers sizes{1, 2, 5, 7};
  check({"Resize", {{1, 2, 3, 4}}, {{"mode", std::string("cubic")}}, {Tensor(), Tensor(), integers(sizes)}, -1, 1, 19});
  check({"Resize", {{1, 2, 3, 4}}, {{"mode", std::string("linear")}}, {Tensor(), floats({1, 1, 0.6f, 2})}, -1, 1, 19});
  check({"Upsample", {{1, 2, 3, 4}}, {}, {floats({1, 1, 2, 3})}, -1, 1, 9});
}

GRADIENTS(LinearMaps) {
  for (std::int64_t reverse : {0, 1})
    check({"CumSum", {{3, 4}}, {{"reverse", reverse}, {"exclusive", 1 - reverse}}, {integers({1})}});
  check({"Trilu", {{2, 3, 4}}, {{"upper", std::int64_t(0)}}});
  const Integers places{2, 0};
  const Tensor index = Tensor::from_host(DataType::int64, {2, 1}, places.data());
  check({"GatherND", {{3, 4}}, {}, {index}});
  check({"Einsum", {{2, 3, 4}, {2, 4, 5}}, {{"equation", std::string("bij,bjk->bik")}}});
  check({"Einsum", {{3, 4}, {4, 2}}, {{"equation", std::string("ij, kl -> ik")}}});
  check({"Einsum", {{3, 4}}, {{"equation", std::string("ij->j")}}});
}

GRADIENTS(MoreNormalization) {
  check({"LpNormalization", {{3, 4}}});
  check({"LpNormalization", {{3, 4}}, {{"p", std::int64_t(1)}, {"axis", std::int64_t(0)}}});
  check({"MeanVarianceNormalization", {{2, 3, 2, 2}}});
  for (std::int64_t size : {3, 4}) check({"LRN", {{2, 5, 2, 2}}, {{"size", size}, {"alpha", 0.5}, {"bias", 1.5}}});
  check({"ReduceProd", {{2, 3, 2}}, {{"axes", Integers{1}}}});
}

GRADIENTS(RecurrentLayers) {
  const std::pair<const char*, std::int64_t> kinds[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};
  for (const auto& [type, gates] : kinds)
    for (const char* way : {"forward", "reverse", "bidirectional"}) {
      const std::int64_t d = std::string(way) == "bidirectional" ? 2 : 1, h = 3;
      const bool memory = gates == 4;
      Attributes attributes{{"hidden_size", h}, {"direction", std::string(way)}};
      const std::vector<Shape> inputs{{4, 2, 5}, {d, gates * h, 5}, {d, gates * h, h}, {d, 2 * gates * h}};
      check({type, inputs, attributes, {}, -0.8, 0.8, 14, memory ? 3 : 2});
      if (gates == 3) {
        attributes["linear_before_reset"] = std::int64_t(1);
        check({type, inputs, attributes, {}, -0.8, 0.8, 14, 2});
      }
    }
}

}  // namespace
}  // namespace dlprim::testing
