// SPDX-License-Identifier: MIT
// dlprim_fuzz FIRST COUNT [--corpus FOLDER] [--seconds N] [--write FILE]: loads and runs mutated networks, case FIRST
// and those after it. Each must run or be refused by a dlprim::Error with a message. Prints "case N" before each; exit
// code 1 when anything else was thrown, 3 when a case took longer than --seconds (30). --write: the case's file, not
// run.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <unistd.h>

#include "../../tools/image.hpp"
#include "fuzz.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::fuzz;

struct Options {
  std::uint64_t first = 0, count = 0;
  std::string corpus, write;
  int seconds = 30;
};

struct Case {
  const Seed& seed;
  std::string contents;
};

Case make_case(const std::vector<Seed>& list, std::uint64_t number) {
  Dice dice(number);
  const Seed& seed = list[dice.below(list.size())];
  switch (seed.kind) {
    case Kind::onnx: return {seed, mutate_onnx(seed.contents, dice)};
    case Kind::json: return {seed, mutate_json(seed.contents, dice)};
    case Kind::parameters: return {seed, mutate_parameters(seed.contents, dice)};
    default: return {seed, mutate_bytes(seed.contents, dice)};
  }
}

// Small numbers, and odd ones where they are integers.
template <class T>
void fill(std::vector<std::uint8_t>& bytes, Dice& dice) {
  for (std::size_t k = 0; k + sizeof(T) <= bytes.size(); k += sizeof(T)) {
    const T value = std::is_integral_v<T> && dice.one_in(8)
                        ? T(dice.number())
                        : T(double(k / sizeof(T) % 5) - (std::is_integral_v<T> ? 1 : 1.5));
    std::memcpy(&bytes[k], &value, sizeof(T));
  }
}

void fill(Net& net, const ExecutionContext& queue, Dice dice) {
  for (int i = 0; i < net.inputs(); i++) {
    const ValueInfo& info = net.input_info(i);
    if (info.optional) {
      net.set_input_empty(i);
      continue;
    }
    Shape shape = info.ranked ? info.shape : Shape{2, 3};
    for (std::int64_t& size : shape) size = size < 0 ? 2 : size;
    net.reshape_input(i, shape);
    std::vector<std::uint8_t> bytes(net.input(i).bytes());
    switch (info.dtype) {
      case DataType::float32: fill<float>(bytes, dice); break;
      case DataType::float64: fill<double>(bytes, dice); break;
      case DataType::int64: fill<std::int64_t>(bytes, dice); break;
      case DataType::int32: fill<std::int32_t>(bytes, dice); break;
      default:
        for (std::size_t k = 0; k < bytes.size(); k++) bytes[k] = std::uint8_t(k % 2);
    }
    net.input(i).to_device(queue, static_cast<const void*>(bytes.data()));
  }
}

// A file that readers take by its name.
class Temporary {
 public:
  explicit Temporary(const std::string& contents)
      : path_((std::filesystem::path(external_folder()) / ("case" + std::to_string(getpid()))).string()) {
    std::ofstream(path_, std::ios::binary) << contents;
  }
  ~Temporary() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void run(const Case& c) {
  if (c.seed.kind == Kind::parameters) return static_cast<void>(read_parameters(Temporary(c.contents).path()));
  if (c.seed.kind == Kind::image)
    return static_cast<void>(tools::centre_crop(tools::read_image(Temporary(c.contents).path(), 3), 16, 16));
  const Context context;
  const ExecutionContext queue = context.make_execution_context();
  Net net(context);
  const bool json = c.seed.kind == Kind::json;
  if (json) {
    net.mode(CalculationsMode::train);
    net.load_from_json(c.contents);
  } else {
    ONNXModel model;
    model.load_bytes(std::as_bytes(std::span(c.contents)), external_folder());
    net.load_model(model);
  }
  for (int round = 0; round < 2; round++) {  // the second run reuses what depends on shapes only
    fill(net, queue, Dice(c.contents.size()));
    net.forward(queue);
    if (json) net.backward(queue);
    for (int i = 0; i < net.outputs(); i++) {
      if (!net.output_present(i) || net.output_sequence(i)) continue;
      std::vector<std::byte> bytes(net.output(i).bytes());
      net.output(i).to_host(queue, static_cast<void*>(bytes.data()));
    }
    queue.finish();
  }
}

Options parse(int argc, char** argv) {
  Options o;
  if (argc < 3) throw ValidationError("usage: dlprim_fuzz FIRST COUNT [--corpus FOLDER] [--seconds N] [--write FILE]");
  o.first = std::strtoull(argv[1], nullptr, 10), o.count = std::strtoull(argv[2], nullptr, 10);
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--corpus") o.corpus = value;
    else if (name == "--write") o.write = value;
    else if (name == "--seconds") o.seconds = std::atoi(value.c_str());
    else throw ValidationError("unknown option " + name);
  }
  return o;
}

// Ends the process when a case hangs.
std::atomic<std::int64_t> started{0};
std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
void watch(int seconds) {
  std::thread([seconds] {
    for (;; std::this_thread::sleep_for(std::chrono::seconds(1)))
      if (started && now() - started > seconds) std::printf("hang\n"), std::fflush(stdout), std::_Exit(3);
  }).detach();
}

int run_all(const Options& o) {
  const std::vector<Seed> list = seeds(o.corpus);
  int ran = 0, refused = 0, wrong = 0;
  watch(o.seconds);
  for (std::uint64_t n = o.first; n < o.first + o.count; n++) {
    const Case c = make_case(list, n);
    if (!o.write.empty()) {
      std::ofstream(o.write, std::ios::binary) << c.contents;
      return 0;
    }
    std::printf("case %llu %s\n", static_cast<unsigned long long>(n), c.seed.name.c_str());
    std::fflush(stdout);
    started = now();
    try {
      run(c);
      ran++;
    } catch (const Error& error) {
      std::printf("refused: %.300s\n", error.what());
      error.what()[0] ? refused++ : wrong++;
    } catch (const std::exception& error) {
      std::printf("wrong: %s\n", error.what());
      wrong++;
    }
    started = 0;
  }
  std::printf("done: %d ran, %d refused, %d wrong\n", ran, refused, wrong);
  return wrong ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
