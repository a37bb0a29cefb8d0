// SPDX-License-Identifier: MIT
// The history of device memory, as torch.ocl.memory._record_memory_history() asks for it.
#include "memory_history.hpp"

#include <dlprim/runtime/memory.hpp>
#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/library.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "device.hpp"

namespace pytorch_ocl {

std::atomic<bool> MemoryContext::recording{false};

namespace {

using Traceback = std::shared_ptr<torch::CapturedTraceback>;
using dlprim::MemoryEvent;

thread_local Traceback context;

struct Entry {
  MemoryEvent event;
  std::int64_t microseconds;
  Traceback stack;
};

struct History {
  std::mutex mutex;
  bool with_stacks = false, with_cpp = false, of_releases = false;
  std::size_t limit = 0;
  std::deque<Entry> entries;
  std::unordered_map<std::uint64_t, Traceback> held;  // address of a block in use -> where it was allocated
};

// Leaked: memory may be released while static objects are destroyed.
History& history() {
  static auto* instance = new History;
  return *instance;
}

void note(const MemoryEvent& event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  History& own = history();
  std::lock_guard guard(own.mutex);
  if (event.kind == MemoryEvent::allocated && context) own.held[event.address] = context;
  if (event.kind == MemoryEvent::released) own.held.erase(event.address);
  if (own.limit == 0) return;
  if (own.entries.size() == own.limit) own.entries.pop_front();
  own.entries.push_back({event, std::chrono::duration_cast<std::chrono::microseconds>(now).count(), context});
}

// `stacks`: 0 none, 1 of Python, 2 of C++, too.
void record(std::int64_t limit, std::int64_t stacks, bool of_releases, bool clear) {
  TORCH_CHECK(limit >= 0, "_record_memory_history: expected max_entries of at least 0, got ", limit);
  History& own = history();
  std::lock_guard guard(own.mutex);
  if (clear) own.entries.clear();
  own.limit = std::size_t(limit), own.with_stacks = stacks > 0, own.with_cpp = stacks > 1,
  own.of_releases = of_releases;
  while (own.entries.size() > own.limit) own.entries.pop_front();
  MemoryContext::recording = true;
  dlprim::Allocator::on_event(&note);
}

void stop() {
  dlprim::Allocator::on_event(nullptr);
  MemoryContext::recording = false;
  History& own = history();
  std::lock_guard guard(own.mutex);
  own.held.clear();
}

// The stacks of entries and blocks as numbers into a list of different frames.
class Frames {
 public:
  explicit Frames(const std::vector<Traceback>& stacks) {
    std::vector<torch::CapturedTraceback*> known;
    for (const Traceback& stack : stacks)
      if (stack && places_.try_emplace(stack.get(), known.size()).second) known.push_back(stack.get());
    symbolized_ = torch::symbolize(known);
  }
  std::int64_t place_of(const Traceback& stack) const { return stack ? std::int64_t(places_.at(stack.get())) : -1; }
  const torch::SymbolizedTracebacks& all() const { return symbolized_; }

 private:
  std::unordered_map<const torch::CapturedTraceback*, std::size_t> places_;
  torch::SymbolizedTracebacks symbolized_;
};

using Numbers = std::vector<std::int64_t>;

// Of a device: entries (kind, address, size, stream, microseconds, stack) and blocks in use (address, stack), stacks as
// numbers of frames, each stack after its length, and the frames: files, functions, lines.
std::tuple<Numbers, Numbers, Numbers, std::vector<std::string>, std::vector<std::string>, Numbers> read(
    std::int64_t index) {
  std::deque<Entry> entries;
  std::vector<std::pair<std::uint64_t, Traceback>> held;
  {
    History& own = history();
    std::lock_guard guard(own.mutex);
    for (const Entry& entry : own.entries)
      if (entry.event.device->index() == index) entries.push_back(entry);
    held.assign(own.held.begin(), own.held.end());
  }
  std::vector<Traceback> stacks;
  for (const Entry& entry : entries) stacks.push_back(entry.stack);
  for (const auto& [address, stack] : held) stacks.push_back(stack);
  const Frames frames(stacks);
  Numbers listed, blocks, tracebacks, lines;
  std::vector<std::string> files, functions;
  for (const auto& [event, microseconds, stack] : entries)
    for (const std::int64_t value : {std::int64_t(event.kind), std::int64_t(event.address), std::int64_t(event.size),
                                     event.queue, microseconds, frames.place_of(stack)})
      listed.push_back(value);
  for (const auto& [address, stack] : held)
    for (const std::int64_t value : {std::int64_t(address), frames.place_of(stack)}) blocks.push_back(value);
  for (const auto& stack : frames.all().tracebacks) {
    tracebacks.push_back(std::int64_t(stack.size()));
    for (const auto frame : stack) tracebacks.push_back(std::int64_t(frame));
  }
  for (const auto& frame : frames.all().all_frames) {
    files.push_back(frame.filename);
    functions.push_back(frame.funcname);
    lines.push_back(std::int64_t(frame.lineno));
  }
  return {listed, blocks, tracebacks, files, functions, lines};
}

}  // namespace

void MemoryContext::enter(bool releases) {
  bool wanted, cpp;
  {
    std::lock_guard guard(history().mutex);
    wanted = history().with_stacks && (!releases || history().of_releases);
    cpp = history().with_cpp;
  }
  former_ = std::move(context);
  context = wanted ? torch::CapturedTraceback::gather(true, true, cpp) : nullptr;
  entered_ = true;
}

void MemoryContext::leave() noexcept { context = std::move(former_); }

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("record_memory_history(int max_entries, int stacks, bool of_releases, bool clear) -> ()", &record);
  m.def("stop_memory_history() -> ()", &stop);
  m.def("memory_history(int index) -> (int[], int[], int[], str[], str[], int[])", &read);
}

}  // namespace pytorch_ocl
