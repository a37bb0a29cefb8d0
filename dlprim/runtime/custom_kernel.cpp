// SPDX-License-Identifier: MIT
#include <dlprim/runtime/custom_kernel.hpp>
#include <dlprim/runtime/profile.hpp>

namespace dlprim {

namespace {

std::string parameter_type(cl_kernel kernel, cl_uint index) {
  std::size_t size = 0;
  check(clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, 0, nullptr, &size), "clGetKernelArgInfo");
  std::string text(size, '\0');
  check(clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, size, text.data(), nullptr), "clGetKernelArgInfo");
  return text.c_str();
}

template <class T, class Number>
void set_number(Kernel& kernel, cl_uint index, Number number) {
  const T value = T(number);
  detail::set_argument(kernel, index, &value, sizeof value);
}

// Passes a number as the type its parameter has.
template <class Number>
void set_scalar(Kernel& kernel, cl_uint index, const std::string& type, Number value) {
  if (type == "float") return set_number<cl_float>(kernel, index, value);
  if (type == "double") return set_number<cl_double>(kernel, index, value);
  if (type == "int") return set_number<cl_int>(kernel, index, value);
  if (type == "uint" || type == "unsigned int") return set_number<cl_uint>(kernel, index, value);
  if (type == "long") return set_number<cl_long>(kernel, index, value);
  if (type == "ulong" || type == "unsigned long") return set_number<cl_ulong>(kernel, index, value);
  if (type == "short") return set_number<cl_short>(kernel, index, value);
  if (type == "ushort" || type == "unsigned short") return set_number<cl_ushort>(kernel, index, value);
  if (type == "char") return set_number<cl_char>(kernel, index, value);
  if (type == "uchar" || type == "unsigned char") return set_number<cl_uchar>(kernel, index, value);
  throw ValidationError("[" + kernel.name() + "] argument " + std::to_string(index) + ": expected a " + type +
                        ", got a number");
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
  cl::Buffer part(
      clCreateSubBuffer(buffer.memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
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
  std::vector<cl::Buffer> parts;  // alive until the kernel is enqueued
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
      parts.push_back(from_offset(*kernel_, i, std::get<BufferRef>(arguments[i])));
      const cl_mem memory = parts.back()();
      detail::set_argument(*kernel_, i, &memory, sizeof memory);
    }
  }
  if (range.global[0] && range.global[1] && range.global[2])
    detail::enqueue(queue, *kernel_, range, {}, Profiler::enabled());
}

}  // namespace dlprim
