// SPDX-License-Identifier: MIT
// Runs a package that export.py compiled, with no Python in the process, and compares it with the CPU's result.
//   aot_example <libpytorch_ocl_torch*.so> <package.pt2> [index of the device]
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iostream>
#include <iterator>

namespace {

bool run(const std::string& package, int index) {
  std::ifstream file(package + ".tensors", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto tensors = torch::jit::pickle_load(bytes).toTuple();
  const at::Tensor x = tensors->elements()[0].toTensor(), expected = tensors->elements()[1].toTensor();
  torch::inductor::AOTIModelPackageLoader model(package, "model", false, 1, c10::DeviceIndex(index));
  const c10::Device device(c10::DeviceType::PrivateUse1, c10::DeviceIndex(index));
  double worst = 0;
  for (const int64_t count : {5, 2, 5}) {  // the program takes batches of any size
    const auto results = model.run({x.slice(0, 0, count).to(device)});
    worst = std::max(worst, (results.at(0).cpu() - expected.slice(0, 0, count)).abs().max().item<double>());
  }
  std::cout << model.get_constant_fqns().size() << " constants on " << device
            << ", largest difference from the CPU: " << worst << "\n";
  return worst < 1e-5;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: " << arguments[0] << " <libpytorch_ocl_torch*.so> <package.pt2> [index of the device]\n";
    return 2;
  }
  // Loading the library registers the device; its name is given here, as Python's package does.
  if (!dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) {
    std::cerr << dlerror() << "\n";
    return 2;
  }
  c10::register_privateuse1_backend("ocl");
  try {
    const bool good = run(arguments[2], count > 3 ? std::stoi(arguments[3]) : 0);
    std::cout << (good ? "PASS" : "FAIL: the device and the CPU disagree") << "\n";
    return good ? 0 : 1;
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
