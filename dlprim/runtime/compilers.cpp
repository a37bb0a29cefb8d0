// SPDX-License-Identifier: MIT
#include "compilers.hpp"

#include <dlprim/runtime/environment.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>

#include "builders.hpp"
#include "compiler/message.hpp"
#include "compiler/serve.hpp"
#include "cpus.hpp"
#include "system.hpp"

namespace dlprim {

namespace {

constexpr unsigned most_processes = 12;
constexpr int bytes_of_device = 33;  // 2^33 for each process
constexpr unsigned started_ahead = 4;
constexpr auto timeout = std::chrono::seconds(60);  // with one program
constexpr std::uint64_t largest_binary = std::uint64_t(1) << 30;
constexpr std::string_view request = "compile-for:";  // and a device, as the only argument
bool answers = false;  // this program does, asked so

unsigned processes_for(const DeviceInfo& info) {
  if (environment::choice("DLPRIM_COMPILERS") == false) return 0;
  if (const auto number = environment::number("DLPRIM_COMPILERS")) return unsigned(std::min<std::int64_t>(*number, 64));
  const auto by_memory = unsigned(std::min<std::uint64_t>(info.global_memory >> bytes_of_device, most_processes));
  return info.nv_inline_ptx ? std::min(share_of_cpus() * 3 / 4, by_memory) : 0;
}

std::string_view bytes_of(const auto& message) { return {reinterpret_cast<const char*>(&message), sizeof message}; }

// The binary, empty where the program does not build; nothing where there is no answer.
std::optional<std::string> ask(Companion& companion, const std::string& options, const std::string& target,
                               const std::string& text) {
  const CompileRequest request{options.size(), target.size(), text.size()};
  CompileReply reply{};
  for (const std::string_view part :
       {bytes_of(request), std::string_view(options), std::string_view(target), std::string_view(text)})
    if (!companion.send(part)) return std::nullopt;
  if (!companion.receive({reinterpret_cast<char*>(&reply), sizeof reply}, timeout)) return std::nullopt;
  if (reply.binary > largest_binary) return std::nullopt;
  std::optional<std::string> binary(std::in_place, reply.binary, '\0');
  if (!companion.receive(*binary, timeout)) return std::nullopt;
  return binary;
}

}  // namespace

void answer_as_compiler(int count, char** arguments) {
  answers = true;
  if (count != 2) return;
  const std::string_view argument = arguments[1];
  if (argument.starts_with(request)) std::exit(serve_compiler(arguments[1] + request.size()));
}

Compilers::Compilers(const Device& device) : device_(device.info().id), most_(processes_for(device.info())) {
  limited_ = device.info().nv_inline_ptx || most_ > 0;
}

Compilers::~Compilers() = default;

void Compilers::take_own(std::unique_lock<std::mutex>& guard) {
  free_.wait(guard, [&] { return !own_; });
  own_ = true;
}

std::unique_ptr<Companion> Compilers::start() noexcept {
  try {
    const std::filesystem::path own = library_file(), beside = own.parent_path() / "dlprim_compiler";
    if (own.empty()) return nullptr;
    if (!answers || exists(beside)) return std::make_unique<Companion>(beside, device_);
    return std::make_unique<Companion>(own, std::string(request) + device_);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Whether this process may compile. Not beside others that do: its driver would make it wait with what they have built.
bool Compilers::may_own() const { return !own_ && (!answered_ || most_ == 0); }

// Starts processes before they are needed: each takes a while until it has its context.
void Compilers::start_ahead() {
  while (running_ < std::min(most_, started_ahead)) {
    if (auto companion = start()) idle_.push_back(std::move(companion)), running_++;
    else most_ = running_;
  }
}

Compilers::Turn::Turn(Compilers& compilers) : compilers_(compilers) {
  Compilers& all = compilers;
  if (!all.limited_) return;
  std::unique_lock guard(all.mutex_);
  all.free_.wait(guard, [&] { return all.may_own() || !all.idle_.empty() || all.running_ < all.most_; });
  if (all.may_own()) {
    all.own_ = true;
    if (all.running_ == 0) all.start_ahead();
  } else if (!all.idle_.empty()) {
    companion_ = std::move(all.idle_.back());
    all.idle_.pop_back();
  } else {
    companion_ = all.start();
    if (companion_) {
      all.running_++;
    } else {
      all.most_ = all.running_;  // it is not there, or there are no more processes
      all.take_own(guard);
    }
  }
  const bool others = all.running_ > 0;
  guard.unlock();
  if (others) Builders::instance().watch();
}

Compilers::Turn::~Turn() {
  if (!compilers_.limited_) return;
  {
    std::lock_guard guard(compilers_.mutex_);
    if (companion_) compilers_.idle_.push_back(std::move(companion_));
    else compilers_.own_ = false;
  }
  compilers_.free_.notify_all();
}

std::string Compilers::Turn::elsewhere(const std::string& options, const std::string& target, const std::string& text) {
  if (!companion_) return {};
  std::optional<std::string> binary = ask(*companion_, options, target, text);
  std::unique_lock guard(compilers_.mutex_);
  if (binary && !binary->empty()) {
    compilers_.answered_ = true;
    return *binary;
  }
  if (binary) {
    // This process will say why the program does not build; the other one serves on.
    compilers_.idle_.push_back(std::move(companion_));
    compilers_.free_.notify_all();
  } else {
    companion_.reset();
    compilers_.most_ = --compilers_.running_;
    if (compilers_.running_ == 0) compilers_.answered_ = false;
  }
  compilers_.take_own(guard);
  return {};
}

std::string Compilers::trial(const std::string& options, const std::string& text) {
  if (environment::choice("DLPRIM_COMPILERS") == false) return {};
  const auto companion = start();
  return companion ? ask(*companion, options, "", text).value_or("") : "";
}

void Compilers::close_idle() {
  std::lock_guard guard(mutex_);
  running_ -= unsigned(idle_.size());
  idle_.clear();
  if (running_ == 0) answered_ = false;
}

}  // namespace dlprim
