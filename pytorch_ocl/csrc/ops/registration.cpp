// SPDX-License-Identifier: MIT
#include "ops/registration.hpp"

#include <vector>

namespace pytorch_ocl {

void KernelRegistry::add(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature) const {
  // Never freed: a kernel that goes when the library is unloaded could be missed by what runs at exit.
  static auto& handles = *new std::vector<c10::RegistrationHandleRAII>;
  const auto operator_name = c10::OperatorNameView::parse(name);
  handles.push_back(c10::Dispatcher::singleton().registerImpl(
      {"aten::" + std::string(operator_name.name), std::string(operator_name.overload_name)}, key_, std::move(kernel),
      std::move(signature), nullptr, std::string("registered in ") + file_));
}

}  // namespace pytorch_ocl
