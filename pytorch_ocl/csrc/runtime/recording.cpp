// SPDX-License-Identifier: MIT
// Graphs that torch.compile(mode="reduce-overhead") records and replays, as operators.
#include <ATen/EmptyTensor.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorImpl.h>
#include <dlprim/runtime/recording.hpp>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "device.hpp"
#include "device_index.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

using Piece = dlprim::Recording::Piece;

// How a replay makes one of its results: in memory of its own, in that of an earlier result, or as a view of an input
// or of a constant.
struct Result {
  enum { own, earlier, input, constant } where;
  std::size_t index = 0;  // of the earlier result, the input or the constant
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;  // in elements; of views, from the start of what they view
  std::int64_t storage_bytes = 0;
  at::TensorOptions options;
};

struct Graph {
  dlprim::Recording recording;
  std::vector<at::Tensor> constants{};
  std::vector<Result> results{};
  explicit Graph(dlprim::Queue& queue) : recording(queue) {}
};

struct Graphs {
  std::mutex mutex;
  std::int64_t next = 0;
  std::unordered_map<std::int64_t, std::shared_ptr<Graph>> all;
};

Graphs& graphs() {
  static auto* instance = new Graphs;
  return *instance;
}

std::shared_ptr<Graph> graph_of(std::int64_t number) {
  std::lock_guard guard(graphs().mutex);
  return graphs().all.at(number);
}

Piece extent(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {{}, 0};
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); d++) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {buffer_of(tensor), std::size_t(last + 1) * tensor.element_size()};
}

Piece storage_extent(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return {dlprim::Allocator::locate(storage.data()), storage.nbytes()};
}

std::int64_t start(dlprim::Queue& queue) {
  std::lock_guard guard(graphs().mutex);
  graphs().all.emplace(graphs().next, std::make_shared<Graph>(queue));
  return graphs().next++;
}

std::int64_t record_launches(std::int64_t index) {
  return translated([&] { return start(current_queue(c10::Device(device_type, device_index(index)))); });
}

void drop(std::int64_t number) {
  std::shared_ptr<Graph> last;  // destroyed without the lock
  std::lock_guard guard(graphs().mutex);
  const auto found = graphs().all.find(number);
  if (found == graphs().all.end()) return;
  last = std::move(found->second);
  graphs().all.erase(found);
}

// The index of the tensor whose memory `result` views, or the count.
std::size_t viewed(const at::Tensor& result, at::TensorList tensors) {
  std::size_t i = 0;
  while (i < tensors.size() && !(tensors[i].defined() && tensors[i].is_alias_of(result))) i++;
  return i;
}

Result describe(const at::Tensor& result, at::TensorList inputs, const std::vector<at::Tensor>& constants,
                at::TensorList earlier) {
  Result made{Result::own,
              0,
              result.sizes().vec(),
              result.strides().vec(),
              result.storage_offset(),
              std::int64_t(result.storage().nbytes()),
              result.options()};
  if (const std::size_t i = viewed(result, inputs); i < inputs.size())
    made.where = Result::input, made.index = i, made.offset -= inputs[i].storage_offset();
  else if (const std::size_t j = viewed(result, constants); j < constants.size())
    made.where = Result::constant, made.index = j, made.offset -= constants[j].storage_offset();
  else if (const std::size_t k = viewed(result, earlier); k < earlier.size())
    made.where = Result::earlier, made.index = k;
  return made;
}

std::string finish(std::int64_t number, std::vector<at::Tensor> inputs, std::vector<at::Tensor> constants,
                   std::vector<at::Tensor> results) {
  return translated([&] {
    const auto graph = graph_of(number);
    graph->constants = std::move(constants);
    std::vector<Piece> given, fixed;
    for (const at::Tensor& input : inputs) given.push_back(extent(input));
    for (const at::Tensor& constant : graph->constants) fixed.push_back(storage_extent(constant));
    for (std::size_t i = 0; i < results.size(); i++) {
      const Result made = describe(results[i], inputs, graph->constants, at::TensorList(results).slice(0, i));
      if (made.where == Result::own) given.push_back(storage_extent(results[i]));
      graph->results.push_back(made);
    }
    return graph->recording.finish(given, fixed);
  });
}

// A tensor of other sizes, type and offset in the memory of `base`.
at::Tensor view_as(const at::Tensor& base, const Result& made, std::int64_t offset) {
  auto view =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(base.storage()), base.key_set(), made.options.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes, made.strides, offset);
  return view;
}

at::Tensor make(const Result& made, at::TensorList inputs, const std::vector<at::Tensor>& constants,
                const std::vector<at::Tensor>& earlier) {
  switch (made.where) {
    case Result::input: return view_as(inputs[made.index], made, inputs[made.index].storage_offset() + made.offset);
    case Result::constant:
      return view_as(constants[made.index], made, constants[made.index].storage_offset() + made.offset);
    case Result::earlier: return view_as(earlier[made.index], made, made.offset);
    default: break;
  }
  const std::int64_t plain = std::int64_t(
      at::detail::computeStorageNbytes(made.sizes, made.strides, made.options.dtype().itemsize(), made.offset));
  if (made.offset == 0 && made.storage_bytes <= plain + 511)
    return at::empty_strided(made.sizes, made.strides, made.options);
  return view_as(at::empty_strided({made.storage_bytes}, {1}, made.options.dtype(at::kByte)), made, made.offset);
}

// No results and false where the recording does not fit these inputs.
std::tuple<bool, std::vector<at::Tensor>> replay(std::int64_t number, std::vector<at::Tensor> inputs) {
  return translated([&]() -> std::tuple<bool, std::vector<at::Tensor>> {
    const auto graph = graph_of(number);
    dlprim::Recording& recording = graph->recording;
    const c10::Device where(device_type, c10::DeviceIndex(recording.queue().device().index()));
    // A graph of the program's own does not keep a recording's memory.
    if (&current_queue(where) != &recording.queue() || recording.queue().capture()) return {false, {}};
    std::vector<dlprim::BufferRef> given;
    given.reserve(inputs.size() + graph->results.size());
    for (const at::Tensor& input : inputs) given.push_back(extent(input).start);
    std::vector<at::Tensor> results;
    results.reserve(graph->results.size());
    for (const Result& made : graph->results) {
      results.push_back(make(made, inputs, graph->constants, results));
      if (made.where == Result::own) given.push_back(storage_extent(results.back()).start);
    }
    if (!recording.fits(given)) return {false, {}};
    recording.replay(given);
    return {true, std::move(results)};
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("graph_record(int device) -> int", &record_launches);
  m.def("graph_finish(int graph, Tensor[] inputs, Tensor[] constants, Tensor[] results) -> str", &finish);
  m.def("graph_replay(int graph, Tensor[] inputs) -> (bool, Tensor[])", &replay);
  m.def("graph_drop(int graph) -> ()", &drop);
}

}  // namespace pytorch_ocl
