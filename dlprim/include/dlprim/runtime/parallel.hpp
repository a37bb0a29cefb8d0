// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <type_traits>

namespace dlprim {

namespace detail {
void parallel_ranges(std::size_t count, std::size_t grain, void (*run)(void*, std::size_t, std::size_t),
                     void* context) noexcept;
}

/// Calls function(begin, end) for ranges of at most `grain` that together are [0, count), from several threads of the
/// process at once, and returns when all have run: for work on the host that memory's speed bounds. Where the threads are
/// busy, or the work is too little for them, the caller does all of it. `function` must not throw.
template <class Function>
void parallel_ranges(std::size_t count, std::size_t grain, Function&& function) noexcept {
  using Plain = std::remove_reference_t<Function>;
  detail::parallel_ranges(
      count, grain,
      [](void* context, std::size_t begin, std::size_t end) { (*static_cast<Plain*>(context))(begin, end); },
      const_cast<std::remove_const_t<Plain>*>(std::addressof(function)));
}

/// memcpy by several threads of the process where that is faster: one alone takes a third of a bus's speed, and much less
/// where it is the first to touch the memory.
void parallel_copy(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace dlprim
