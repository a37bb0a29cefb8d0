// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace dlprim {

/// PTX for another target ("sm_90a", or "sm_90a 2" where two work-groups shall share a compute unit), with the
/// instructions that only it has. Kernels that move registers between warps must have a known number of them at their
/// entry, or the assembler ignores that. Empty where `ptx` is none.
inline std::string retarget(std::string ptx, const std::string& target) {
  constexpr std::string_view directive = ".target ", hidden = "//@";
  const std::size_t at = ptx.find(directive), space = target.find(' ');
  if (at == std::string::npos) return {};
  const std::size_t from = at + directive.size();
  ptx.replace(from, ptx.find_first_of(", \n", from) - from, target.substr(0, space));
  const bool alone = space == std::string::npos, moves = ptx.find("setmaxnreg") != std::string::npos;
  const std::size_t group = alone && !moves ? std::string::npos : ptx.find(".reqntid");
  if (group != std::string::npos) ptx.insert(group, ".minnctapersm" + (alone ? " 1" : target.substr(space)) + "\n");
  std::string shown;
  shown.reserve(ptx.size());
  for (std::size_t i = 0, next; i < ptx.size(); i = next + hidden.size()) {
    next = std::min(ptx.find(hidden, i), ptx.size());
    shown.append(ptx, i, next - i);
  }
  return shown;
}

}  // namespace dlprim
