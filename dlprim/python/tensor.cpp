// SPDX-License-Identifier: MIT
#include <nanobind/ndarray.h>

#include "bindings.hpp"

namespace dlprim::python {

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object arrays() { return nb::module_::import_("dlprim._arrays"); }

// Replaces the elements of memory that others share.
void write(const DeviceTensor& to, nb::handle array) {
  const Tensor from = to_tensor(array);
  if (from.dtype() != to.tensor.dtype() || from.shape() != to.tensor.shape())
    throw ValidationError(std::string("[Tensor] expected ") + name(to.tensor.dtype()) + " " + to.tensor.shape().text() +
                          ", got " + name(from.dtype()) + " " + from.shape().text());
  nb::gil_scoped_release release;
  const std::vector<std::byte> elements = from.host();
  Tensor target = to.tensor;
  target.to_device(to.context, static_cast<const void*>(elements.data()));
}

nb::tuple sizes(const Tensor& tensor) { return nb::tuple(nb::cast(tensor.shape().sizes())); }

}  // namespace

Tensor to_tensor(nb::handle array) {
  const nb::tuple parts = nb::cast<nb::tuple>(arrays().attr("to_core")(array));
  const DataType type = parse_data_type(nb::cast<std::string>(parts[0]));
  const Shape shape(nb::cast<std::vector<std::int64_t>>(parts[1]));
  const Bytes bytes = nb::cast<Bytes>(parts[2]);
  if (std::size_t(shape.total_size()) * size_of(type) != bytes.size())
    throw ValidationError("[Tensor] " + std::to_string(bytes.size()) + " bytes are no " + name(type) + " " +
                          shape.text());
  return Tensor::from_host(type, shape, bytes.data());
}

nb::object to_array(const ExecutionContext& context, const Tensor& tensor) {
  auto* data = new std::uint8_t[std::max<std::size_t>(1, tensor.bytes())];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint8_t*>(p); });
  {
    nb::gil_scoped_release release;
    tensor.to_host(context, static_cast<void*>(data));
  }
  const nb::ndarray<nb::numpy, std::uint8_t> bytes(data, {tensor.bytes()}, owner);
  return arrays().attr("from_core")(std::string(name(tensor.dtype())), tensor.shape().sizes(), bytes);
}

void bind_tensor(nb::module_& m) {
  nb::class_<DeviceTensor>(m, "Tensor", "Numbers of one type in device memory.")
      .def(
          "__init__",
          [](DeviceTensor* self, const Context& context, const std::vector<std::int64_t>& shape,
             const std::string& dtype) {
            new (self)
                DeviceTensor{context.make_execution_context(), Tensor(context, Shape(shape), parse_data_type(dtype))};
          },
          "context"_a, "shape"_a, "dtype"_a = "float32", "Uninitialized memory.")
      .def_static(
          "from_array",
          [](const Context& context, nb::handle array) {
            const Tensor host = to_tensor(array);
            const ExecutionContext queue = context.make_execution_context();
            return DeviceTensor{queue, host.clone(queue.queue())};
          },
          "context"_a, "array"_a, "A tensor with the elements of an array (NumPy, DLPack, numbers).")
      .def_prop_ro(
          "shape", [](const DeviceTensor& t) { return sizes(t.tensor); }, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("dtype", [](const DeviceTensor& t) { return std::string(name(t.tensor.dtype())); })
      .def(
          "reshape",
          [](const DeviceTensor& t, const std::vector<std::int64_t>& shape) {
            const Shape to(shape);
            if (!t.tensor.is_contiguous() || to.total_size() != t.tensor.numel())
              throw ValidationError("[Tensor] " + t.tensor.shape().text() + " cannot become " + to.text());
            return DeviceTensor{t.context, t.tensor.strided(to, contiguous_strides(to))};
          },
          "shape"_a, "The same memory with other sizes.")
      .def("to_device", &write, "array"_a, "Copies an array of the tensor's dtype and shape into it.")
      .def(
          "to_host", [](const DeviceTensor& t) { return to_array(t.context, t.tensor); },
          nb::sig("def to_host(self) -> numpy.ndarray"), "A new NumPy array; waits for the device.")
      .def(
          "numpy", [](const DeviceTensor& t) { return to_array(t.context, t.tensor); },
          nb::sig("def numpy(self) -> numpy.ndarray"))
      .def("__array__", [](const DeviceTensor& t, nb::args, nb::kwargs) { return to_array(t.context, t.tensor); })
      // Device memory is nothing that others could read: they get a copy on the host.
      .def("__dlpack__",
           [](const DeviceTensor& t, nb::kwargs) { return to_array(t.context, t.tensor).attr("__dlpack__")(); })
      .def("__dlpack_device__", [](const DeviceTensor&) { return nb::make_tuple(1, 0); })
      .def("__repr__", [](const DeviceTensor& t) {
        return std::string("<dlprim.Tensor ") + name(t.tensor.dtype()) + " " + t.tensor.shape().text() + ">";
      });
}

}  // namespace dlprim::python
