// SPDX-License-Identifier: MIT
// A language model that is a network in an ONNX file.
#pragma once
#include <dlprim/net/net.hpp>

#include <optional>

#include "onnx_folder.hpp"
#include "token_model.hpp"

namespace dlprim {

/// Keys and values that a step gives are what the next one takes: they stay on the device.
class OnnxDecoder : public TokenModel {
 public:
  /// Throws ValidationError for a network that takes or gives other things than decoders do, and for a `dtype` that is
  /// not the file's; NotImplementedError for operators that do not exist here.
  OnnxDecoder(const Context& context, DecoderNetwork network, std::int64_t positions, std::optional<DataType> dtype);

  std::int64_t context() const noexcept override { return positions_; }
  DataType dtype() const noexcept override { return dtype_; }
  std::size_t weight_bytes() const noexcept override { return weight_bytes_; }
  std::int64_t part() const noexcept override { return positions_; }
  void restart(std::int64_t coming) override;
  Tensor run(const Tensor& tokens, bool all = false) override;

 private:
  struct Kept {
    int input, output;
    Shape empty;  // before the first token
  };
  void find_inputs(const DecoderNetwork& network);
  void find_kept(const DecoderNetwork& network, const std::string& name, int input);
  void set_numbers(int input, std::int64_t from, std::int64_t count);

  Net net_;
  ExecutionContext execution_;
  std::int64_t positions_, length_ = 0;
  std::size_t weight_bytes_ = 0;
  DataType dtype_ = DataType::float32;
  int tokens_ = -1, mask_ = -1, numbers_ = -1, cached_ = -1, rows_ = -1, scores_ = -1;  // inputs, and an output
  std::vector<Kept> kept_;
};

}  // namespace dlprim
