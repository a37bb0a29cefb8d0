// SPDX-License-Identifier: MIT
// Kernels that torch.compile generates, as operators that the generated programs call.
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>
#include <torch/library.h>

#include <bit>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "device.hpp"
#include "device_index.hpp"
#include "errors.hpp"
#include "fused_kernel.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

// How a kernel goes through its index space (dlprim/kernels/lib/fused_loops.clh has the loops). Items are elements of which
// work-items of CPUs, too, do one each.
enum class Form { elements, items, rows, columns };

Form form_of(const std::string& name) {
  static const std::unordered_map<std::string, Form> forms{
      {"elements", Form::elements}, {"items", Form::items}, {"rows", Form::rows}, {"columns", Form::columns}};
  const auto found = forms.find(name);
  TORCH_CHECK(found != forms.end(), "build_fused: expected the form elements, items, rows or columns, got ", name);
  return found->second;
}

// Work-items of a fused kernel on one device.
struct Geometry {
  Form form = Form::elements;
  unsigned parts = 0;  // CPUs: work-items that share the index space; 0 on GPUs
  unsigned compute_units = 1;
  unsigned vector = 1;  // neighbouring elements of a work-item
  unsigned local = 1;  // work-items of a group
  unsigned row_items = 1, group_rows = 1;  // work-items of a row, rows of a group
  bool single = false;  // CPUs: work-items do one element each
  std::int64_t tile = 0;  // of elements: the length of the rows that tiles are cut from; 0 without tiles
  unsigned trips = 0;  // that a work-item makes along a row, so few that loops are unrolled; else 0
  bool exact = false;  // trips end where the row does
};

constexpr unsigned group_size = 256;
constexpr unsigned cpu_parts = 4;  // work-items for each unit of a CPU
constexpr unsigned unrolled_trips = 8;  // at most
constexpr unsigned row_group = 128;  // work-items of a group with several rows
constexpr unsigned trips_wished = 2;
constexpr unsigned tile_vectors = 8;  // side by side in a tile

unsigned largest_power(std::size_t wish, std::size_t limit) { return unsigned(std::bit_floor(std::min(wish, limit))); }

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// `length`: elements of a row, 0 where that changes from call to call.
void lay_out_rows(Geometry& g, std::int64_t length, const dlprim::DeviceInfo& info) {
  const unsigned least = std::max(32u, info.warp);
  const std::int64_t vectors = divided_up(length, g.vector);
  const std::size_t wish =
      length ? std::bit_ceil(std::size_t(std::max<std::int64_t>(divided_up(vectors, trips_wished), 1))) : group_size;
  g.row_items = largest_power(std::max<std::size_t>(wish, least), std::min<std::size_t>(info.max_work_group, 1024));
  g.group_rows =
      g.row_items < row_group ? largest_power(row_group / g.row_items, info.max_work_group / g.row_items) : 1;
  g.local = g.row_items * g.group_rows;
  const std::int64_t trips = divided_up(vectors, g.row_items);
  g.trips = trips <= unrolled_trips ? unsigned(trips) : 0;
  g.exact = g.trips && std::int64_t(g.trips) * g.row_items * g.vector == length;
}

Geometry geometry(const std::string& form, std::int64_t length, std::int64_t vector, bool as_gpu,
                  const dlprim::DeviceInfo& info) {
  Geometry g;
  g.form = form_of(form);
  g.compute_units = info.compute_units;
  g.local = largest_power(group_size, info.max_work_group);
  if (info.cpu && !as_gpu) {
    if (g.form == Form::items) g.single = true;
    else g.parts = cpu_parts * info.compute_units;
    return g;
  }
  g.vector = unsigned(vector);
  if (g.form == Form::rows) lay_out_rows(g, length, info);
  if (g.form == Form::elements || g.form == Form::items) g.tile = length;
  return g;
}

// As dlprim/kernels/lib/fused.clh takes it.
std::string options(const Geometry& g) {
  std::string text = "-DVECTOR=" + std::to_string(g.vector);
  if (g.single) text += " -DITEMS";
  if (g.tile) text += " -DGROUP=" + std::to_string(g.local);
  if (g.form == Form::rows && !g.parts)
    text += " -DROW_ITEMS=" + std::to_string(g.row_items) + " -DGROUP_ROWS=" + std::to_string(g.group_rows) +
            " -DTRIPS=" + std::to_string(g.trips) + " -DEXACT=" + std::to_string(int(g.exact));
  return text;
}

struct FusedKernel {
  dlprim::Device& device;
  std::string source, name;
  std::vector<std::string> messages;  // of what the kernel may report
  Geometry geometry;
  std::unique_ptr<dlprim::Kernel> kernel;
  std::mutex mutex;  // of the next
  std::unique_ptr<dlprim::Kernel> unaligned;  // for tensors that start within a vector, built when they come
};

std::unique_ptr<dlprim::Kernel> build_kernel(const FusedKernel& fused, const char* more = "") {
  auto text = dlprim::KernelSource::from_text(fused.source, fused.name);
  if (fused.device.info().int64_atomics) text.define("INT64_ATOMICS");
  text.option(options(fused.geometry) + more);
  return fused.device.programs().build(text);
}

// Kernels live as long as the process: Python holds their numbers.
struct FusedKernels {
  std::mutex mutex;
  std::deque<FusedKernel> all;
};

FusedKernels& fused_kernels() {
  static auto* instance = new FusedKernels;
  return *instance;
}

}  // namespace

std::int64_t build_fused(std::string source, std::string name, std::string form, std::int64_t length,
                         std::int64_t vector, std::vector<std::string> messages, std::int64_t index, bool as_gpu) {
  return translated([&] {
    dlprim::Device& owner = device(device_index(index));
    if (as_gpu) source.insert(0, "#undef CPU_DEVICE\n");
    FusedKernels& kernels = fused_kernels();
    FusedKernel* fused;
    std::int64_t number;
    {
      std::lock_guard guard(kernels.mutex);
      number = std::int64_t(kernels.all.size());
      fused = &kernels.all.emplace_back(owner, std::move(source), std::move(name), std::move(messages),
                                        geometry(form, length, vector, as_gpu, owner.info()));
    }
    fused->kernel = build_kernel(*fused);
    return number;
  });
}

namespace {

bool aligned(const FusedKernel& fused, at::TensorList tensors, std::span<const dlprim::BufferRef> buffers) {
  if (fused.geometry.vector == 1) return true;
  for (std::size_t i = 0; i < tensors.size(); i++)
    if (buffers[i].offset % (fused.geometry.vector * tensors[i].element_size())) return false;
  return true;
}

dlprim::Kernel& kernel_for(FusedKernel& fused, bool is_aligned) {
  if (is_aligned) return *fused.kernel;
  std::lock_guard guard(fused.mutex);
  if (!fused.unaligned) fused.unaligned = build_kernel(fused, " -DUNALIGNED");
  return *fused.unaligned;
}

// The range of a launch over `items` elements, rows or columns, and what a CPU's work-item does of them.
std::pair<dlprim::NDRange, std::int64_t> launch_range(const Geometry& g, std::int64_t items) {
  if (g.parts) {
    const std::int64_t least = g.form == Form::elements ? 4096 : g.form == Form::columns ? 64 : 1;
    std::int64_t share = divided_up(items, g.parts);
    if (g.form != Form::rows) share = divided_up(share, 64) * 64;
    share = std::max(share, least);
    return {dlprim::NDRange(std::size_t(divided_up(items, share)), 1), share};
  }
  if (g.form == Form::rows)
    return {dlprim::NDRange(std::size_t(divided_up(items, g.group_rows)) * g.local, g.local), 1};
  if (g.tile) {
    const std::int64_t tiles =
        divided_up(items / g.tile, g.local / tile_vectors) * (g.tile / (tile_vectors * g.vector));
    return {dlprim::NDRange(std::size_t(tiles) * g.local, g.local), 1};
  }
  const std::int64_t work_items = divided_up(items, g.vector);
  // Few columns, which are long, are spread over all units.
  const bool few = g.form == Form::columns && work_items < std::int64_t(g.local) * g.compute_units;
  return {dlprim::NDRange(std::size_t(work_items), few ? std::min(g.local, 64u) : g.local), 1};
}

}  // namespace

void run_fused(std::int64_t number, at::TensorList tensors, at::IntArrayRef numbers, std::int64_t items) {
  if (!items) return;
  FusedKernel* fused;
  {
    FusedKernels& kernels = fused_kernels();
    std::lock_guard guard(kernels.mutex);
    fused = &kernels.all.at(std::size_t(number));
  }
  translated([&] {
    dlprim::Queue& queue = current_queue(tensors.at(0).device());
    std::vector<dlprim::BufferRef> buffers;
    buffers.reserve(tensors.size() + 1);
    make_own(tensors);  // any may be written
    for (const at::Tensor& tensor : tensors)
      buffers.push_back(tensor.numel() ? buffer_of(tensor) : dlprim::BufferRef{});
    dlprim::Kernel& kernel = kernel_for(*fused, aligned(*fused, tensors, buffers));
    const auto [range, share] = launch_range(fused->geometry, items);
    std::vector<std::int64_t> values{share};
    values.insert(values.end(), numbers.begin(), numbers.end());
    if (!fused->messages.empty()) {
      buffers.push_back(queue.status().buffer());
      for (const std::string& message : fused->messages) values.push_back(queue.status().arm(message.c_str()));
    }
    dlprim::launch(queue, kernel, range, std::span<const dlprim::BufferRef>(buffers),
                   std::as_bytes(std::span<const std::int64_t>(values)));
  });
}

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def(
      "build_fused(str source, str name, str form, int length, int vector, str[] messages, int device, bool as_gpu) -> int",
      &build_fused);
  m.def("run_fused(int kernel, Tensor[] tensors, int[] numbers, int items) -> ()", &run_fused);
}

}  // namespace pytorch_ocl
