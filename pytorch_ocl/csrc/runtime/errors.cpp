// SPDX-License-Identifier: MIT
#include "errors.hpp"

namespace pytorch_ocl {

void rethrow_as_torch_error() {
  try {
    throw;
  } catch (const dlprim::OutOfMemoryError& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  } catch (const dlprim::IndexError& error) {
    TORCH_CHECK_INDEX(false, error.what());
  } catch (const dlprim::NotImplementedError& error) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
  } catch (const dlprim::Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace pytorch_ocl
