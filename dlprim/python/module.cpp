// SPDX-License-Identifier: MIT
#include "bindings.hpp"

using namespace dlprim;
using namespace dlprim::python;

namespace {

// An exception of Python for E and what derives from it. Messages may quote files, whose names need not be UTF-8.
template <class E>
void add_exception(nb::module_& m, const char* name, PyObject* base) {
  const nb::object type = nb::exception<E>(m, name, base);
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const E& error) {
          const std::string_view what = error.what();
          PyObject* text = PyUnicode_DecodeUTF8(what.data(), Py_ssize_t(what.size()), "backslashreplace");
          if (!text) return;
          PyErr_SetObject(static_cast<PyObject*>(type), text);
          Py_DECREF(text);
        }
      },
      type.ptr());
}

void bind_errors(nb::module_& m) {
  add_exception<Error>(m, "Error", PyExc_RuntimeError);
  add_exception<ValidationError>(m, "ValidationError", PyExc_ValueError);
  add_exception<NotImplementedError>(m, "NotSupportedError", PyExc_NotImplementedError);
  add_exception<IndexError>(m, "IndexError", PyExc_IndexError);
  add_exception<OutOfMemoryError>(m, "OutOfMemoryError", PyExc_MemoryError);
}

void bind_context(nb::module_& m) {
  nb::class_<ExecutionContext>(m, "ExecutionContext", "A queue on which a network's work is enqueued, in order.")
      .def("finish", &ExecutionContext::finish, nb::call_guard<nb::gil_scoped_release>(),
           "Blocks until everything has run.");
  nb::class_<Context>(m, "Context", "The device that a network lives on.")
      .def(nb::init<>(), "The first device, GPUs before CPUs.")
      .def(nb::init<const std::string&>(), "name"_a,
           "\"platform:device\", an index, \"cpu\", \"gpu\" or a part of a name.")
      .def_prop_ro("name", &Context::name, "\"device on platform\"")
      .def_prop_ro("is_opencl_context", [](const Context&) { return true; })
      .def_prop_ro(
          "is_cpu_context", [](const Context& c) { return c.device().info().cpu; }, "Whether the device is a CPU.")
      .def("make_execution_context", &Context::make_execution_context)
      .def("__repr__", [](const Context& c) { return "<dlprim.Context " + c.name() + ">"; });
  m.def(
      "devices",
      [] {
        std::vector<std::string> names;
        for (int i = 0; i < Device::count(); i++) names.push_back(Context(Device::get(i)).name());
        return names;
      },
      "Names of all devices; the position is the index.");
}

void bind_models(nb::module_& m) {
  nb::class_<ModelBase>(m, "Model", "A network as data.");
  nb::class_<ONNXModel, ModelBase>(m, "ONNXModel", "A network in an ONNX file.")
      .def(nb::init<>())
      .def("load", &ONNXModel::load, "path"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "load_bytes",
          [](ONNXModel& model, nb::bytes data, const std::string& folder) {
            const std::span bytes(reinterpret_cast<const std::byte*>(data.c_str()), data.size());
            nb::gil_scoped_release release;
            model.load_bytes(bytes, folder);
          },
          "data"_a, "folder"_a = "", "The same from memory; `folder` holds external data.")
      .def("set_batch", &ONNXModel::set_batch, "size"_a, "Sets the first dimension of every input where it is open.")
      .def("set_dynamic_axis", &ONNXModel::set_dynamic_axis, "name"_a, "size"_a);
  nb::class_<JSONModel, ModelBase>(m, "JSONModel", "A network in JSON.")
      .def(nb::init<>())
      .def("load", &JSONModel::load, "path"_a)
      .def("load_text", [](JSONModel& model, const std::string& text) { model.load_text(text); }, "text"_a);
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "What dlprim computes; import dlprim instead.";
  bind_errors(m);
  bind_context(m);
  bind_tensor(m);
  bind_models(m);
  bind_net(m);
  bind_language(m);
  bind_training(m);
}
