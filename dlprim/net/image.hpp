// SPDX-License-Identifier: MIT
// What operators on images share with their gradients.
#pragma once
#include <dlprim/primitives/grid_sample.hpp>

#include "operator.hpp"

namespace dlprim {

/// What a GridSample node asks for.
struct GridSampleAttributes {
  explicit GridSampleAttributes(const AttributeReader& reader);
  GridSampling sampling;
};

/// The attributes of a Col2Im node.
struct ColumnsAttributes {
  explicit ColumnsAttributes(const AttributeReader& reader)
      : strides(reader.integers("strides")), dilations(reader.integers("dilations")), pads(reader.integers("pads")) {}
  std::vector<std::int64_t> strides, dilations, pads;
};

/// The geometry of Col2Im over any number of spatial dimensions.
struct ImageColumns {
  std::vector<std::int64_t> block, strides, dilations, pads, sizes;
  Shape shape;   ///< of the columns: N, C, taps, windows along each axis
  Shape padded;  ///< of the images with their padding

  /// The elements of padded images that a tap of every window shows: N, C, windows along each axis.
  Tensor places(const Tensor& padded, std::int64_t tap) const;
  /// Without the padding.
  Tensor image(const Tensor& padded) const;
};

/// Reads a node with ColumnsAttributes for columns [N, C * taps, windows]. Throws ValidationError.
ImageColumns read_image_columns(Call& call, const Shape& x);

}  // namespace dlprim
