// SPDX-License-Identifier: MIT
#include <nanobind/stl/function.h>

#include "bindings.hpp"

namespace dlprim::python {

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using KeepNet = nb::keep_alive<1, 2>;

ExecutionContext queue_of(const Solver& solver) { return solver.net().context().make_execution_context(); }

void bind_solvers(nb::module_& m) {
  nb::class_<Solver>(m, "Solver", "Changes a net's parameters by their gradients: zero_grad, forward, backward, step.")
      .def_rw("lr", &Solver::lr, "Learning rate while there is no schedule.")
      .def_prop_rw(
          "schedule", [](const Solver& s) { return s.schedule; },
          [](Solver& s, std::optional<Schedule> schedule) { s.schedule = schedule ? *schedule : Schedule(); },
          nb::for_setter(nb::arg("schedule").none()), "A function of the step that gives the learning rate.")
      .def_prop_ro("steps", &Solver::steps)
      .def("zero_grad", &Solver::zero_grad)
      .def(
          "step", [](Solver& s, std::optional<ExecutionContext>) { s.step(queue_of(s)); }, "context"_a = nb::none(),
          Release())
      .def(
          "state",
          [](const Solver& s) {
            nb::dict all;
            for (const auto& [name, tensor] : s.state()) all[nb::str(name.c_str())] = to_array(queue_of(s), tensor);
            return all;
          },
          nb::sig("def state(self) -> dict[str, numpy.ndarray]"), "What goes on from one step to the next.")
      .def(
          "load_state",
          [](Solver& s, const nb::dict& arrays) {
            NamedTensors tensors;
            for (const auto& [key, value] : arrays) tensors[nb::cast<std::string>(key)] = to_tensor(value);
            s.load_state(tensors);
          },
          "arrays"_a);
  nb::class_<SGD, Solver>(m, "SGD", "Stochastic gradient descent with momentum.")
      .def(nb::init<Net&, double, double, double, bool>(), KeepNet(), "net"_a, "lr"_a = 0.1, "momentum"_a = 0.9,
           "weight_decay"_a = 5e-4, "nesterov"_a = false)
      .def_rw("momentum", &SGD::momentum)
      .def_rw("weight_decay", &SGD::weight_decay);
  nb::class_<Adam, Solver>(m, "Adam", "Kingma and Ba 2015, with weight decay as part of the gradient.")
      .def(nb::init<Net&, double, double, double, double, double>(), KeepNet(), "net"_a, "lr"_a = 1e-3, "beta1"_a = 0.9,
           "beta2"_a = 0.999, "eps"_a = 1e-8, "weight_decay"_a = 5e-4)
      .def_rw("weight_decay", &Adam::weight_decay);
  nb::class_<AdamW, Adam>(m, "AdamW", "Loshchilov and Hutter 2019: decay apart from the gradient.")
      .def(nb::init<Net&, double, double, double, double, double>(), KeepNet(), "net"_a, "lr"_a = 1e-3, "beta1"_a = 0.9,
           "beta2"_a = 0.999, "eps"_a = 1e-8, "weight_decay"_a = 1e-2);
}

void bind_schedules(nb::module_ m) {
  m.doc() = "Learning rates as functions of the step.";
  m.def("constant", &schedules::constant, "lr"_a);
  m.def("step", &schedules::step, "lr"_a, "size"_a, "gamma"_a = 0.1);
  m.def("multistep", &schedules::multistep, "lr"_a, "milestones"_a, "gamma"_a = 0.1);
  m.def("exponential", &schedules::exponential, "lr"_a, "gamma"_a);
  m.def("cosine", &schedules::cosine, "lr"_a, "steps"_a, "lowest"_a = 0.);
  m.def("warm_up", &schedules::warm_up, "steps"_a, "then"_a, "start"_a = 0.);
  m.def("one_cycle", &schedules::one_cycle, "highest"_a, "steps"_a, "rise"_a = 0.3, "division"_a = 25.,
        "final_division"_a = 1e4);
}

void bind_files(nb::module_& m) {
  m.def(
      "read_parameters",
      [](const std::string& path) {
        nb::dict all;
        const Context context;
        for (const auto& [name, tensor] : read_parameters(path))
          all[nb::str(name.c_str())] = to_array(context.make_execution_context(), tensor);
        return all;
      },
      "path"_a, nb::sig("def read_parameters(path: str) -> dict[str, numpy.ndarray]"),
      "A DLP, HDF5 or safetensors file as arrays.");
  m.def(
      "write_parameters",
      [](const std::string& path, const nb::dict& arrays) {
        NamedTensors tensors;
        for (const auto& [key, value] : arrays) tensors[nb::cast<std::string>(key)] = to_tensor(value);
        write_parameters(path, tensors);
      },
      "path"_a, "arrays"_a, "By the name's end: .h5, .safetensors, else DLP.");
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_solvers(m);
  bind_schedules(m.def_submodule("schedules"));
  bind_files(m);
}

}  // namespace dlprim::python
