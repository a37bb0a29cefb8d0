// SPDX-License-Identifier: MIT
#ifndef _WIN32
#include <dlprim/runtime/cl.hpp>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "binary.hpp"
#include "message.hpp"
#include "serve.hpp"

namespace {

constexpr int connection = 0;

void receive(void* to, std::size_t bytes) {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t count = read(connection, at, bytes);
    if (count <= 0) std::_Exit(0);
    at += count, bytes -= std::size_t(count);
  }
}

void send_all(const void* from, std::size_t bytes) {
  for (auto* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t count = send(connection, at, bytes, MSG_NOSIGNAL);
    if (count <= 0) std::_Exit(0);
    at += count, bytes -= std::size_t(count);
  }
}

// The device of "platform:device", numbered as the loader lists them; null when there is none.
cl_device_id find_device(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return nullptr;
  const auto platform = std::strtoul(text.c_str(), nullptr, 10), device = std::strtoul(&text[colon + 1], nullptr, 10);
  std::vector<cl_platform_id> platforms(platform + 1);
  cl_uint count = 0;
  if (clGetPlatformIDs(cl_uint(platforms.size()), platforms.data(), &count) != CL_SUCCESS || count <= platform)
    return nullptr;
  std::vector<cl_device_id> devices(device + 1);
  const cl_int code =
      clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, cl_uint(devices.size()), devices.data(), &count);
  return code == CL_SUCCESS && count > device ? devices[device] : nullptr;
}

// A driver may end this process at a program that is tried: without a message and a file of its memory.
void end_in_silence() {
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  if (const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

std::string compile(cl_context context, cl_device_id device, const std::string& options, const std::string& target,
                    const std::string& text) {
  const char* data = text.data();
  const std::size_t size = text.size();
  cl_int code = CL_SUCCESS;
  const cl::Program program(clCreateProgramWithSource(context, 1, &data, &size, &code));
  if (code != CL_SUCCESS) return {};
  if (clBuildProgram(program(), 1, &device, options.c_str(), nullptr, nullptr) != CL_SUCCESS) return {};
  if (target.empty()) return dlprim::binary_of(program);
  std::string ptx = dlprim::retarget(dlprim::binary_of(program), target);
  // What the driver assembles lies in its cache when the other process asks for the same.
  dlprim::from_binary(context, device, ptx, options);
  return ptx;
}

}  // namespace

namespace dlprim {

int serve_compiler(const char* name) {
  // In the background at once: who starts it is no parent that has to wait for it.
  if (const pid_t child = fork(); child != 0) std::_Exit(child < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
  end_in_silence();
  cl_device_id device = find_device(name);
  if (!device) return EXIT_FAILURE;
  cl_int code = CL_SUCCESS;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) return EXIT_FAILURE;
  while (true) {
    CompileRequest request{};
    receive(&request, sizeof request);
    std::string options(request.options, '\0'), target(request.target, '\0'), text(request.text, '\0');
    for (std::string* part : {&options, &target, &text}) receive(part->data(), part->size());
    const std::string binary = compile(context, device, options, target, text);
    const CompileReply reply{binary.size()};
    send_all(&reply, sizeof reply);
    send_all(binary.data(), binary.size());
  }
}

}  // namespace dlprim
#endif
