// SPDX-License-Identifier: MIT
// Every kernel and copy as a row of torch.profiler's tables and traces.
#include <dlprim/runtime/profile.hpp>
#include <libkineto.h>
#include <output_base.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#endif

#include <algorithm>
#include <limits>

namespace pytorch_ocl {

namespace {

using libkineto::ActivityType;

// Identifiers of the operators that the calling thread is in, outermost first.
thread_local std::vector<std::uint64_t> operators;

ActivityType type_of(const std::string& name) {
  if (name.starts_with("copy ")) return ActivityType::GPU_MEMCPY;
  return name == "fill" ? ActivityType::GPU_MEMSET : ActivityType::CONCURRENT_KERNEL;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  ~Session() override { stop(); }

  void start() override {
    first_ = dlprim::Profiler::start();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING) return;
    status_ = libkineto::TraceStatus::PROCESSING;
    try {
      commands_ = dlprim::Profiler::stop(first_);
    } catch (const std::exception& error) {  // Kineto expects none
      errors_.emplace_back(error.what());
    }
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](std::int32_t) { return nullptr; }, 0, std::numeric_limits<std::int64_t>::max());
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, std::int64_t begin,
                    std::int64_t end) override {
    buffer_->span = libkineto::TraceSpan(begin, end, "ocl");
    std::set<std::pair<int, std::int64_t>> seen;
    for (const auto& command : commands_) {
      if (seen.emplace(command.device, command.queue).second)
        logger.handleResourceInfo(
            {command.queue, command.queue, command.device, "stream " + std::to_string(command.queue)}, begin);
      buffer_->emplace_activity(buffer_->span, type_of(command.name), command.name);
      libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
      activity.startTime = std::int64_t(command.host_start);
      activity.endTime = activity.startTime + std::int64_t(command.end - command.start);
      activity.id = std::int32_t(command.correlation);
      activity.device = command.device;
      activity.resource = std::int32_t(command.queue);
      activity.linked = command.correlation ? linked(std::int32_t(command.correlation)) : nullptr;
      activity.addMetadata("stream", command.queue);
      if (command.bytes) activity.addMetadata("bytes", command.bytes);
      activity.log(logger);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(std::uint64_t id) override {
    operators.push_back(id);
    dlprim::Profiler::correlation = id;
  }
  void popCorrelationId() override {
    if (!operators.empty()) operators.pop_back();
    dlprim::Profiler::correlation = operators.empty() ? 0 : operators.back();
  }

 private:
  std::size_t first_ = 0;
  std::vector<dlprim::ProfiledCommand> commands_;
  std::vector<std::string> errors_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
};

class OclProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return types_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    auto is_wanted = [&](ActivityType type) { return types.contains(type); };
    return std::any_of(types_.begin(), types_.end(), is_wanted) ? std::make_unique<Session>() : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(std::int64_t, std::int64_t,
                                                                 const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  std::string name_ = "ocl";
  std::set<ActivityType> types_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET};
};

#ifdef REGISTER_PRIVATEUSE1_PROFILER
REGISTER_PRIVATEUSE1_PROFILER(OclProfiler);
#else  // PyTorch 2.11
const bool with_kineto = [] {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<OclProfiler>(); });
  return true;
}();
#endif

}  // namespace

}  // namespace pytorch_ocl
