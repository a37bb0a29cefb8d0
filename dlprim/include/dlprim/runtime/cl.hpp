// SPDX-License-Identifier: MIT
// The one place that configures the OpenCL C++ bindings.
#pragma once
#define CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/opencl.hpp>
#include <dlprim/error.hpp>

namespace dlprim {

/// Throws DeviceError when an OpenCL call returned an error code.
inline void check(cl_int code, const char* call) {
  if (code != CL_SUCCESS) throw DeviceError(call, code);
}

}  // namespace dlprim
