// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/launch.hpp>

#include <variant>

namespace dlprim {

/// A kernel that a user wrote in plain OpenCL C: buffer parameters are `__global T*`, scalars any built-in number type.
class CustomKernel {
 public:
  using Argument = std::variant<BufferRef, std::int64_t, double>;

  /// Compiles `source`. Throws BuildError with the compiler's log, DeviceError when it has no kernel `name`.
  CustomKernel(Device& device, std::string source, const std::string& name, const std::string& options);

  /// Runs over 1 to 3 dimensions; an empty `local` leaves the work-group to the runtime. Numbers are converted to their
  /// parameters' types, `half` among them; a buffer without memory is a null pointer. Throws ValidationError for the
  /// wrong number or kind of arguments, integers that their parameter cannot hold, and buffers that do not start at a
  /// multiple of the device's base alignment.
  void run(Queue& queue, std::span<const Argument> arguments, std::span<const std::int64_t> global,
           std::span<const std::int64_t> local);

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::string> types_;  // of the parameters, as written
};

}  // namespace dlprim
