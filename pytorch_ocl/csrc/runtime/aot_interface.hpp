// SPDX-License-Identifier: MIT
#pragma once
#include <exception>

#include "../../python/pytorch_ocl/inductor/aot_abi.h"

namespace pytorch_ocl {

/// What programs that Inductor generated find by the operator pytorch_ocl::aot_interface.
const aot::Interface& aot_interface();

/// The last error that a function of the interface threw in this thread, once; null where there was none.
std::exception_ptr take_aot_error();

}  // namespace pytorch_ocl
