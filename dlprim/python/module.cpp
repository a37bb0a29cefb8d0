// SPDX-License-Identifier: MIT
// The part of the Python module that is C++. Arrays cross as their dtype's name, shape and bytes, since NumPy knows
// bfloat16 only by an extension; dlprim/__init__.py makes arrays of them.
#include <dlprim/dlprim.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

namespace nb = nanobind;
using namespace nb::literals;
using namespace dlprim;

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using HostArray = std::tuple<std::string, std::vector<std::int64_t>, Bytes>;

Tensor to_tensor(const HostArray& array) {
  const auto& [dtype, shape, bytes] = array;
  const DataType type = parse_data_type(dtype);
  std::size_t expected = size_of(type);
  for (std::int64_t size : shape) expected *= std::size_t(size);
  if (expected != bytes.size())
    throw ValidationError("[Tensor] expected " + std::to_string(expected) + " bytes, got " + std::to_string(bytes.size()));
  return Tensor::from_host(type, Shape(shape), bytes.data());
}

nb::tuple to_python(const ExecutionContext& context, const Tensor& tensor) {
  auto* data = new std::uint8_t[std::max<std::size_t>(1, tensor.bytes())];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint8_t*>(p); });
  {
    nb::gil_scoped_release release;
    tensor.to_host(context, static_cast<void*>(data));
  }
  nb::ndarray<nb::numpy, std::uint8_t> bytes(data, {tensor.bytes()}, owner);
  return nb::make_tuple(std::string(name(tensor.dtype())), tensor.shape().sizes(), bytes);
}

nb::object output(Net& net, int i) {
  const ExecutionContext context = net.context().make_execution_context();
  if (!net.output_present(i)) return nb::none();
  const std::vector<Tensor>* sequence = net.output_sequence(i);
  if (!sequence) return to_python(context, net.output(i));
  nb::list list;
  for (const Tensor& tensor : *sequence) list.append(to_python(context, tensor));
  return list;
}

nb::object info(const ValueInfo& value) {
  nb::list shape;
  for (int d = 0; d < value.shape.size(); d++) {
    if (value.shape[d] >= 0) shape.append(value.shape[d]);
    else if (!value.names[std::size_t(d)].empty()) shape.append(value.names[std::size_t(d)]);
    else shape.append(nb::none());
  }
  nb::object sizes = nb::none();
  if (value.ranked) sizes = shape;
  return nb::make_tuple(value.name, std::string(name(value.dtype)), sizes, value.sequence, value.optional);
}

void bind_errors(nb::module_& m) {
  auto error = nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  nb::exception<ValidationError>(m, "ValidationError", PyExc_ValueError);
  nb::exception<NotImplementedError>(m, "NotSupportedError", PyExc_NotImplementedError);
  nb::exception<IndexError>(m, "IndexError", PyExc_IndexError);
  nb::exception<OutOfMemoryError>(m, "OutOfMemoryError", PyExc_MemoryError);
}

}  // namespace

NB_MODULE(_core, m) {
  bind_errors(m);
  nb::class_<Context>(m, "Context", "The device that a network lives on.")
      .def(nb::init<>())
      .def(nb::init<const std::string&>(), "name"_a)
      .def_prop_ro("name", &Context::name);
  m.def("devices", [] {
    std::vector<std::string> names;
    for (int i = 0; i < Device::count(); i++) names.push_back(Context(Device::get(i)).name());
    return names;
  });
  nb::class_<ONNXModel>(m, "ONNXModel", "A network read from an ONNX file.")
      .def(nb::init<>())
      .def("load", &ONNXModel::load, "path"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("load_bytes",
           [](ONNXModel& model, nb::bytes data, const std::string& folder) {
             const std::span bytes(reinterpret_cast<const std::byte*>(data.c_str()), data.size());
             nb::gil_scoped_release release;
             model.load_bytes(bytes, folder);
           }, "data"_a, "folder"_a = "")
      .def("set_batch", &ONNXModel::set_batch, "size"_a)
      .def("set_dynamic_axis", &ONNXModel::set_dynamic_axis, "name"_a, "size"_a);
  nb::enum_<CalculationsMode>(m, "CalculationsMode")
      .value("TRAIN", CalculationsMode::train)
      .value("PREDICT", CalculationsMode::predict);
  nb::class_<Net>(m, "Net", "A network on a device.")
      .def(nb::init<const Context&>(), "context"_a)
      .def_prop_rw("mode", [](const Net& net) { return net.mode(); }, [](Net& net, CalculationsMode mode) { net.mode(mode); })
      .def("load_model", [](Net& net, const ONNXModel& model) { net.load_model(model); }, "model"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("inputs", &Net::inputs)
      .def_prop_ro("outputs", &Net::outputs)
      .def("input_info", [](const Net& net, int i) { return info(net.input_info(i)); })
      .def("output_info", [](const Net& net, int i) { return info(net.output_info(i)); })
      .def("set_input", [](Net& net, int i, const HostArray& array) { net.set_input(i, to_tensor(array)); })
      .def("set_input_sequence",
           [](Net& net, int i, const std::vector<HostArray>& arrays) {
             std::vector<Tensor> tensors;
             for (const HostArray& array : arrays) tensors.push_back(to_tensor(array));
             net.set_input_sequence(i, std::move(tensors));
           })
      .def("set_input_empty", &Net::set_input_empty)
      .def("forward", [](Net& net) { net.forward(net.context().make_execution_context()); },
           nb::call_guard<nb::gil_scoped_release>())
      .def("output", &output);
}
