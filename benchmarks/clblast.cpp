// SPDX-License-Identifier: MIT
// Square float32 products by dlprim and by CLBlast in turns, on one queue of one device:
//
//   clblast_benchmark [device] [results.json]
//
// prints the least milliseconds of each and the ratio (over 1: dlprim is faster); report.py reads the results.
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/runtime/memory.hpp>

#include <clblast_c.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <vector>

namespace {

using namespace dlprim;
using Clock = std::chrono::steady_clock;

class Products {
 public:
  Products(Queue& queue, std::int64_t n) : queue_(queue), n_(n), memory_{matrix(1), matrix(2), matrix(3), matrix(4)} {}

  void dlprim() { gemm(queue_, view(0), view(1), view(2)); }

  void clblast() {
    const auto n = std::size_t(n_);
    auto data = [&](int i) { return memory_[i].data().memory; };
    auto first = [&](int i) { return memory_[i].data().offset / sizeof(float); };
    cl_command_queue queue = queue_.get();
    const int code = CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, n, n, n, 1, data(0),
                                  first(0), n, data(1), first(1), n, 0, data(3), first(3), n, &queue, nullptr);
    if (code != CLBlastSuccess) throw Error("CLBlastSgemm returned " + std::to_string(code));
  }

  // The largest difference between both results over the largest element.
  double difference() {
    const std::vector<float> own = read(2), peer = read(3);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < own.size(); i++) {
      largest = std::max<double>(largest, std::abs(peer[i]));
      difference = std::max<double>(difference, std::abs(own[i] - peer[i]));
    }
    return difference / largest;
  }

  // Milliseconds of one call, of `calls` until the device has finished.
  template <class F>
  double time(int calls, F&& product) {
    queue_.finish();
    const auto start = Clock::now();
    for (int i = 0; i < calls; i++) product();
    queue_.finish();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / calls;
  }

 private:
  std::size_t bytes() const { return std::size_t(n_ * n_) * sizeof(float); }
  TensorView view(int i) const { return {memory_[i].data(), DataType::float32, {n_, n_}}; }

  Workspace matrix(unsigned seed) {
    Workspace result(queue_, bytes());
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> numbers(-1, 1);
    std::vector<float> values(std::size_t(n_ * n_));
    for (float& value : values) value = numbers(engine);
    queue_.write(result.data(), values.data(), bytes(), true);
    return result;
  }

  std::vector<float> read(int i) {
    std::vector<float> values(std::size_t(n_ * n_));
    queue_.read(values.data(), memory_[i].data(), bytes(), true);
    return values;
  }

  Queue& queue_;
  std::int64_t n_;
  Workspace memory_[4];
};

int run(const char* device_name, const char* path) {
  Device& device = Device::find(device_name);
  const std::string on = " on " + device.info().name;
  std::printf("%s\n%6s %12s %12s %7s %9s\n", device.info().name.c_str(), "n", "CLBlast ms", "dlprim ms", "ratio",
              "GFLOP/s");
  std::string cases;
  for (const std::int64_t n : {256, 512, 768, 1024, 1536, 2048}) {
    Products products(device.default_queue(), n);
    const double flop = 2.0 * double(n * n * n);
    products.dlprim(), products.clblast();
    if (const double error = products.difference(); !(error < 1e-5))
      throw Error("the results differ by " + std::to_string(error));
    const int calls = std::max(1, int(2e9 / flop));
    double own = INFINITY, peer = INFINITY;
    for (int turn = 0; turn < 12; turn++) {
      own = std::min(own, products.time(calls, [&] { products.dlprim(); }));
      peer = std::min(peer, products.time(calls, [&] { products.clblast(); }));
    }
    std::printf("%6d %12.3f %12.3f %7.2f %9.1f\n", int(n), peer, own, peer / own, flop / own / 1e6);
    std::fflush(stdout);
    char line[256];
    const char* form = R"(%s{"case": "matmul %d float32", "group": "matmul float32", "ms": [%.4f, %.4f], )"
                       R"("flop": %.0f, "bytes": 0})";
    std::snprintf(line, sizeof line, form, cases.empty() ? "" : ",\n  ", int(n), peer, own, flop);
    cases += line;
  }
  if (path)
    std::ofstream(path) << "{\"devices\": [\"CLBlast" << on << "\", \"dlprim" << on << "\"], \"cases\": [\n  " << cases
                        << "]}\n";
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  return run(count > 1 ? arguments[1] : "0", count > 2 ? arguments[2] : nullptr);
} catch (const std::exception& error) {
  std::fprintf(stderr, "clblast_benchmark: %s\n", error.what());
  return 1;
}
