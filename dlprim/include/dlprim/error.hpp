// SPDX-License-Identifier: MIT
#pragma once
#include <stdexcept>
#include <string>

namespace dlprim {

/// Base of everything dlprim throws.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Arguments that violate an operator's contract; the message reads "[operator] expected ..., got ...".
struct ValidationError : Error {
  using Error::Error;
};

/// An index or label outside its range, found by a kernel and reported at the next synchronization.
struct IndexError : Error {
  using Error::Error;
};

/// A valid request that no kernel serves.
struct NotImplementedError : Error {
  using Error::Error;
};

/// An OpenCL program that does not build; carries the compiler's log.
struct BuildError : Error {
  BuildError(const std::string& what, std::string log) : Error(what + "\n" + log), log(std::move(log)) {}
  std::string log;
};

/// An OpenCL call that failed; the message holds the call and the error's name, such as CL_OUT_OF_RESOURCES.
struct DeviceError : Error {
  DeviceError(const std::string& call, int code);
  int code;
};

/// Device memory is exhausted even after the allocator's cache was freed.
struct OutOfMemoryError : Error {
  using Error::Error;
};

/// Name of an OpenCL error code, such as "CL_INVALID_VALUE".
const char* cl_error_name(int code) noexcept;

}  // namespace dlprim
