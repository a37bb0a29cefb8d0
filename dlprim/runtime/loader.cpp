// SPDX-License-Identifier: MIT
// The OpenCL functions that this library calls, forwarded to an OpenCL loader that is opened at the first call. So
// nothing depends on OpenCL at link or load time: without a loader, clGetPlatformIDs reports that there is no platform.
// A function missing in loader_table.inc is a link error.
#include <dlprim/runtime/cl.hpp>
#include <dlprim/runtime/environment.hpp>

#include <string_view>
#include <type_traits>

#include "loader.hpp"
#include "system.hpp"

namespace dlprim {
namespace {

constexpr cl_int no_platform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR of cl_ext.h

// $DLPRIM_OPENCL_LIBRARY alone where it is set; otherwise the system's loader, then $DLPRIM_OPENCL_FALLBACK_LIBRARY,
// which the Python package points at the loader of its environment.
void* open_loader() noexcept {
  if (const char* chosen = environment::text("DLPRIM_OPENCL_LIBRARY")) return open_library(chosen);
#if defined(_WIN32)
  constexpr const char* names[] = {"OpenCL.dll"};
#elif defined(__APPLE__)
  constexpr const char* names[] = {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#else
  constexpr const char* names[] = {"libOpenCL.so.1", "libOpenCL.so"};
#endif
  for (const char* name : names)
    if (void* library = open_library(name)) return library;
  const char* fallback = environment::text("DLPRIM_OPENCL_FALLBACK_LIBRARY");
  return fallback ? open_library(fallback) : nullptr;
}

void store_error(cl_int* error) {
  if (error) *error = CL_INVALID_PLATFORM;
}
template <class Argument>
void store_error(const Argument&) {}

// What a function returns when there is no loader or the loader is too old to have it.
template <class Result, class... Arguments>
Result unavailable(std::string_view function, const Arguments&... arguments) {
  if constexpr (std::is_same_v<Result, cl_int>) {
    return function == "clGetPlatformIDs" ? no_platform : CL_INVALID_PLATFORM;
  } else {
    (store_error(arguments), ...);
    return Result{};
  }
}

}  // namespace

void* loader_function(const char* name) noexcept {
  static void* const loader = open_loader();
  return loader ? library_function(loader, name) : nullptr;
}

}  // namespace dlprim

extern "C" {
#define EXPAND(...) __VA_ARGS__
#define CL_FUNCTION(result, name, parameters, arguments)                                            \
  CL_API_ENTRY result CL_API_CALL name parameters {                                                 \
    static const auto function = reinterpret_cast<decltype(&name)>(dlprim::loader_function(#name)); \
    if (function) return function arguments;                                                        \
    return dlprim::unavailable<result>(#name, EXPAND arguments);                                    \
  }
#include "loader_table.inc"
}
