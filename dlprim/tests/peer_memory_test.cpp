// SPDX-License-Identifier: MIT
#ifdef __linux__
#include <dlprim/runtime/peer_memory.hpp>
#include <unistd.h>

#include <numeric>
#include <optional>

#include "testing.hpp"

using namespace dlprim;
using namespace dlprim::testing;

namespace {

// CPUs have such memory, and of GPUs those that can export theirs.
std::optional<PeerMemory> taken(std::size_t bytes) {
  try {
    return PeerMemory::take(device(), bytes);
  } catch (const NotImplementedError&) {
    EXPECT_FALSE(device().info().cpu);
  }
  return std::nullopt;
}

}  // namespace

TEST(PeerMemory, IsTheSameByAnotherDescriptor) {
  std::optional<PeerMemory> memory = taken(5000);
  if (!memory) return;
  EXPECT_GE(memory->bytes(), 5000u);
  PeerMemory sent = PeerMemory::adopt(dup(memory->file()), memory->bytes(), memory->of_device());
  const cl::Buffer second = sent.buffer(device());
  std::vector<int> given(1000), got(1000);
  std::iota(given.begin(), given.end(), 7);
  {
    const cl::Buffer first = memory->buffer(device());
    queue().write({first(), 0}, given.data(), 4000, true);
    queue().finish();
    queue().read(got.data(), {second(), 0}, 4000, true);
    EXPECT_EQ(got, given);
    queue().fill({first(), 0}, &given[1], 4, 4000);
    queue().finish();
  }
  // It stays when whoever took it has gone.
  memory.reset();
  queue().read(got.data(), {second(), 0}, 4000, true);
  EXPECT_EQ(got, std::vector<int>(1000, 8));
}

TEST(PeerMemory, DescriptorsThatAreNoneAreErrors) {
  if (!taken(1)) return;
  for (const bool of_device : {false, true}) {
    PeerMemory nothing = PeerMemory::adopt(-1, 4096, of_device);
    EXPECT_THROW(nothing.buffer(device()), Error);
  }
}
#endif
