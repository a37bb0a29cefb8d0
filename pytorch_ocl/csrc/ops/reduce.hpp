// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include <ATen/TensorIterator.h>
#include <c10/util/ArrayRef.h>
#include <dlprim/primitives/reduce.hpp>

#include "ops/stub_scalars.hpp"

namespace pytorch_ocl {

/// Runs a row of the reduce table over the iterator (the output has stride 0 along the reduced dims) on the
/// current stream of its device. `scalars`: the row's s0, s1, ... Throws c10::Error on a dtype the row lacks.
void run_reduce(at::TensorIteratorBase& it, dlprim::ReduceId id, c10::ArrayRef<c10::Scalar> scalars);

/// `call` has the exact type `Fn` of a dispatch stub and forwards to run_reduce.
template <dlprim::ReduceId id, class Fn>
struct ReduceStub {
  static_assert(!std::is_same_v<Fn, Fn>, "a row serves only stubs of the form void(TensorIterator&, scalars...): "
                                         "map the stub to null in the family's yaml and register it by hand");
};

template <dlprim::ReduceId id, class Iterator, class... Args>
  requires std::is_base_of_v<at::TensorIteratorBase, Iterator>
struct ReduceStub<id, void (*)(Iterator&, Args...)> {
  static void call(Iterator& it, Args... args) {
    with_stub_scalars([&](c10::ArrayRef<c10::Scalar> scalars) { run_reduce(it, id, scalars); },
                      static_cast<const std::decay_t<Args>&>(args)...);
  }
};

}  // namespace pytorch_ocl
