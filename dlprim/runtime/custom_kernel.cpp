// SPDX-License-Identifier: MIT
#include <dlprim/runtime/custom_kernel.hpp>
#include <dlprim/runtime/profile.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dlprim {

namespace {

std::string parameter_type(cl_kernel kernel, cl_uint index) {
  std::size_t size = 0;
  check(clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, 0, nullptr, &size), "clGetKernelArgInfo");
  std::string text(size, '\0');
  check(clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, size, text.data(), nullptr), "clGetKernelArgInfo");
  return text.c_str();
}

[[noreturn]] void fail(const Kernel& kernel, cl_uint index, const std::string& message) {
  throw ValidationError("[" + kernel.name() + "] argument " + std::to_string(index) + ": expected " + message);
}

// Integers must fit their parameter as they are.
template <class T, class Number>
void set_number(Kernel& kernel, cl_uint index, Number number) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T> && std::is_integral_v<Number>) {
    if (!std::in_range<T>(number))
      fail(kernel, index,
           std::to_string(Limits::min()) + " to " + std::to_string(Limits::max()) + ", got " + std::to_string(number));
  } else if constexpr (std::is_integral_v<T>) {
    const double end = std::ldexp(1.0, Limits::digits);  // the first that does not fit
    if (!(number >= double(Limits::min()) && number < end) || number != std::trunc(number))
      fail(kernel, index, "an integer in range, got " + std::to_string(number));
  }
  const T value = T(number);
  detail::set_argument(kernel, index, &value, sizeof value);
}

// IEEE's 16-bit format, rounded to the nearest, ties to even.
cl_half to_half(double number) {
  const cl_half sign = std::signbit(number) ? 0x8000 : 0;
  const double size = std::fabs(number);
  if (std::isnan(size)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const int exponent = std::max(size > 0 ? std::ilogb(size) : -15, -14);  // -14: also of subnormal numbers
  const auto steps = cl_half(std::nearbyint(std::ldexp(size, 10 - exponent)));  // 1024 ... 2048 when normal
  return cl_half(sign + steps + ((exponent + 14) << 10));
}

// Passes a number as the type its parameter has.
template <class Number>
void set_scalar(Kernel& kernel, cl_uint index, const std::string& type, Number value) {
  if (type == "float") return set_number<cl_float>(kernel, index, value);
  if (type == "half") {
    const cl_half half = to_half(double(value));
    return detail::set_argument(kernel, index, &half, sizeof half);
  }
  if (type == "double") return set_number<cl_double>(kernel, index, value);
  if (type == "int") return set_number<cl_int>(kernel, index, value);
  if (type == "uint" || type == "unsigned int") return set_number<cl_uint>(kernel, index, value);
  if (type == "long") return set_number<cl_long>(kernel, index, value);
  if (type == "ulong" || type == "unsigned long") return set_number<cl_ulong>(kernel, index, value);
  if (type == "short") return set_number<cl_short>(kernel, index, value);
  if (type == "ushort" || type == "unsigned short") return set_number<cl_ushort>(kernel, index, value);
  if (type == "char") return set_number<cl_char>(kernel, index, value);
  if (type == "uchar" || type == "unsigned char") return set_number<cl_uchar>(kernel, index, value);
  fail(kernel, index, "a " + type + ", got a number");
}

// The buffer from the offset on, as OpenCL 1.2 can pass it: a sub-buffer at an aligned origin.
cl::Buffer from_offset(Kernel& kernel, cl_uint index, BufferRef buffer) {
  const std::size_t alignment = kernel.device().info().base_alignment;
  if (buffer.offset % alignment)
    throw ValidationError("[" + kernel.name() + "] argument " + std::to_string(index) +
                          ": expected memory aligned to " + std::to_string(alignment) + " bytes, got offset " +
                          std::to_string(buffer.offset) + "; clone the tensor first");
  std::size_t size = 0;
  check(clGetMemObjectInfo(buffer.memory, CL_MEM_SIZE, sizeof size, &size, nullptr), "clGetMemObjectInfo");
  const cl_buffer_region region{buffer.offset, size - buffer.offset};
  cl_int code = CL_SUCCESS;
  cl::Buffer part(clCreateSubBuffer(buffer.memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
  check(code, "clCreateSubBuffer");
  return part;
}

NDRange make_range(const std::string& name, std::span<const std::int64_t> global, std::span<const std::int64_t> local) {
  if (global.empty() || global.size() > 3 || (!local.empty() && local.size() != global.size()))
    throw ValidationError("[" + name +
                          "] expected a global size of 1 to 3 dimensions and a local size of as many, got " +
                          std::to_string(global.size()) + " and " + std::to_string(local.size()));
  NDRange range(0);
  range.dims = int(global.size());
  for (std::size_t d = 0; d < global.size(); d++) {
    if (global[d] < 0 || (!local.empty() && local[d] < 1))
      throw ValidationError("[" + name + "] expected positive sizes");
    range.global[d] = std::size_t(global[d]);
    range.local[d] = local.empty() ? 0 : std::size_t(local[d]);
  }
  return range;
}

}  // namespace

CustomKernel::CustomKernel(Device& device, std::string source, const std::string& name, const std::string& options)
    : kernel_(device.programs().build(
          KernelSource::from_text(std::move(source), name).option("-cl-kernel-arg-info").option(options))) {
  cl_uint count = 0;
  check(clGetKernelInfo(kernel_->get(), CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr), "clGetKernelInfo");
  for (cl_uint i = 0; i < count; i++) types_.push_back(parameter_type(kernel_->get(), i));
}

void CustomKernel::run(Queue& queue, std::span<const Argument> arguments, std::span<const std::int64_t> global,
                       std::span<const std::int64_t> local) {
  if (arguments.size() != types_.size())
    throw ValidationError("[" + kernel_->name() + "] expected " + std::to_string(types_.size()) + " arguments, got " +
                          std::to_string(arguments.size()));
  const NDRange range = make_range(kernel_->name(), global, local);
  // Unlike ours, a user's kernel may rely on its local size: it is not made smaller.
  double items = local.empty() ? 0 : 1;
  for (std::int64_t size : local) items *= double(size);
  if (items > double(kernel_->max_work_group()))
    throw DeviceError("clEnqueueNDRangeKernel(" + kernel_->name() + ")", CL_INVALID_WORK_GROUP_SIZE);
  std::vector<cl::Buffer> parts;  // alive until the kernel is enqueued
  queue.run_once("a kernel of torch.ocl.compile_kernel runs in it");
  queue.admit();
  queue.submit();
  std::lock_guard guard(kernel_->lock());
  for (cl_uint i = 0; i < arguments.size(); i++) {
    if (const auto* integer = std::get_if<std::int64_t>(&arguments[i])) set_scalar(*kernel_, i, types_[i], *integer);
    else if (const auto* real = std::get_if<double>(&arguments[i])) set_scalar(*kernel_, i, types_[i], *real);
    else {
      if (types_[i].find('*') == std::string::npos)
        throw ValidationError("[" + kernel_->name() + "] argument " + std::to_string(i) + ": expected a " + types_[i] +
                              ", got a tensor");
      const BufferRef buffer = std::get<BufferRef>(arguments[i]);
      if (buffer.memory) parts.push_back(from_offset(*kernel_, i, buffer));
      const cl_mem memory = buffer.memory ? parts.back()() : nullptr;
      detail::set_argument(*kernel_, i, &memory, sizeof memory);
    }
  }
  if (range.global[0] && range.global[1] && range.global[2])
    detail::enqueue(queue, *kernel_, range, {}, Profiler::enabled());
}

}  // namespace dlprim
