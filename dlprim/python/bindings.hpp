// SPDX-License-Identifier: MIT
// The Python module's parts. Arrays cross as their dtype's name, shape and bytes, since NumPy knows bfloat16 only by an
// extension; dlprim/_arrays.py makes arrays of these and takes them apart.
#pragma once
#include <dlprim/dlprim.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace dlprim::python {

namespace nb = nanobind;
using namespace nb::literals;

/// A tensor as Python knows it: with the queue that its elements move on.
struct DeviceTensor {
  ExecutionContext context;
  Tensor tensor;
};

/// A tensor on the host with the elements of an array: NumPy, anything in host memory with __dlpack__, numbers.
Tensor to_tensor(nb::handle array);
/// A new NumPy array; waits for the device.
nb::object to_array(const ExecutionContext& context, const Tensor& tensor);

void bind_language(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_net(nb::module_& m);
void bind_training(nb::module_& m);

}  // namespace dlprim::python
