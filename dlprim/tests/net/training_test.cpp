// SPDX-License-Identifier: MIT
#include <filesystem>

#include "finite_differences.hpp"

namespace dlprim::testing {
namespace {

// A small LeNet with batch normalization for images of 8 x 8.
std::string lenet() {
  NetConfig config;
  config.add_input("data", {64, 1, 8, 8}).add_input("label", {64}, DataType::int32);
  config.add({"Convolution2D", {{"channels_out", 16}, {"kernel", 3}, {"pad", 1}, {"bias", false}}})
      .add({"BatchNorm"})
      .add({"Activation", {{"activation", std::string("relu")}}})
      .add({"Pooling2D", {{"kernel", 2}, {"stride", 2}}})
      .add({"Convolution2D", {{"channels_out", 32}, {"kernel", 3}, {"pad", 1}, {"activation", std::string("relu")}}})
      .add({"Pooling2D", {{"kernel", 2}, {"stride", 2}}})
      .add({"InnerProduct", {{"outputs", 64}, {"activation", std::string("relu")}}})
      .add({"InnerProduct", {{"outputs", 10}}, "scores"})
      .add({"SoftmaxWithLoss", {}, "loss", {"scores", "label"}})
      .add({"Softmax", {}, "prob", {"scores"}});
  return config.add_output("prob").add_output("loss").text();
}

// Images of 8 x 8 that show one of ten random patterns, moved by up to a pixel and noisy.
struct Images {
  std::vector<float> data;
  std::vector<std::int32_t> labels;
};

Images images(std::size_t count, unsigned seed) {
  const std::vector<float> patterns = random_floats(640, 99);
  std::mt19937 engine(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  Images result;
  for (std::size_t i = 0; i < count; i++) {
    const auto label = std::int32_t(engine() % 10);
    const std::size_t dy = engine() % 2, dx = engine() % 2;
    result.labels.push_back(label);
    for (std::size_t y = 0; y < 8; y++)
      for (std::size_t x = 0; x < 8; x++)
        result.data.push_back(patterns[std::size_t(label) * 64 + (y + dy) % 8 * 8 + (x + dx) % 8] + noise(engine));
  }
  return result;
}

double accuracy(Net& net, const Images& set) {
  const ExecutionContext ec = net.context().make_execution_context();
  net.mode(CalculationsMode::predict);
  net.set_batch(std::int64_t(set.labels.size()));
  net.input("data").to_device(ec, set.data);
  net.forward(ec);
  std::vector<float> scores(set.labels.size() * 10);
  net.output("prob").to_host(ec, scores);
  std::size_t right = 0;
  for (std::size_t i = 0; i < set.labels.size(); i++) {
    const auto row = scores.begin() + std::ptrdiff_t(i * 10);
    right += std::max_element(row, row + 10) - row == set.labels[i];
  }
  return double(right) / double(set.labels.size());
}

void train(Net& net, Solver& solver, int steps, unsigned seed) {
  const ExecutionContext ec = net.context().make_execution_context();
  net.mode(CalculationsMode::train);
  net.set_batch(64);
  for (int step = 0; step < steps; step++) {
    const Images batch = images(64, seed + unsigned(step));
    net.input("data").to_device(ec, batch.data);
    net.input("label").to_device(ec, batch.labels);
    solver.zero_grad();
    net.forward(ec);
    net.backward(ec);
    solver.step(ec);
  }
}

TEST(Training, ALeNetLearnsAndIsReloaded) {
  Net net{Context(device())};
  net.load_from_json(lenet());
  Adam solver(net, 2e-3);
  train(net, solver, 80, 1000);
  const Images test = images(500, 1);
  EXPECT_GE(accuracy(net, test), 0.98);
  const std::vector<double> scores = read_values(net, net.output("prob"));
  for (const char* end : {".dlp", ".h5", ".safetensors"}) {
    const std::string path = (std::filesystem::temp_directory_path() /
                              ("dlprim_training_test" + std::to_string(std::random_device()()) + end))
                                 .string();
    net.save_parameters(path);
    Net again{Context(device())};
    again.load_from_json(lenet());
    again.load_parameters(path);
    std::filesystem::remove(path);
    EXPECT_GE(accuracy(again, test), 0.98);
    const std::vector<double> same = read_values(again, again.output("prob"));
    for (std::size_t i = 0; i < scores.size(); i++) ASSERT_NEAR(same[i], scores[i], 1e-5) << end;
  }
}

TEST(Training, ItGoesOnFromSavedState) {
  auto make = [](Net& net, int kind) -> std::unique_ptr<Solver> {
    net.load_from_json(lenet());
    if (kind == 0) return std::make_unique<SGD>(net, 0.01);
    if (kind == 1) return std::make_unique<Adam>(net);
    return std::make_unique<AdamW>(net);
  };
  for (int kind : {0, 1, 2}) {
    Net whole{Context(device())}, half{Context(device())}, rest{Context(device())};
    const auto a = make(whole, kind), b = make(half, kind), c = make(rest, kind);
    train(whole, *a, 4, 5);
    train(half, *b, 2, 5);
    rest.load_parameters(half.parameters());
    c->load_state(b->state());
    EXPECT_EQ(c->steps(), 2);
    train(rest, *c, 2, 7);
    for (const std::string& name : whole.param_names()) {
      const auto x = read_values(whole, whole.param(name)), y = read_values(rest, rest.param(name));
      for (std::size_t i = 0; i < x.size(); i++) ASSERT_NEAR(x[i], y[i], 1e-4) << name;
    }
    EXPECT_THROW(c->load_state({}), ValidationError);
  }
}

// One parameter p of two elements with the loss sum(p * p) / 2: its gradient is p.
struct Quadratic {
  Net net{Context(device())};
  ExecutionContext ec = net.context().make_execution_context();
  Quadratic() {
    net.load_from_json(R"({"outputs": ["loss"], "operators": [
      {"name": "p", "type": "Parameter", "outputs": ["p"], "options": {"shape": [2]}},
      {"name": "loss", "type": "Reduction", "inputs": ["p"], "outputs": ["loss"],
       "options": {"method": "sumsq", "output_scale": 0.5}}]})");
    net.mode(CalculationsMode::train);
    net.param("p.0").to_device(ec, std::vector<float>{1, -2});
  }
  std::vector<double> run(Solver& solver, int steps) {
    for (int i = 0; i < steps; i++) solver.zero_grad(), net.forward(ec), net.backward(ec), solver.step(ec);
    return read_values(net, net.param("p.0"));
  }
};

TEST(Training, SolversFollowTheirFormulas) {
  for (bool nesterov : {false, true}) {
    Quadratic q;
    SGD solver(q.net, 0.1, 0.9, 0.01, nesterov);
    double p = -2, v = 0;
    for (int i = 0; i < 5; i++) {
      const double g = p + 0.01 * p;
      v = 0.9 * v + g;
      p -= 0.1 * (nesterov ? g + 0.9 * v : v);
    }
    EXPECT_NEAR(q.run(solver, 5)[1], p, 1e-5);
  }
  for (bool decoupled : {false, true}) {
    Quadratic q;
    std::unique_ptr<Solver> solver;
    if (decoupled) solver = std::make_unique<AdamW>(q.net, 0.1, 0.9, 0.99, 1e-8, 0.05);
    else solver = std::make_unique<Adam>(q.net, 0.1, 0.9, 0.99, 1e-8, 0.05);
    double p = -2, m = 0, v = 0;
    for (int i = 1; i <= 5; i++) {
      const double g = decoupled ? p : p + 0.05 * p;
      if (decoupled) p -= 0.1 * 0.05 * p;
      m = 0.9 * m + 0.1 * g, v = 0.99 * v + 0.01 * g * g;
      p -= 0.1 * (m / (1 - std::pow(0.9, i))) / (std::sqrt(v / (1 - std::pow(0.99, i))) + 1e-8);
    }
    EXPECT_NEAR(q.run(*solver, 5)[1], p, 1e-5);
  }
}

TEST(Training, GradientsAddUpUntilTheyAreForgotten) {
  Quadratic q;
  for (double times : {1, 2, 3}) {
    q.net.forward(q.ec), q.net.backward(q.ec);
    EXPECT_EQ(read_values(q.net, q.net.param_diff("p.0")), (std::vector<double>{times, -2 * times}));
  }
  q.net.zero_grad();
  EXPECT_FALSE(q.net.param_diff("p.0").defined());
  q.net.set_loss_weight("loss", 0.5);
  q.net.forward(q.ec), q.net.backward(q.ec);
  EXPECT_EQ(read_values(q.net, q.net.param_diff("p.0")), (std::vector<double>{0.5, -1}));
  q.net.freeze("p.0");
  SGD solver(q.net);
  q.net.forward(q.ec), q.net.backward(q.ec), solver.step(q.ec);
  EXPECT_EQ(read_values(q.net, q.net.param("p.0")), (std::vector<double>{1, -2}));
}

TEST(Training, Schedules) {
  using namespace schedules;
  const Schedule s = schedules::step(1, 10), m = multistep(1, {3, 6}, 0.5), e = exponential(1, 0.5),
                 c = cosine(1, 10, 0.2), w = warm_up(4, cosine(2, 10)), o = one_cycle(1, 100);
  EXPECT_NEAR(s(9), 1, 1e-12);
  EXPECT_NEAR(s(10), 0.1, 1e-12);
  EXPECT_NEAR(m(2), 1, 1e-12);
  EXPECT_NEAR(m(3), 0.5, 1e-12);
  EXPECT_NEAR(m(6), 0.25, 1e-12);
  EXPECT_NEAR(e(3), 0.125, 1e-12);
  EXPECT_NEAR(c(0), 1, 1e-12);
  EXPECT_NEAR(c(5), 0.6, 1e-12);
  EXPECT_NEAR(c(20), 0.2, 1e-12);
  EXPECT_NEAR(w(0), 0.5, 1e-12);
  EXPECT_NEAR(w(4), 2, 1e-12);
  EXPECT_NEAR(o(0), 0.04, 1e-12);
  EXPECT_NEAR(o(29), 1, 1e-12);
  EXPECT_NEAR(o(99), 0.04 / 1e4, 1e-12);
  EXPECT_THROW(schedules::step(1, 0), ValidationError);
}

}  // namespace
}  // namespace dlprim::testing
