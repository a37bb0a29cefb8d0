// SPDX-License-Identifier: MIT
// A language model on a device: tokens in, scores of the next one out.
#pragma once
#include <map>

#include "experts.hpp"
#include "shape.hpp"
#include "token_model.hpp"
#include "weights.hpp"

namespace dlprim {

/// Matrices that multiply the same input; those of one type lie together.
class Joined {
 public:
  Joined() = default;
  Joined(Queue& queue, const WeightFile& file, const std::vector<const WeightTensor*>& tensors, DataType dtype);
  std::int64_t n() const noexcept;
  std::size_t bytes() const noexcept;
  /// out [m, n] = x w^T + bias; contiguous.
  void multiply(Queue& queue, const Tensor& x, const Tensor& out, const Tensor& bias) const;

 private:
  std::vector<Weights> parts_;
};

class Decoder : public TokenModel {
 public:
  /// Reads the weights. `context`: positions that the cache of keys and values has room for. Throws ValidationError for
  /// tensors that are missing or of other sizes, NotImplementedError for tensors that nothing here knows.
  Decoder(Queue& queue, const WeightFile& file, const LanguageShape& shape, std::int64_t context, DataType dtype);

  const LanguageShape& shape() const noexcept { return shape_; }
  std::int64_t context() const noexcept override { return context_; }
  DataType dtype() const noexcept override { return dtype_; }
  std::size_t weight_bytes() const noexcept override;
  std::int64_t part() const noexcept override { return 512; }
  void restart(std::int64_t coming) override { length_ = 0, coming_ = coming; }
  Tensor run(const Tensor& tokens, bool all = false) override;

 private:
  // Undefined where there is none; a bias belongs to norms that take the mean away.
  struct Norm {
    Tensor weight, bias;
    bool defined() const noexcept { return weight.defined(); }
  };
  // Both gates, or what replaces them, and the product behind them.
  struct Products {
    Joined gates;
    Tensor gates_bias;
    Weights out;
    Tensor out_bias;
  };
  struct ProductNames {
    const char *gate, *up, *out;
    const char* both = nullptr;  // gates in one, where a file has that
  };
  struct Layer {
    Norm attention_norm, inner_norm, post_attention_norm, post_inner_norm;
    Tensor head_norms, key_norm;
    Joined qkv;
    Tensor qkv_bias;
    Weights attention_out;
    Products inner;
    Experts experts;  // in place of inner
    Products shared;  // by all tokens, beside experts
    Weights shared_router;
    Tensor attention_bias, sinks;  // one of each head
    Tensor cache;  // [context, keys' and values' heads, width]
    bool local = false;  // sees the keys of a window only
    bool rotated = true;
  };
  // Cosines and sines of each position's angles [context, 1, rotated / 2].
  struct Angles {
    Tensor cosines, sines;
  };
  class Reader;
  void read_layer(Reader& reader, Layer& layer, const std::string& name);
  void read_experts(Reader& reader, Layer& layer, const std::string& name);
  Norm read_norm(Reader& reader, const std::string& name);
  Products read_products(Reader& reader, const std::string& layer, const ProductNames& names, std::int64_t inner);
  void read_attention(Reader& reader, Layer& layer, const std::string& name);
  Angles angles(const Rotation& rotation, const std::vector<double>& factors) const;
  const Angles& angles_of(const Layer& layer) const;
  void remember(const Tensor& tokens);
  Tensor pass(const Tensor& tokens, std::int64_t rows);
  Tensor normalized(const Tensor& x, const Norm& norm) const;
  Tensor normalized_heads(const Layer& layer, const Tensor& heads) const;
  Tensor attended(const Layer& layer, const Tensor& x, std::int64_t past) const;
  Tensor gated(const Layer& layer, const Tensor& x, const Tensor& total) const;
  Tensor multiplied(const Products& products, const Tensor& x, const Tensor& addend) const;
  Tensor mixed(const Layer& layer, const Tensor& x) const;
  void rotate(const Tensor& heads, std::int64_t past, const Angles& angles) const;
  std::int64_t first_key(const Layer& layer, std::int64_t past) const;
  Tensor mask(std::int64_t past, std::int64_t count, std::int64_t window) const;
  void attend(const Layer& layer, const Tensor& queries, const Tensor& out, std::int64_t past) const;
  void add_bias(const Tensor& result, const Tensor& bias) const;
  bool adds(const Norm& norm) const;
  Tensor sum(const Tensor& result, const Norm& norm, const Tensor& x) const;

  Queue& queue_;
  LanguageShape shape_;
  std::int64_t context_, length_ = 0, coming_ = 0;  // positions with room, in the cache, and announced
  DataType dtype_;
  Weights positions_;  // undefined where nothing is added
  Weights embeddings_, output_;  // the second undefined where the first serves
  Norm output_norm_;
  Tensor output_bias_;
  Tensor mask_, local_mask_;
  Angles angles_, long_angles_, local_angles_;  // undefined where there are no others
  Tensor tokens_;  // so far, where there are long angles
  bool long_ = false;  // the cache was made with those
  std::vector<Layer> layers_;
};

}  // namespace dlprim
