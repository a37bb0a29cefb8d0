// SPDX-License-Identifier: MIT
// The discrete Fourier transform of ONNX's tensors, whose last dimension holds real and imaginary part.
#pragma once
#include "operator.hpp"

namespace dlprim {

/// The attributes of a node DFT.
struct FourierAttributes {
  explicit FourierAttributes(const AttributeReader& reader)
      : axis(reader.integer("axis", reader.node().version < 20 ? 1 : -2)), inverse(reader.integer("inverse", 0)),
        onesided(reader.integer("onesided", 0)) {}
  std::int64_t axis;
  bool inverse, onesided;
};

/// What a node DFT asks for.
struct Fourier {
  int dim = 0;
  std::int64_t length = 1;
  bool inverse = false, onesided = false;
  std::int64_t bins() const { return length / 2 + 1; }
  double scale() const { return inverse ? 1 / double(length) : 1; }

  /// Reads the node's FourierAttributes and inputs 1 (length) and 2 (axis) for an input of the given sizes. Fails for what ONNX
  /// does not allow.
  static Fourier of(Call& call, const Shape& x);
};

/// scale times the transform of x [..., 1 or 2] (floating) along `dim`, cut or padded with zeros to `length`: [..., 2].
/// `onesided`: forward, the first length / 2 + 1 numbers; inverse, x holds these and the result is real, [..., 1].
Tensor fourier(Queue& queue, const Tensor& x, const Fourier& how, double scale);

/// x with the first `size` elements along `dim`, zeros behind its own.
Tensor resized(Queue& queue, const Tensor& x, int dim, std::int64_t size);

}  // namespace dlprim
