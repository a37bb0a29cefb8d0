// SPDX-License-Identifier: MIT
// torch.lstm and torch.gru, layer by layer.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <torch/library.h>

#include "generated/functions/rnn_layers.h"
#include "rnn_layer.hpp"

namespace pytorch_ocl::ops {

namespace {

using at::Tensor;

// A call of torch.lstm or, without `cell`, torch.gru.
struct Call {
  Tensor input, state, cell;
  at::TensorList weights;
  bool biases, train, bidirectional, batch_first;
  int64_t layers;
  double dropout;

  bool gru() const { return !cell.defined(); }
  int64_t directions() const { return bidirectional ? 2 : 1; }

  // Whether the functions here take the call. PyTorch's composites take the others and say what is wrong.
  bool served() const {
    if (at::autocast::is_autocast_enabled(at::kPrivateUse1) || input.dim() != 3 || input.numel() == 0 || layers < 1 ||
        c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
      return false;
    const int64_t batch = input.size(batch_first ? 0 : 1), width = state.dim() == 3 ? state.size(2) : 0;
    const std::vector<int64_t> states{layers * directions(), batch, width};
    if (width == 0 || state.sizes() != states || (!gru() && cell.sizes() != states)) return false;
    if (int64_t(weights.size()) != layers * directions() * (biases ? 4 : 2)) return false;
    std::vector<Tensor> all(weights.begin(), weights.end());
    all.insert(all.end(), {input, state});
    if (!gru()) all.push_back(cell);
    return fit(all, width) && at::isFloatingType(input.scalar_type());
  }

  // Input (steps, batch, features) -> output, last states and last cells.
  std::vector<Tensor> run() const {
    Tensor x = batch_first ? input.transpose(0, 1) : input;
    std::vector<Tensor> states, cells;
    for (int64_t layer = 0; layer < layers; layer++) {
      std::vector<Tensor> outputs;
      for (int64_t direction = 0; direction < directions(); direction++) {
        const int64_t number = layer * directions() + direction;
        const auto weight = weights.begin() + number * (biases ? 4 : 2);
        const std::vector<Tensor> results =
            run_layer({gru(), direction == 1, x, state.select(0, number), gru() ? Tensor() : cell.select(0, number),
                       weight[0], weight[1], biases ? weight[2] : Tensor(), biases ? weight[3] : Tensor()});
        outputs.push_back(results[0]), states.push_back(results[1]), cells.push_back(results[2]);
      }
      x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, 2);
      if (train && dropout != 0 && layer + 1 < layers) x = at::dropout(x, dropout, true);
    }
    return {batch_first ? x.transpose(0, 1) : x, at::stack(states), gru() ? Tensor() : at::stack(cells)};
  }

 private:
  bool fit(const std::vector<Tensor>& all, int64_t width) const {
    const int64_t gates = (gru() ? 3 : 4) * width, each = biases ? 4 : 2;
    for (const Tensor& tensor : all)
      if (tensor.device() != input.device() || tensor.scalar_type() != input.scalar_type() ||
          tensor._fw_grad(0).defined())
        return false;
    for (int64_t i = 0; i < int64_t(weights.size()); i++) {
      const int64_t layer = i / each / directions(), features = layer == 0 ? input.size(2) : directions() * width;
      const Tensor& w = weights[std::size_t(i)];
      const bool fits = i % each >= 2 ? w.sizes() == at::IntArrayRef{gates}
                                      : w.sizes() == at::IntArrayRef{gates, i % each == 0 ? features : width};
      if (!fits) return false;
    }
    return true;
  }
};

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lstm_input(const Tensor& input, at::TensorList hx, at::TensorList params,
                                              bool has_biases, int64_t num_layers, double dropout, bool train,
                                              bool bidirectional, bool batch_first) {
  if (hx.size() == 2 && hx[1].defined()) {
    const Call call{input, hx[0], hx[1], params, has_biases, train, bidirectional, batch_first, num_layers, dropout};
    if (call.served()) {
      const std::vector<Tensor> results = call.run();
      return {results[0], results[1], results[2]};
    }
  }
  return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
}

std::tuple<Tensor, Tensor> gru_input(const Tensor& input, const Tensor& hx, at::TensorList params, bool has_biases,
                                     int64_t num_layers, double dropout, bool train, bool bidirectional,
                                     bool batch_first) {
  const Call call{input, hx, {}, params, has_biases, train, bidirectional, batch_first, num_layers, dropout};
  if (!call.served())
    return at::native::gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
  const std::vector<Tensor> results = call.run();
  return {results[0], results[1]};
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("lstm.input", lstm_input);
  m.impl("gru.input", gru_input);
}

}  // namespace pytorch_ocl::ops
