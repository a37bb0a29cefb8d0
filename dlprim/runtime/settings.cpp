// SPDX-License-Identifier: MIT
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace dlprim {

std::int64_t Settings::default_index_limit() {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const char* text = std::getenv("DLPRIM_INDEX_LIMIT");
  const std::int64_t wish = text ? std::atoll(text) : 0;
  return wish > 0 ? std::min(wish, most) : most;
}

}  // namespace dlprim
