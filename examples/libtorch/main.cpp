// SPDX-License-Identifier: MIT
// Trains a small network on an OpenCL device from C++, with no Python in the process, and the same network on the CPU;
// both must agree.   libtorch_example <libpytorch_ocl_torch*.so> [device]
#include <dlfcn.h>
#include <torch/torch.h>

#include <cmath>
#include <iostream>

namespace {

torch::nn::Sequential make_network() {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(1, 8, 3).padding(1)), BatchNorm2d(8), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(8 * 4 * 4, 32), ReLU(), Linear(32, 4));
}

// 8x8 images of noise with one bright quadrant; the label says which.
struct Data {
  torch::Tensor images, labels;
};

Data make_data(int64_t count) {
  Data data{0.5 * torch::randn({count, 1, 8, 8}), torch::randint(4, {count}, torch::kLong)};
  for (int64_t i = 0; i < count; i++) {
    const int64_t quadrant = data.labels[i].item<int64_t>(), row = quadrant / 2 * 4, column = quadrant % 2 * 4;
    data.images[i][0].slice(0, row, row + 4).slice(1, column, column + 4) += 1;
  }
  return data;
}

// The loss of every step.
std::vector<double> train(torch::nn::Sequential& network, const Data& data, torch::Device device, int steps) {
  const auto images = data.images.to(device), labels = data.labels.to(device);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<torch::Tensor> losses;
  network->train();
  for (int step = 0; step < steps; step++) {
    optimizer.zero_grad();
    losses.push_back(torch::nn::functional::cross_entropy(network->forward(images), labels));
    losses.back().backward();
    optimizer.step();
  }
  std::vector<double> values;
  for (const auto& loss : losses) values.push_back(loss.item<double>());
  return values;
}

double accuracy(torch::nn::Sequential& network, const Data& data, torch::Device device) {
  torch::NoGradGuard no_gradients;
  network->eval();
  const auto predicted = network->forward(data.images.to(device)).argmax(1).cpu();
  return predicted.eq(data.labels).to(torch::kFloat).mean().item<double>();
}

bool run(const std::string& device_name) {
  torch::manual_seed(1);
  const torch::Device device(device_name);
  const Data data = make_data(256), test = make_data(128);
  torch::nn::Sequential reference = make_network();
  torch::nn::Sequential network(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(reference->clone(device)));

  const auto expected = train(reference, data, torch::kCPU, 30);
  const auto losses = train(network, data, device, 30);
  bool agree = true;
  for (size_t step = 0; step < losses.size(); step++)
    agree &= std::abs(losses[step] - expected[step]) <= 1e-2 * std::abs(expected[step]) + 1e-3;
  const double right = accuracy(network, test, device);
  std::cout << "loss on " << device << ": " << losses.front() << " -> " << losses.back()
            << ", on the CPU: " << expected.front() << " -> " << expected.back() << "; accuracy " << 100 * right
            << " %\n";
  return agree && right > 0.95;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: " << arguments[0] << " <libpytorch_ocl_torch*.so> [device]\n";
    return 2;
  }
  // Loading the library registers the device; its name is given here, as Python's package does.
  if (!dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) {
    std::cerr << dlerror() << "\n";
    return 2;
  }
  c10::register_privateuse1_backend("ocl");
  try {
    const bool good = run(count > 2 ? arguments[2] : "ocl:0");
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
