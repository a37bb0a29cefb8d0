// SPDX-License-Identifier: MIT
// The environment variables that this library reads. docs/architecture.md says what they mean.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlprim::environment {

inline constexpr std::string_view names[] = {
    "OCL_VISIBLE_DEVICES",   "PYTORCH_OCL_FALLBACK",
    "DLPRIM_CACHE_DIR",      "DLPRIM_CACHE_LIMIT",
    "DLPRIM_CACHE_DISABLE",  "DLPRIM_CONV_WORKSPACE",
    "DLPRIM_GEMM",           "DLPRIM_CONV",
    "DLPRIM_ATTENTION",      "DLPRIM_SORT",
    "DLPRIM_GEMM_TILE",      "DLPRIM_GEMM_SPLIT",
    "DLPRIM_ATTENTION_TILE", "DLPRIM_DEBUG_SELECT",
    "DLPRIM_DEBUG_BUILD",    "DLPRIM_SUBMIT_THREAD",
    "DLPRIM_STAGED_COPIES",  "DLPRIM_MEMORY_LIMIT",
    "DLPRIM_PROGRAM_LIMIT",  "DLPRIM_KERNEL_PATH",
    "DLPRIM_OPENCL_LIBRARY", "DLPRIM_OPENCL_FALLBACK_LIBRARY",
    "DLPRIM_INDEX_LIMIT",    "DLPRIM_SIMULATE",
    "DLPRIM_KERNEL_DUMP",    "DLPRIM_COMPILERS",
    "LOCAL_WORLD_SIZE",      "DLPRIM_DRIVER_DEFECTS",
    "DLPRIM_BUILD_OPTIONS",
};

/// One of `names`; another name does not compile.
class Variable {
 public:
  consteval Variable(const char* name) : index_(find(name)) {}
  std::size_t index() const noexcept { return index_; }

 private:
  static consteval std::size_t find(std::string_view name) {
    std::size_t i = 0;
    while (names[i] != name) i++;
    return i;
  }
  std::size_t index_;
};

/// The value of a variable, null where it is not set. It is read at its first use and remains.
const char* raw(Variable variable);
/// The same, null also where it is empty.
const char* text(Variable variable);
/// What a switch says, nothing where it is not set or empty: 0, off, false and no are off, all else is on.
std::optional<bool> choice(Variable variable);
/// Whether a switch is on.
inline bool is_on(Variable variable) { return choice(variable).value_or(false); }
/// A whole number above 0; nothing where the variable is not set or says anything else.
std::optional<std::int64_t> number(Variable variable);
/// Forgets what was read, for tests that change variables. Pointers given out before stay valid.
void reread();

}  // namespace dlprim::environment
