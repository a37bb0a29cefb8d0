// SPDX-License-Identifier: MIT
#include <dlprim/primitives/rnn.hpp>
#include <dlprim/runtime/launch.hpp>

#include "check.hpp"
#include "grid.hpp"

namespace dlprim {

namespace {

enum Operation : std::uint8_t { lstm, lstm_backward, gru, gru_backward };
constexpr const char* kernels[] = {"lstm", "lstm_backward", "gru", "gru_backward"};
constexpr const char* cells[] = {"lstm cell", "lstm_backward cell", "gru cell", "gru_backward cell"};  // in messages

struct Key {
  Operation operation;
  DataType type;
  std::uint8_t first, second;  // which optional inputs there are
};

// The struct of rnn.cl.
struct Cell {
  cl_long rows, width;
  cl_long stride[4];
};

// One call: its sizes come from a state (rows, width), against which every other operand is checked.
class Call {
 public:
  Call(Operation operation, const TensorView& state, std::int64_t width)
      : operation_(operation), type_(state.dtype), cell_{state.size(0), width, {}} {
    DLPRIM_EXPECT(is_floating(type_), cells[operation_], "a floating dtype, got ", type_);
  }

  // An input of `gates` * width columns whose rows may have gaps; undefined ones are left out.
  const BufferRef& input(const TensorView& view, int gates) {
    expect(!view.defined() || (fits(view, gates) && (view.size(1) <= 1 || view.stride(1) == 1)), gates);
    cell_.stride[inputs_++] = view.defined() ? view.stride(0) : 0;
    return view.data;
  }
  const BufferRef& dense(const TensorView& view, int gates) const {
    expect(fits(view, gates) && view.is_contiguous(), gates);
    return view.data;
  }
  const BufferRef& bias(const TensorView& view, int gates) const {
    DLPRIM_EXPECT(
        !view.defined() || (view.numel() == gates * cell_.width && view.dtype == type_ && view.is_contiguous()),
        cells[operation_], "contiguous biases of ", gates * cell_.width, " elements in the gates' dtype");
    return view.data;
  }

  template <class... Arguments>
  void run(Queue& queue, bool first, bool second, const Arguments&... arguments) const {
    static KernelCache<Key> cache;
    Kernel& kernel = cache.get(queue.device(), Key{operation_, type_, first, second}, [&] {
      KernelSource source("rnn.cl", kernels[operation_]);
      const bool backward = operation_ == lstm_backward;
      source.define("T", tag(type_));
      if (first) source.define(backward ? "WITH_GRAD_NEXT" : "WITH_INPUT_BIAS");
      if (second) source.define(backward ? "WITH_GRAD_CELL" : "WITH_HIDDEN_BIAS");
      return source;
    });
    launch(queue, kernel, Grid(cell_.width, cell_.rows, 1).range(), cell_, arguments...);
  }

 private:
  bool fits(const TensorView& view, int gates) const {
    return view.dims == 2 && view.size(0) == cell_.rows && view.size(1) == gates * cell_.width && view.dtype == type_;
  }
  void expect(bool holds, int gates) const {
    DLPRIM_EXPECT(holds, cells[operation_], "an operand of (", cell_.rows, ", ", gates * cell_.width, ") in ", type_,
                  ", dense along the last dimension");
  }

  Operation operation_;
  DataType type_;
  Cell cell_;
  int inputs_ = 0;
};

}  // namespace

void lstm_cell(Queue& queue, const CellGates& gates, const TensorView& cell, const TensorView& next,
               const TensorView& next_cell, const TensorView& workspace) {
  Call call(lstm, cell, cell.size(-1));
  const BufferRef input = call.input(gates.input, 4), hidden = call.input(gates.hidden, 4);
  const BufferRef state = call.input(cell, 1);
  call.run(queue, gates.input_bias.defined(), gates.hidden_bias.defined(), input, hidden,
           call.bias(gates.input_bias, 4), call.bias(gates.hidden_bias, 4), state, call.dense(next, 1),
           call.dense(next_cell, 1), call.dense(workspace, 4));
}

void lstm_cell_backward(Queue& queue, const TensorView& grad_next, const TensorView& grad_next_cell,
                        const TensorView& cell, const TensorView& next_cell, const TensorView& workspace,
                        const TensorView& grad_gates, const TensorView& grad_cell) {
  Call call(lstm_backward, cell, cell.size(-1));
  const BufferRef next = call.input(grad_next, 1), next_c = call.input(grad_next_cell, 1);
  const BufferRef c = call.input(cell, 1), new_c = call.input(next_cell, 1);
  call.run(queue, grad_next.defined(), grad_next_cell.defined(), next, next_c, c, new_c, call.dense(workspace, 4),
           call.dense(grad_gates, 4), call.dense(grad_cell, 1));
}

void gru_cell(Queue& queue, const CellGates& gates, const TensorView& state, const TensorView& next,
              const TensorView& workspace) {
  Call call(gru, state, state.size(-1));
  const BufferRef input = call.input(gates.input, 3), hidden = call.input(gates.hidden, 3);
  const BufferRef h = call.input(state, 1);
  call.run(queue, gates.input_bias.defined(), gates.hidden_bias.defined(), input, hidden,
           call.bias(gates.input_bias, 3), call.bias(gates.hidden_bias, 3), h, call.dense(next, 1),
           call.dense(workspace, 5));
}

void gru_cell_backward(Queue& queue, const TensorView& grad_next, const TensorView& workspace,
                       const TensorView& grad_input, const TensorView& grad_hidden, const TensorView& grad_state) {
  Call call(gru_backward, grad_next, grad_next.size(-1));
  const BufferRef grad = call.input(grad_next, 1);
  call.run(queue, false, false, grad, call.dense(workspace, 5), call.dense(grad_input, 3), call.dense(grad_hidden, 3),
           call.dense(grad_state, 1));
}

}  // namespace dlprim
