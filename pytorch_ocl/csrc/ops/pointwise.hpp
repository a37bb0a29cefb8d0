// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include <ATen/TensorIterator.h>
#include <c10/util/ArrayRef.h>
#include <dlprim/primitives/pointwise.hpp>

#include "ops/stub_scalars.hpp"

namespace pytorch_ocl {

/// Runs a row of the pointwise table over the iterator (the operands' common shape) on the
/// current stream of its device. `scalars`: the row's s0, s1, ... Throws c10::Error on a dtype the row lacks.
void run_pointwise(at::TensorIteratorBase& it, dlprim::PointwiseId id, c10::ArrayRef<c10::Scalar> scalars);

/// `call` has the exact type `Fn` of a dispatch stub and forwards to run_pointwise.
template <dlprim::PointwiseId id, class Fn>
struct PointwiseStub {
  static_assert(!std::is_same_v<Fn, Fn>, "a row serves only stubs of the form void(TensorIterator&, scalars...): "
                                         "map the stub to null in the family's yaml and register it by hand");
};

template <dlprim::PointwiseId id, class Iterator, class... Args>
  requires std::is_base_of_v<at::TensorIteratorBase, Iterator>
struct PointwiseStub<id, void (*)(Iterator&, Args...)> {
  static void call(Iterator& it, Args... args) {
    with_stub_scalars([&](c10::ArrayRef<c10::Scalar> scalars) { run_pointwise(it, id, scalars); },
                      static_cast<const std::decay_t<Args>&>(args)...);
  }
};

}  // namespace pytorch_ocl
