// SPDX-License-Identifier: MIT
// Runs packages of AOTInductor on ocl devices, for torch._inductor.aoti_load_package and AOTIModelPackageLoader.
#include <ATen/DynamicLibrary.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <array>
#include <mutex>
#include <span>
#include <unordered_map>

#include "aot_interface.hpp"
#include "device.hpp"

namespace pytorch_ocl {

namespace {

using torch::inductor::AOTIModelContainerRunner;
using torch::inductor::TensorConstantMap;
using Handle = AOTInductorModelContainerHandle;

/// A loaded model. Its program is PyTorch's for the CPU as far as memory goes, which is never asked for any: constants
/// belong to this object, and the program borrows them.
class Runner final : public AOTIModelContainerRunner {
 public:
  Runner(const std::string& path, std::size_t models, c10::DeviceIndex index, const std::string& folder, bool single)
      : AOTIModelContainerRunner(path, models, "cpu:" + std::to_string(index), folder, single),
        device_(device_type, index) {
    symbol<void(std::int32_t)>("pytorch_ocl_aot_load")(index);
    std::int64_t count = 0;
    const auto* constants = symbol<const aot::Constant*(std::int64_t*)>("pytorch_ocl_aot_constants")(&count);
    constants_ = std::span(constants, std::size_t(count));
    borrow_ = update_user_managed_constant_buffer_func_;
    swap_ = swap_constant_buffer_func_;
    free_inactive_ = free_inactive_constant_buffer_func_;
    blob_size_ = get_constants_blob_size_func_;
    replace_functions();
    std::lock_guard guard(runners().mutex);
    runners().all[container_handle_] = this;
  }

  ~Runner() override {
    std::lock_guard guard(runners().mutex);
    runners().all.erase(container_handle_);
  }

 protected:
  std::vector<at::Tensor> run_impl(std::vector<AtenTensorHandle>& inputs, void* stream) override {
    TORCH_CHECK(!stream, "ocl: models run on their device's current stream, and take no handle of another");
    const c10::DeviceGuard guard(device_);
    take_aot_error();
    try {
      return AOTIModelContainerRunner::run_impl(inputs, stream);
    } catch (...) {
      if (const std::exception_ptr original = take_aot_error()) std::rethrow_exception(original);
      throw;
    }
  }

 private:
  using Held = std::unordered_map<std::string, std::shared_ptr<at::Tensor>>;

  struct Runners {
    std::mutex mutex;
    std::unordered_map<Handle, Runner*> all;
  };

  static Runners& runners() {
    static auto* instance = new Runners;
    return *instance;
  }

  static Runner& of(Handle handle) {
    std::lock_guard guard(runners().mutex);
    return *runners().all.at(handle);
  }

  template <class Function>
  Function* symbol(const char* name) {
    return reinterpret_cast<Function*>(model_so_->sym(name));
  }

  // The program's own functions would copy constants within the host's memory.
  void replace_functions() {
    update_constant_buffer_func_ = [](Handle handle, AOTInductorConstantMapHandle map, bool inactive, bool all) {
      return of(handle).update(map, inactive, all, {.copy = true, .from_cpu = false});
    };
    replace_update_from_cpu(*this);
    update_user_managed_constant_buffer_func_ = [](Handle handle, AOTInductorConstantMapHandle map, bool inactive,
                                                   bool all) {
      return of(handle).update(map, inactive, all, {.copy = false, .from_cpu = false});
    };
    update_inactive_constant_buffer_func_ = [](Handle handle, AOTInductorConstantMapHandle map) {
      return of(handle).update(map, true, true, {.copy = true, .from_cpu = false});
    };
    update_constants_from_blob_func_ = [](Handle handle, const std::uint8_t* bytes) { return of(handle).load(bytes); };
    // A model without weights has an empty file, which cannot be mapped with its size.
    get_constants_blob_size_func_ = [](Handle handle, std::uint64_t* size) {
      const AOTIRuntimeError error = of(handle).blob_size_(handle, size);
      *size = std::max<std::uint64_t>(*size, 1);
      return error;
    };
    swap_constant_buffer_func_ = [](Handle handle) {
      of(handle).active_ = 1 - of(handle).active_;
      return of(handle).swap_(handle);
    };
    free_inactive_constant_buffer_func_ = [](Handle handle) {
      of(handle).held_[1 - of(handle).active_].clear();
      return of(handle).free_inactive_(handle);
    };
  }

  template <class Any>
  static void replace_update_from_cpu(Any& runner) {
    if constexpr (requires { runner.update_constant_buffer_from_cpu_func_; })  // since PyTorch 2.13
      runner.update_constant_buffer_from_cpu_func_ = [](Handle handle, AOTInductorConstantMapHandle map, bool inactive,
                                                        bool all) {
        return of(handle).update(map, inactive, all, {.copy = true, .from_cpu = true});
      };
  }

  c10::Device device_of(const aot::Constant& constant) const {
    return constant.on_cpu ? c10::Device(c10::DeviceType::CPU) : device_;
  }

  // A tensor that gives its memory back when it is dropped: PyTorch's program never frees its own reference to a tensor
  // that it borrowed.
  static std::shared_ptr<at::Tensor> kept(at::Tensor tensor) {
    return {new at::Tensor(std::move(tensor)), [](at::Tensor* dropped) {
              const at::Tensor nothing = at::empty({0}, dropped->options());
              dropped->unsafeGetTensorImpl()->shallow_copy_from(nothing.getIntrusivePtr());
              delete dropped;
            }};
  }

  static at::IntArrayRef sizes_of(const aot::Constant& constant) {
    return {constant.sizes, std::size_t(constant.dimensions)};
  }

  static at::IntArrayRef strides_of(const aot::Constant& constant) {
    return {constant.strides, std::size_t(constant.dimensions)};
  }

  // Constants from a file that is mapped at `bytes`.
  AOTIRuntimeError load(const std::uint8_t* bytes) {
    Held loaded;
    for (const aot::Constant& constant : constants_) {
      const auto options = at::TensorOptions(at::ScalarType(constant.dtype)).device(device_of(constant));
      at::Tensor tensor = at::empty({0}, options);
      if (constant.bytes) {
        const auto file = at::from_blob(const_cast<std::uint8_t*>(bytes), {constant.bytes}, at::kByte);
        const at::Tensor memory = at::empty({constant.bytes}, options.dtype(at::kByte)).copy_(file);
        tensor.set_(memory.storage(), constant.offset, sizes_of(constant), strides_of(constant));
      } else {
        tensor = at::empty_strided(sizes_of(constant), strides_of(constant), options);
      }
      bytes += (constant.bytes + aot::constant_alignment - 1) / aot::constant_alignment * aot::constant_alignment;
      loaded[constant.name] = kept(std::move(tensor));
    }
    return hold(std::move(loaded), active_, true);
  }

  struct How {
    bool copy, from_cpu;
  };

  // What the caller gave for a constant, as the program takes it.
  at::Tensor accepted(const aot::Constant& constant, const at::Tensor& given, How how) const {
    const c10::Device wanted = device_of(constant);
    const bool fits = given.device() == wanted || (how.from_cpu && given.device().is_cpu());
    TORCH_CHECK(fits, "constant ", constant.name, " is expected on ", wanted, ", but is on ", given.device());
    TORCH_CHECK(given.sizes() == sizes_of(constant) && given.scalar_type() == at::ScalarType(constant.dtype),
                "constant ", constant.name, " is expected to be ", at::ScalarType(constant.dtype), " of sizes ",
                sizes_of(constant), ", but is ", given.scalar_type(), " of sizes ", given.sizes());
    if (how.copy)
      return at::empty_strided(given.sizes(), strides_of(constant), given.options().device(wanted)).copy_(given);
    TORCH_CHECK(given.strides() == strides_of(constant), "constant ", constant.name, " is expected with strides ",
                strides_of(constant), ", but has ", given.strides());
    return given.detach();
  }

  AOTIRuntimeError update(AOTInductorConstantMapHandle map, bool inactive, bool all, How how) {
    const auto& given = *reinterpret_cast<const TensorConstantMap*>(map);
    Held changed;
    const at::NoGradGuard no_gradients;
    for (const aot::Constant& constant : constants_) {
      const auto found = given.find(constant.name);
      if (found != given.end()) {
        changed[constant.name] = kept(accepted(constant, *found->second, how));
      } else if (inactive && !constant.is_parameter) {  // as PyTorch's, from the constants in use
        const auto used = held_[active_].find(constant.name);
        if (used != held_[active_].end()) changed[constant.name] = used->second;
      }
    }
    return hold(std::move(changed), inactive ? 1 - active_ : active_, all);
  }

  AOTIRuntimeError hold(Held changed, std::size_t set, bool all) {
    TensorConstantMap borrowed;
    for (const auto& [name, tensor] : changed) borrowed[name] = tensor.get();
    const AOTIRuntimeError error =
        borrow_(container_handle_, reinterpret_cast<AOTInductorConstantMapHandle>(&borrowed), set != active_, all);
    for (auto& [name, tensor] : changed) held_[set][name] = std::move(tensor);
    return error;
  }

  c10::Device device_;
  std::span<const aot::Constant> constants_;
  std::array<Held, 2> held_;  // by the program's sets of constants
  std::size_t active_ = 0;
  decltype(update_user_managed_constant_buffer_func_) borrow_ = nullptr;
  decltype(swap_constant_buffer_func_) swap_ = nullptr;
  decltype(free_inactive_constant_buffer_func_) free_inactive_ = nullptr;
  decltype(get_constants_blob_size_func_) blob_size_ = nullptr;
};

std::unique_ptr<AOTIModelContainerRunner> make_runner(const std::string& path, std::size_t models,
                                                      const std::string& device, const std::string& folder,
                                                      const bool single) {
  TORCH_CHECK(device_count() > 0,
              "the model runs on ocl devices, but there is none: ", dlprim::Device::missing_reason());
  return std::make_unique<Runner>(path, models, resolve_device(c10::Device(device).index()), folder, single);
}

const torch::inductor::RegisterAOTIModelRunner runner_registered("ocl", &make_runner);

}  // namespace

}  // namespace pytorch_ocl
