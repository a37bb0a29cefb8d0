// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "commands.hpp"
#include "dataset.hpp"
#include "model.hpp"
#include "system.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct TrainOptions : ModelOptions {
  std::string data, output = ".", resume, solver = "adam", schedule = "constant", format = "dlp";
  std::vector<float> mean, deviation;
  int epochs = 5, step_size = 5, save_every = 1;
  double lr = 0, momentum = 0.9, weight_decay = -1, gamma = 0.1;
  bool nesterov = false, quiet = false;
  std::uint64_t seed = 1;
};

const char* const epoch_key = "train.epoch";  // beside the solver's own state in snapshots

class Trainer {
 public:
  explicit Trainer(const TrainOptions& o)
      : o_(o), context_(make_context(o.device)), queue_(context_.make_execution_context()), net_(context_) {
    net_.mode(CalculationsMode::train);
    load(net_, o);
    find_roles();
    normalization_ = {o.mean.empty() ? std::vector<float>{channels_ == 3 ? 0.45f : 0.f} : o.mean,
                      o.deviation.empty() ? std::vector<float>{channels_ == 3 ? 0.225f : 1.f} : o.deviation};
    sets_ = open_datasets(o.data, channels_, width_, height_);
    batch_ = std::min<std::size_t>(std::size_t(o.batch > 0 ? o.batch : net_.input_info(data_).shape[0]),
                                   sets_.train->size());
    if (o.parameters.empty() && o.resume.empty()) net_.initialize_parameters(o.seed);
    make_solver();
    if (!o.resume.empty()) resume();
  }

  void run() {
    std::printf("%s: %zu images for training, %zu for testing, batch %zu, on %s\n", o_.model.c_str(),
                sets_.train->size(), sets_.test ? sets_.test->size() : 0, batch_, context_.name().c_str());
    std::filesystem::create_directories(o_.output);
    for (int epoch = epoch_ + 1; epoch <= o_.epochs; epoch++) {
      const auto start = std::chrono::steady_clock::now();
      const double loss = train(epoch);
      std::printf("epoch %d  loss %.4f  lr %.2g", epoch, loss, solver_->lr);
      if (sets_.test && scores_ >= 0) std::printf("  test accuracy %.2f %%", 100 * accuracy());
      std::printf("  %.1f s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      std::fflush(stdout);
      if (epoch % o_.save_every == 0 || epoch == o_.epochs) save(epoch);
    }
  }

 private:
  // Which inputs and outputs are images, labels, the loss and the classes' scores.
  void find_roles() {
    if (net_.inputs() != 2)
      throw ValidationError("[train] expected a network with two inputs, images and labels, got " +
                            std::to_string(net_.inputs()));
    label_ =
        net_.input_info(0).name == "label" || net_.input_info(0).shape.size() < net_.input_info(1).shape.size() ? 0 : 1;
    data_ = 1 - label_;
    for (int i = 0; i < net_.outputs(); i++) {
      if (net_.loss_weight(net_.output_info(i).name) != 0) loss_ = loss_ < 0 ? i : loss_;
      else if (net_.output_info(i).shape.size() == 2 && scores_ < 0) scores_ = i;
    }
    if (loss_ < 0)
      throw ValidationError("[train] the network has no loss: name an output loss, or give it a loss_weight");
    const Shape& shape = net_.input_info(data_).shape;
    if (shape.size() == 4) channels_ = int(shape[1]), height_ = int(shape[2]), width_ = int(shape[3]);
    else if (shape.size() == 2) height_ = width_ = int(std::lround(std::sqrt(double(shape[1]))));
    if (width_ <= 0 || std::int64_t(channels_) * width_ * height_ != shape.product(1, shape.size()) ||
        (channels_ != 1 && channels_ != 3) || net_.input_info(data_).dtype != DataType::float32)
      throw ValidationError("[train] expected float32 images [N, 1 or 3, H, W] or [N, H * H], got " + shape.text());
  }

  void make_solver() {
    auto given = [](double value, double otherwise) { return value >= 0 ? value : otherwise; };
    const double lr = o_.lr > 0 ? o_.lr : o_.solver == "sgd" ? 0.1 : 1e-3;
    if (o_.solver == "sgd")
      solver_ = std::make_unique<SGD>(net_, lr, o_.momentum, given(o_.weight_decay, 5e-4), o_.nesterov);
    else if (o_.solver == "adam")
      solver_ = std::make_unique<Adam>(net_, lr, 0.9, 0.999, 1e-8, given(o_.weight_decay, 5e-4));
    else solver_ = std::make_unique<AdamW>(net_, lr, 0.9, 0.999, 1e-8, given(o_.weight_decay, 1e-2));
    const std::int64_t an_epoch = std::int64_t(std::max<std::size_t>(1, sets_.train->size() / batch_)),
                       all = an_epoch * o_.epochs;
    if (o_.schedule == "step") solver_->schedule = schedules::step(lr, an_epoch * o_.step_size, o_.gamma);
    else if (o_.schedule == "cosine") solver_->schedule = schedules::cosine(lr, all);
    else if (o_.schedule == "one-cycle") solver_->schedule = schedules::one_cycle(lr, all);
  }

  static std::string solver_file(const std::string& parameters) {
    const std::filesystem::path path(parameters);
    return (path.parent_path() / (path.stem().string() + ".solver.dlp")).string();
  }

  void resume() {
    net_.load_parameters(o_.resume);
    NamedTensors state = read_parameters(solver_file(o_.resume));
    if (const auto epoch = state.find(epoch_key); epoch != state.end()) {
      std::int64_t number = 0;
      if (epoch->second.dtype() == DataType::int64 && epoch->second.numel() == 1)
        epoch->second.to_host(queue_, &number);
      epoch_ = int(number);
      state.erase(epoch);
    }
    solver_->load_state(state);
    std::printf("going on after epoch %d\n", epoch_);
  }

  void save(int epoch) {
    const std::string path =
        (std::filesystem::path(o_.output) / ("snap_" + std::to_string(epoch) + "." + o_.format)).string();
    net_.save_parameters(path);
    NamedTensors state = solver_->state();
    const std::int64_t number = epoch;
    state[epoch_key] = Tensor::from_host(DataType::int64, {1}, &number);
    write_parameters(solver_file(path), state);
  }

  // Fills the inputs with these images.
  void feed(const Dataset& set, const std::size_t* indices, std::size_t count) {
    if (net_.input(data_).shape()[0] != std::int64_t(count)) net_.set_batch(std::int64_t(count));
    const std::size_t pixels = std::size_t(channels_ * width_ * height_);
    images_.resize(count * pixels);
    labels_.resize(count);
    for (std::size_t k = 0; k < count; k++) {
      normalization_.apply(set.image(indices[k]), false, images_.data() + k * pixels);
      labels_[k] = set.label(indices[k]);
    }
    net_.input(data_).to_device(queue_, images_);
    Tensor& labels = net_.input(label_);
    auto give = [&]<class T>(T) { labels.to_device(queue_, std::vector<T>(labels_.begin(), labels_.end())); };
    if (labels.dtype() == DataType::int32) give(std::int32_t());
    else if (labels.dtype() == DataType::int64) give(std::int64_t());
    else if (labels.dtype() == DataType::float32) give(float());
    else
      throw ValidationError(std::string("[train] expected labels of int32, int64 or float32, got ") +
                            name(labels.dtype()));
  }

  // One epoch; the mean loss of the batches that were looked at.
  double train(int epoch) {
    net_.mode(CalculationsMode::train);
    std::vector<std::size_t> order(sets_.train->size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 engine(o_.seed * 1000003 + std::uint64_t(epoch));
    for (std::size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[engine() % i]);
    const std::size_t batches = order.size() / batch_;
    double sum = 0;
    int looks = 0;
    for (std::size_t b = 0; b < batches; b++) {
      feed(*sets_.train, &order[b * batch_], batch_);
      solver_->zero_grad();
      net_.forward(queue_);
      net_.backward(queue_);
      solver_->step(queue_);
      if (b % 10 == 0 || b + 1 == batches) sum += loss(), looks++, progress(epoch, b + 1, batches, sum / looks);
    }
    return sum / std::max(1, looks);
  }

  double loss() {
    float value = 0;
    const Tensor& tensor = net_.output(loss_);
    if (tensor.dtype() != DataType::float32 || tensor.numel() != 1)
      throw ValidationError("[train] the loss is no single float32");
    tensor.to_host(queue_, &value);
    if (!std::isfinite(value)) throw Error("[train] the loss is " + std::to_string(value) + ": try a smaller --lr");
    return value;
  }

  void progress(int epoch, std::size_t done, std::size_t all, double loss) const {
    if (o_.quiet || !is_terminal()) return;
    const std::size_t filled = 30 * done / all;
    std::fprintf(stderr, "\repoch %d [%s%s] %zu/%zu  loss %.4f \x1b[K", epoch, std::string(filled, '#').c_str(),
                 std::string(30 - filled, '.').c_str(), done, all, loss);
    if (done == all) std::fputs("\r\x1b[K", stderr);
  }

  double accuracy() {
    net_.mode(CalculationsMode::predict);
    std::size_t right = 0;
    const std::size_t size = sets_.test->size();
    std::vector<std::size_t> indices(size);
    std::iota(indices.begin(), indices.end(), 0);
    for (std::size_t first = 0; first < size; first += batch_) {
      const std::size_t count = std::min(batch_, size - first);
      feed(*sets_.test, &indices[first], count);
      net_.forward(queue_);
      const Tensor& output = net_.output(scores_);
      std::vector<float> scores(std::size_t(output.numel()));
      output.to_host(queue_, scores);
      const std::size_t classes = scores.size() / count;
      for (std::size_t k = 0; k < count; k++) {
        const auto row = scores.begin() + std::ptrdiff_t(k * classes);
        right += std::max_element(row, row + std::ptrdiff_t(classes)) - row == labels_[k];
      }
    }
    return double(right) / double(size);
  }

  const TrainOptions& o_;
  Context context_;
  ExecutionContext queue_;
  Net net_;
  int data_ = 0, label_ = 1, loss_ = -1, scores_ = -1, channels_ = 1, width_ = 0, height_ = 0, epoch_ = 0;
  std::size_t batch_ = 0;
  Normalization normalization_;
  Datasets sets_;
  std::unique_ptr<Solver> solver_;
  std::vector<float> images_;
  std::vector<int> labels_;
};

}  // namespace

void train(CLI::App& program) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = program.add_subcommand("train", "Trains a JSON network on MNIST's files or a folder of images");
  add_model_options(*command, *options);
  command
      ->add_option("data", options->data,
                   "Folder: MNIST's IDX files, or a folder of images for each class, below train and val")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("-e,--epochs", options->epochs, "Epochs in all")->check(CLI::PositiveNumber);
  command->add_option("-s,--solver", options->solver, "sgd, adam, adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  command->add_option("--lr", options->lr, "Learning rate; default: 0.001, 0.1 for sgd")->check(CLI::PositiveNumber);
  command->add_option("--momentum", options->momentum, "Of sgd")->check(CLI::Range(0., 1.));
  command->add_option("--weight-decay", options->weight_decay, "Default: 0.0005, 0.01 for adamw")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--nesterov", options->nesterov, "Nesterov's momentum for sgd");
  command->add_option("--schedule", options->schedule, "Learning rate: constant, step, cosine, one-cycle")
      ->check(CLI::IsMember({"constant", "step", "cosine", "one-cycle"}));
  command->add_option("--step-size", options->step_size, "Epochs between the steps of --schedule step")
      ->check(CLI::PositiveNumber);
  command->add_option("--gamma", options->gamma, "Factor of each step")->check(CLI::PositiveNumber);
  command->add_option("--mean", options->mean, "Mean of each channel of pixels in 0..1; default: 0, colours 0.45")
      ->delimiter(',');
  command->add_option("--std", options->deviation, "Standard deviation; default: 1, colours 0.225")->delimiter(',');
  command->add_option("-o,--output", options->output, "Folder for snapshots: parameters and the solver's state");
  command->add_option("--format", options->format, "Of snapshots: dlp, h5, safetensors")
      ->check(CLI::IsMember({"dlp", "h5", "safetensors"}));
  command->add_option("--save-every", options->save_every, "Epochs between snapshots")->check(CLI::PositiveNumber);
  command->add_option("-r,--resume", options->resume, "Snapshot to go on from")->check(CLI::ExistingFile);
  command->add_option("--seed", options->seed, "Seed of the initial parameters and the order of images");
  command->add_flag("-q,--quiet", options->quiet, "No progress bar");
  command->callback([options] { Trainer(*options).run(); });
}
