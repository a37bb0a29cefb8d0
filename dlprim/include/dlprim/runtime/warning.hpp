// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/error.hpp>

#include <string>

namespace dlprim {

/// A kernel that is not used because the driver is known to compute it wrong.
struct DriverDefectError : NotImplementedError {
  using NotImplementedError::NotImplementedError;
};

/// Tells the user something that stops nothing: by the handler that the program set, else on standard error.
void warn(const std::string& message);
void set_warning_handler(void (*handler)(const std::string& message)) noexcept;

}  // namespace dlprim
