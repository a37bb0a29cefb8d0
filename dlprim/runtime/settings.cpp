// SPDX-License-Identifier: MIT
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <limits>

namespace dlprim {

std::int64_t Settings::default_index_limit() {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return std::min(environment::number("DLPRIM_INDEX_LIMIT").value_or(most), most);
}

}  // namespace dlprim
