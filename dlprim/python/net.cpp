// SPDX-License-Identifier: MIT
#include "bindings.hpp"

namespace dlprim::python {

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

ExecutionContext queue_of(const Net& net) { return net.context().make_execution_context(); }

// Inputs and outputs go by number or name.
int input_index(const Net& net, nb::handle key) {
  if (nb::isinstance<nb::str>(key)) return net.input_index(nb::cast<std::string>(key));
  const int i = nb::cast<int>(key);
  if (i < 0 || i >= net.inputs())
    throw ValidationError("[Net] expected an input of 0 to " + std::to_string(net.inputs() - 1) + ", got " +
                          std::to_string(i));
  return i;
}

int output_index(const Net& net, nb::handle key) {
  if (nb::isinstance<nb::str>(key)) return net.output_index(nb::cast<std::string>(key));
  const int i = nb::cast<int>(key);
  if (i < 0 || i >= net.outputs())
    throw ValidationError("[Net] expected an output of 0 to " + std::to_string(net.outputs() - 1) + ", got " +
                          std::to_string(i));
  return i;
}

nb::object info_shape(const ValueInfo& value) {
  if (!value.ranked) return nb::none();
  nb::list shape;
  for (int d = 0; d < value.shape.size(); d++) {
    if (value.shape[d] >= 0) shape.append(value.shape[d]);
    else if (!value.names[std::size_t(d)].empty()) shape.append(value.names[std::size_t(d)]);
    else shape.append(nb::none());
  }
  return shape;
}

std::string info_type(const ValueInfo& value) {
  const std::string dtype = name(value.dtype);
  const std::string element = dtype == "float32" ? "float" : dtype == "float64" ? "double" : dtype;
  std::string type = "tensor(" + element + ")";
  if (value.sequence) type = "seq(" + type + ")";
  if (value.optional) type = "optional(" + type + ")";
  return type;
}

void set_input(Net& net, nb::handle key, nb::handle value) {
  const int i = input_index(net, key);
  DeviceTensor device{queue_of(net), {}};
  if (value.is_none()) {
    net.set_input_empty(i);
  } else if (nb::isinstance<nb::list>(value) && net.input_info(i).sequence) {
    std::vector<Tensor> tensors;
    for (nb::handle element : nb::cast<nb::list>(value)) tensors.push_back(to_tensor(element));
    net.set_input_sequence(i, std::move(tensors));
  } else if (nb::isinstance<DeviceTensor>(value)) {
    net.set_input(i, nb::cast<DeviceTensor>(value).tensor);
  } else {
    net.set_input(i, to_tensor(value));
  }
}

nb::object output_array(Net& net, int i) {
  const ExecutionContext queue = queue_of(net);
  if (!net.output_present(i)) return nb::none();
  const std::vector<Tensor>* sequence = net.output_sequence(i);
  if (!sequence) return to_array(queue, net.output(i));
  nb::list list;
  for (const Tensor& tensor : *sequence) list.append(to_array(queue, tensor));
  return list;
}

nb::object defined(Net& net, const Tensor& tensor) {
  if (!tensor.defined()) return nb::none();
  return nb::cast(DeviceTensor{queue_of(net), tensor});
}

NamedTensors named(const nb::dict& arrays) {
  NamedTensors tensors;
  for (const auto& [key, value] : arrays) tensors[nb::cast<std::string>(key)] = to_tensor(value);
  return tensors;
}

template <class Function>
nb::list infos(const Net& net, int count, Function get) {
  nb::list list;
  for (int i = 0; i < count; i++) list.append(nb::cast((net.*get)(i)));
  return list;
}

void bind_parameters(nb::class_<Net>& net) {
  net.def("param_names", &Net::param_names)
      .def(
          "param", [](Net& n, const std::string& name) { return DeviceTensor{queue_of(n), n.param(name)}; }, "name"_a,
          "Memory of a parameter.")
      .def(
          "param_diff", [](Net& n, const std::string& name) { return defined(n, n.param_diff(name)); }, "name"_a,
          nb::sig("def param_diff(self, name: str) -> Tensor | None"), "Its gradient, or None before backward().")
      .def("trainable", &Net::trainable, "name"_a)
      .def("freeze", &Net::freeze, "name"_a, "frozen"_a = true)
      .def("initialize_parameters", &Net::initialize_parameters, "seed"_a = 0)
      .def(
          "load_parameters",
          [](Net& n, const std::string& path, bool allow_missing) { n.load_parameters(path, allow_missing); }, "path"_a,
          "allow_missing"_a = false, Release(), "Reads a DLP, HDF5 or safetensors file.")
      .def(
          "load_parameters",
          [](Net& n, const nb::dict& arrays, bool allow_missing) { n.load_parameters(named(arrays), allow_missing); },
          "arrays"_a, "allow_missing"_a = false, "The same from a dictionary of arrays.")
      .def("save_parameters", &Net::save_parameters, "path"_a, Release(),
           "By the name's end: .h5, .safetensors, else DLP.")
      .def(
          "parameters",
          [](Net& n) {
            nb::dict all;
            for (const auto& [name, tensor] : n.parameters())
              all[nb::str(name.c_str())] = to_array(queue_of(n), tensor);
            return all;
          },
          nb::sig("def parameters(self) -> dict[str, numpy.ndarray]"), "Copies of all parameters.");
}

void bind_gradients(nb::class_<Net>& net) {
  net.def("set_loss_weight", &Net::set_loss_weight, "output"_a, "weight"_a)
      .def("loss_weight", &Net::loss_weight, "output"_a)
      .def("want_gradient", &Net::want_gradient, "name"_a)
      .def(
          "tensor_diff", [](Net& n, const std::string& name) { return defined(n, n.tensor_diff(name)); }, "name"_a,
          nb::sig("def tensor_diff(self, name: str) -> Tensor | None"))
      .def(
          "output_diff", [](Net& n, const std::string& name) { return DeviceTensor{queue_of(n), n.output_diff(name)}; },
          "output"_a)
      .def("zero_grad", &Net::zero_grad)
      .def(
          "backward", [](Net& n, std::optional<ExecutionContext>) { n.backward(queue_of(n)); },
          "context"_a = nb::none(), Release(),
          "Enqueues the gradients of the last forward(), which ran in mode TRAIN.");
}

}  // namespace

void bind_net(nb::module_& m) {
  nb::class_<ValueInfo>(m, "ValueInfo", "What is known about an input or output.")
      .def_ro("name", &ValueInfo::name)
      .def_prop_ro("dtype", [](const ValueInfo& v) { return std::string(name(v.dtype)); })
      .def_prop_ro("type", &info_type, "As ONNX Runtime writes it: tensor(float).")
      .def_prop_ro("shape", &info_shape, nb::sig("def shape(self) -> list[int | str | None] | None"),
                   "Names or None where sizes are open; None: anything.")
      .def_ro("sequence", &ValueInfo::sequence)
      .def_ro("optional", &ValueInfo::optional)
      .def("__repr__", [](const ValueInfo& v) {
        return "<" + v.name + ": " + info_type(v) + " " + nb::cast<std::string>(nb::str(info_shape(v))) + ">";
      });
  nb::enum_<CalculationsMode>(m, "CalculationsMode")
      .value("TRAIN", CalculationsMode::train)
      .value("PREDICT", CalculationsMode::predict);
  nb::class_<Net> net(m, "Net", "A network on a device.");
  net.def(nb::init<const Context&>(), "context"_a)
      .def("__init__", [](Net* self) { new (self) Net(Context()); })
      .def_prop_ro("context", [](const Net& n) { return n.context(); })
      .def_prop_rw(
          "mode", [](const Net& n) { return n.mode(); }, [](Net& n, CalculationsMode mode) { n.mode(mode); })
      .def(
          "load_model", [](Net& n, const ModelBase& model) { n.load_model(model); }, "model"_a, Release(),
          "Raises NotSupportedError that lists every node without an operator.")
      .def("load_from_json", &Net::load_from_json, "text"_a)
      .def("load_from_json_file", &Net::load_from_json_file, "path"_a)
      .def_prop_ro(
          "inputs", [](const Net& n) { return infos(n, n.inputs(), &Net::input_info); },
          nb::sig("def inputs(self) -> list[ValueInfo]"))
      .def_prop_ro(
          "outputs", [](const Net& n) { return infos(n, n.outputs(), &Net::output_info); },
          nb::sig("def outputs(self) -> list[ValueInfo]"))
      .def(
          "input", [](Net& n, nb::handle key) { return DeviceTensor{queue_of(n), n.input(input_index(n, key))}; },
          "key"_a, nb::sig("def input(self, key: int | str) -> Tensor"), "Memory of an input, to be filled.")
      .def("set_input", &set_input, "key"_a, "array"_a.none(),
           nb::sig("def set_input(self, key: int | str, array: object) -> None"),
           "Uses an array or Tensor as input from now on.")
      .def(
          "reshape_input",
          [](Net& n, nb::handle key, const std::vector<std::int64_t>& shape) {
            n.reshape_input(input_index(n, key), Shape(shape));
          },
          "key"_a, "shape"_a,
          nb::sig("def reshape_input(self, key: int | str, shape: collections.abc.Sequence[int]) -> None"))
      .def("set_batch", &Net::set_batch, "size"_a, "Gives every input another first dimension.")
      .def(
          "forward", [](Net& n, std::optional<ExecutionContext>) { n.forward(queue_of(n)); }, "context"_a = nb::none(),
          Release(), "Enqueues the whole network.")
      .def(
          "output", [](Net& n, nb::handle key) { return DeviceTensor{queue_of(n), n.output(output_index(n, key))}; },
          "key"_a, nb::sig("def output(self, key: int | str) -> Tensor"))
      .def(
          "output_array", [](Net& n, nb::handle key) { return output_array(n, output_index(n, key)); }, "key"_a,
          nb::sig("def output_array(self, key: int | str) -> numpy.ndarray | list[numpy.ndarray] | None"),
          "An output as an array, a list of arrays (sequence) or None (absent).")
      .def("keep_intermediate_tensors", &Net::keep_intermediate_tensors, "keep"_a = true)
      .def(
          "tensor", [](Net& n, const std::string& name) { return DeviceTensor{queue_of(n), n.tensor(name)}; },
          "name"_a);
  bind_parameters(net);
  bind_gradients(net);
}

}  // namespace dlprim::python
