// SPDX-License-Identifier: MIT
// Binaries of programs, for the library and for its compiler in another process.
#pragma once
#include <dlprim/runtime/cl.hpp>

#include <algorithm>
#include <string>
#include <string_view>

namespace dlprim {

/// The device's binary of a program of one device; empty where the driver gives none.
inline std::string binary_of(const cl::Program& program) {
  std::size_t size = 0;
  if (clGetProgramInfo(program(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS) return {};
  std::string binary(size, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  return clGetProgramInfo(program(), CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) == CL_SUCCESS ? binary : "";
}

/// A program from a binary; null when the driver refuses it.
inline cl::Program from_binary(cl_context context, cl_device_id device, const std::string& binary,
                               const std::string& options) {
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  cl::Program program(clCreateProgramWithBinary(context, 1, &device, &size, &data, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return {};
  return clBuildProgram(program(), 1, &device, options.c_str(), nullptr, nullptr) == CL_SUCCESS ? program
                                                                                                : cl::Program();
}

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
