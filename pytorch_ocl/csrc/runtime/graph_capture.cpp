// SPDX-License-Identifier: MIT
#include "graph_capture.hpp"

#include <atomic>
#include <unordered_map>

#include "device.hpp"

namespace pytorch_ocl {

namespace {

// A position in a generator's numbers that seeds of captures stand for.
struct Named {
  std::shared_ptr<ReplayStart> start;
  std::uint64_t offset;
  const GraphCapture* owner;
};

struct Names {
  std::mutex mutex;  // of starts, too
  std::unordered_map<std::uint64_t, Named> all;

  // Hold the mutex.
  const Named& at(std::uint64_t seed) const {
    const auto found = all.find(seed);
    if (found == all.end()) throw dlprim::Error("[graph] these random numbers are of a graph that is gone");
    return found->second;
  }
};

Names& names() {
  static auto* instance = new Names;
  return *instance;
}

std::atomic<int> alive{0};

}  // namespace

GraphCapture::GraphCapture(dlprim::Queue& queue, std::shared_ptr<dlprim::MemoryPool> pool)
    : Capture(queue, std::move(pool), Later()) {
  alive++;
  try {
    begin();
  } catch (...) {
    alive--;
    throw;
  }
}

GraphCapture::~GraphCapture() {
  end();
  alive--;
  std::lock_guard guard(names().mutex);
  for (std::uint64_t name : names_) names().all.erase(name);
}

CurrentGraph::CurrentGraph(c10::Device device) {
  if (!alive) return;
  pin_.emplace(current_queue(device));
  graph_ = dynamic_cast<GraphCapture*>(pin_->get());
}

GraphCapture::Generator& GraphCapture::entry(OclGenerator& generator) {
  Generator& found = generators_[&generator];
  if (!found.own) {
    found.generator = c10::intrusive_ptr<OclGenerator>::reclaim_copy(&generator);
    found.now.start = found.own = std::make_shared<ReplayStart>();
  }
  return found;
}

PhiloxState GraphCapture::drawn_from(const Position& position) {
  const std::uint64_t seed = placeholder(), offset = placeholder();
  draws_.push_back(position);
  std::lock_guard guard(names().mutex);
  names().all.emplace(names_.emplace_back(seed), Named{position.start, position.offset, this});
  return {seed, offset};
}

PhiloxState GraphCapture::draw(OclGenerator& generator, std::uint64_t counters) {
  std::lock_guard guard(draws_mutex_);
  Position& now = entry(generator).now;
  const PhiloxState drawn = drawn_from(now);
  now.offset += counters;
  return drawn;
}

PhiloxState GraphCapture::state(OclGenerator& generator) {
  std::lock_guard guard(draws_mutex_);
  const Position& now = entry(generator).now;
  if (now.start->fixed) return {now.start->state.seed, now.start->state.offset + now.offset};
  std::lock_guard names_guard(names().mutex);
  const std::uint64_t seed = names_.emplace_back(new_number());
  names().all.emplace(seed, Named{now.start, now.offset, this});
  return {seed, now.offset};
}

void GraphCapture::set_state(OclGenerator& generator, PhiloxState state) {
  std::lock_guard guard(draws_mutex_);
  Position& now = entry(generator).now;
  std::lock_guard names_guard(names().mutex);
  if (is_placeholder(state.seed)) {
    const Named& named = names().at(state.seed);
    now = {named.start, named.offset};
  } else {
    now = {std::make_shared<ReplayStart>(ReplayStart{state, true, true}), 0};
  }
}

PhiloxState GraphCapture::draw_again(PhiloxState drawn) {
  std::lock_guard guard(draws_mutex_);
  Position position;
  {
    std::lock_guard names_guard(names().mutex);
    if (!is_placeholder(drawn.seed)) return drawn;
    const Named& named = names().at(drawn.seed);
    if (named.owner == this) return drawn;
    position = {named.start, named.offset};
  }
  return drawn_from(position);
}

PhiloxState GraphCapture::last(PhiloxState drawn) {
  if (!is_placeholder(drawn.seed)) return drawn;
  std::lock_guard guard(names().mutex);
  const Named& named = names().at(drawn.seed);
  if (!named.start->known) throw dlprim::Error("[graph] these random numbers are of a graph that was not replayed yet");
  return {named.start->state.seed, named.start->state.offset + named.offset};
}

// What was captured changes no more: of the locks, a generator's comes first.
void GraphCapture::replay(dlprim::Queue& in) {
  if (in.capture() && draws()) in.run_once("a graph that draws random numbers is replayed in it");
  std::vector<std::uint64_t> numbers;
  for (auto& [key, each] : generators_) {
    std::lock_guard guard(each.generator->mutex_);
    std::lock_guard names_guard(names().mutex);
    const PhiloxState start = each.generator->now();
    each.own->state = start, each.own->known = true;
    if (each.now.start == each.own) each.generator->set_now({start.seed, start.offset + each.now.offset});
  }
  for (auto& [key, each] : generators_) {
    if (each.now.start == each.own) continue;
    std::lock_guard guard(each.generator->mutex_);
    std::lock_guard names_guard(names().mutex);
    const ReplayStart& end = *each.now.start;
    if (!end.known) throw dlprim::Error("[graph] a generator's state is of a graph that was not replayed yet");
    each.generator->set_now({end.state.seed, end.state.offset + each.now.offset});
  }
  {
    std::lock_guard names_guard(names().mutex);
    for (const Position& draw : draws_) {
      if (!draw.start->known) throw dlprim::Error("[graph] random numbers are of a graph that was not replayed yet");
      numbers.push_back(draw.start->state.seed), numbers.push_back(draw.start->state.offset + draw.offset);
    }
  }
  Capture::replay(numbers, in);
}

}  // namespace pytorch_ocl
