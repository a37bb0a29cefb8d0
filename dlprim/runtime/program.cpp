// SPDX-License-Identifier: MIT
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/program.hpp>
#include <dlprim/runtime/submission.hpp>
#include <dlprim/runtime/warning.hpp>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>

#include "build_progress.hpp"
#include "builders.hpp"
#include "compiler/binary.hpp"
#include "compilers.hpp"
#include "disk_cache.hpp"
#include "driver_defects.hpp"
#include "embedded_kernels.hpp"
#include "simulate.hpp"

namespace dlprim {

namespace {

// The text of a file of dlprim/kernels: from DLPRIM_KERNEL_PATH while developing, else from the library itself.
std::string kernel_file(const std::string& name) {
  if (const char* folder = environment::text("DLPRIM_KERNEL_PATH")) {
    std::ifstream file(std::string(folder) + "/" + name, std::ios::binary);
    if (file) return std::string(std::istreambuf_iterator<char>(file), {});
  }
  for (const EmbeddedFile& file : embedded_kernels())
    if (name == file.name) return std::string(file.text, file.size);
  throw Error("[program] there is no kernel file '" + name + "'");
}

// Appends `text` with its #include "..." lines replaced by the files, each once.
void resolve(const std::string& text, std::set<std::string>& included, std::string& out) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view directive = "#include \"";
    if (line.starts_with(directive)) {
      const std::string name = line.substr(directive.size(), line.find('"', directive.size()) - directive.size());
      if (included.insert(name).second) resolve(kernel_file(name), included, out);
    } else {
      out += line;
      out += '\n';
    }
  }
}

// The text without the kernels other than `name`, which would be compiled for nothing; all of it where none is called
// so. Kernels start with __kernel and end with }, both at the beginning of a line.
std::string only_kernel(const std::string& text, const std::string& name) {
  const std::string wanted = " " + name + "(";
  std::string out, kernel;
  bool found = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool inside = !kernel.empty() || line.starts_with("__kernel");
    (inside ? kernel : out) += line + '\n';
    if (!inside || line != "}") continue;
    if (kernel.find(wanted) != std::string::npos) out += kernel, found = true;
    kernel.clear();
  }
  return found ? out : text;
}

std::string device_options(const Device& device) {
  const DeviceInfo& info = device.info();
  cl_device_fp_config config = 0;
  clGetDeviceInfo(device.id(), CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, nullptr);
  std::string options = "-w ";  // warnings of the driver's compiler would go to standard error
  if (config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) options += "-cl-fp32-correctly-rounded-divide-sqrt ";
  if (info.fp64) options += "-DFP64 ";
  if (info.fp16) options += "-DFP16 ";
  if (info.nv_inline_ptx) options += "-DNV_PTX=" + std::to_string(info.nv_compute_capability) + " ";
  if (info.cpu) options += "-DCPU_DEVICE ";
  // rusticl ends the process at what SPIR-V cannot say, Oclgrind has no such function.
  if (info.platform == "rusticl" || info.platform == "Oclgrind") options += "-DNO_PREFETCH ";
  if (const char* more = environment::text("DLPRIM_BUILD_OPTIONS")) options.append(more).append(" ");
  return options;
}

// On a simulated device, definitions that keep a program from using what such a device lacks.
std::string what_is_missing(const DeviceInfo& info) {
  std::string text;
  if (!simulation()) return text;
  if (!info.fp64) text += "#define double simulated_device_without_float64\n";
  if (!info.int64_atomics) text += "#define atom_cmpxchg simulated_device_without_64_bit_atomics\n";
  return text;
}

// 128 bits of FNV-1a with two offsets, in hexadecimal: short keys for long sources.
std::string digest(const std::string& text) {
  std::uint64_t a = 0xcbf29ce484222325, b = 0x84222325cbf29ce4;
  for (unsigned char c : text) {
    a = (a ^ c) * 0x100000001b3;
    b = (b ^ c ^ (a >> 57)) * 0x100000001b3;
  }
  char key[40];
  std::snprintf(key, sizeof key, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
  return std::string(key) + std::to_string(text.size());
}

// Writes the text that a compiler gets, and its options and the target of its PTX in the first line, to a file of the
// folder DLPRIM_KERNEL_DUMP.
void dump(const std::string& text, const KernelSource& source, const std::string& options) {
  const char* folder = environment::text("DLPRIM_KERNEL_DUMP");
  if (!folder) return;
  const std::string first = options + (source.target.empty() ? "" : "target: " + source.target);
  std::ofstream file(std::string(folder) + "/" + source.kernel + "-" + digest(first + text) + ".cl", std::ios::binary);
  file << "// " << first << "\n" << text;
}

std::string log_of(const cl::Program& program, cl_device_id device) {
  std::size_t size = 0;
  clGetProgramBuildInfo(program(), device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  clGetProgramBuildInfo(program(), device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return log.c_str();
}

// "#define A 1" and so on as "A 1, ...".
std::string one_line(const std::string& defines) {
  std::istringstream lines(defines);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += (out.empty() ? "" : ", ") + line.substr(std::strlen("#define "));
  return out;
}

}  // namespace

KernelSource& KernelSource::define(std::string_view name, std::string_view value) {
  defines.append("#define ").append(name).append(" ").append(value).append("\n");
  return *this;
}

KernelSource& KernelSource::define(std::string_view name, std::int64_t value) {
  return define(name, std::to_string(value));
}

KernelSource& KernelSource::option(std::string_view more) {
  options.append(more).append(" ");
  return *this;
}

KernelSource& KernelSource::ptx_target(std::string_view name, int resident) {
  target = name;
  if (resident > 1) target += " " + std::to_string(resident);
  return *this;
}

KernelSource& KernelSource::build_now() {
  waits = true;
  return *this;
}

KernelSource KernelSource::from_text(std::string text, std::string kernel) {
  KernelSource source("", std::move(kernel));
  source.text = std::move(text);
  return source;
}

std::string ProgramCache::preprocess(const KernelSource& source) {
  std::string text;
  std::set<std::string> included;
  resolve(source.file.empty() ? source.text : kernel_file(source.file), included, text);
  return source.defines + (source.file.empty() ? text : only_kernel(text, source.kernel));
}

ProgramCache::ProgramCache(Device& device) : device_(device), compilers_(std::make_unique<Compilers>(device)) {}

ProgramCache::~ProgramCache() = default;

cl::Program ProgramCache::compile_here(const std::string& text, const std::string& options, const std::string& what) {
  const char* data = text.data();
  const std::size_t size = text.size();
  const cl_device_id id = device_.id();
  cl_int code = CL_SUCCESS;
  cl::Program program(clCreateProgramWithSource(device_.context()(), 1, &data, &size, &code));
  check(code, "clCreateProgramWithSource");
  // PoCL gives up, without naming an error, where another process makes the same folders of its cache at that moment.
  int tries = device_.info().vendor == Vendor::pocl ? 3 : 1;
  do code = clBuildProgram(program(), 1, &id, options.c_str(), nullptr, nullptr);
  while (code == CL_BUILD_PROGRAM_FAILURE && --tries > 0 && log_of(program, id).find("error:") == std::string::npos);
  if (code != CL_SUCCESS)
    throw BuildError(
        "[program] " + what + " does not build on " + device_.info().name + " (" + cl_error_name(code) + ")",
        log_of(program, id));
  if (device_.info().compiles_at_launch()) Builders::stop_at_exit();
  return program;
}

std::string ProgramCache::key_of(const std::string& text, const std::string& options, const std::string& target) const {
  const DeviceInfo& info = device_.info();
  return digest(info.platform + '\n' + info.name + '\n' + info.version + '\n' + info.driver + '\n' + options + '\n' +
                target + '\n' + text);
}

bool ProgramCache::accepts(const KernelSource& source) {
  const std::string options = device_options(device_) + source.options, text = preprocess(source);
  const std::string key = key_of(text, options, "");
  DiskCache& disk = DiskCache::instance();
  if (disk.is_used() && disk.load(key)) return true;
  const std::string binary = compilers_->trial(options, text);
  if (disk.is_used() && !binary.empty()) disk.store(key, binary);
  return !binary.empty();
}

cl::Program ProgramCache::program(const std::string& text, const std::string& options, const std::string& target,
                                  const std::string& what) {
  const DeviceInfo& info = device_.info();
  const std::string key = key_of(text, options, target);
  DiskCache& disk = DiskCache::instance();
  auto load = [&](const std::string& binary) {
    return from_binary(device_.context()(), device_.id(), binary, options);
  };
  // Binaries forget the types of parameters: who asks for them gets a fresh build.
  const bool whole = options.find("-cl-kernel-arg-info") == std::string::npos, kept = whole && disk.is_used();
  auto from_disk = [&] {
    cl::Program program;
    if (const auto binary = disk.load(key); binary && !(program = load(*binary))()) disk.erase(key);
    return program;
  };
  if (cl::Program program = kept ? from_disk() : cl::Program(); program()) return program;
  const bool targeted = target.substr(0, target.find(' ')) == "sm_" + std::to_string(info.nv_compute_capability) + "a";
  const std::string exact = targeted ? target : "";
  BuildProgress progress(what);
  // One process builds it, the others wait. PoCL would end one that asks for the binary while another builds kernels.
  const PlaceLock alone = kept ? disk.building(key) : PlaceLock();
  if (cl::Program program = kept ? from_disk() : cl::Program(); program()) return progress.set_elsewhere(), program;
  std::string binary;
  auto here = [&] {
    cl::Program built = compile_here(text, options, what);
    if (kept || targeted) binary = binary_of(built);
    if (targeted) built = load(binary = retarget(std::move(binary), exact));
    if (!built()) throw BuildError("[program] " + what + " does not assemble for " + target + " on " + info.name, "");
    return built;
  };
  cl::Program program;
  {
    Compilers::Turn turn(*compilers_);
    binary = whole ? turn.elsewhere(options, exact, text) : "";
    if (binary.empty()) program = here();
    else progress.set_elsewhere();
  }
  if (!program()) program = load(binary);
  if (!program()) program = here();
  if (kept && !binary.empty()) disk.store(key, binary);
  return program;
}

void ProgramCache::refuse_defects(const KernelSource& source) const {
  const DeviceInfo& info = device_.info();
  if (const DriverDefect* defect = driver_defect(info, source.file + ':' + source.kernel))
    throw DriverDefectError("[" + source.kernel + "] the driver " + info.platform + " " + info.driver + " of " +
                            info.name + " is known to compute this wrong: " + defect->reason);
}

std::unique_ptr<Kernel> ProgramCache::build(const KernelSource& source) {
  refuse_defects(source);
  return std::make_unique<Kernel>(device_, compile(source), source);
}

std::unique_ptr<Kernel> ProgramCache::begin(const KernelSource& source) {
  // The first program loads the driver's compiler: what ends the builders must be registered after what unloads that.
  const bool first = !compiled_.exchange(true);
  if (first || source.waits || BuildNow::wanted() || !device_.submission()) return build(source);
  refuse_defects(source);
  auto kernel = std::make_unique<Kernel>(device_, source);
  Builders::instance().add(*kernel);
  return kernel;
}

cl::Kernel ProgramCache::compile(const KernelSource& source) {
  const std::string options = device_options(device_) + source.options;
  std::string what = source.kernel + (source.file.empty() ? "" : " of " + source.file);
  if (environment::is_on("DLPRIM_DEBUG_BUILD")) what += ": " + one_line(source.defines);
  const std::string text = what_is_missing(device_.info()) + preprocess(source);
  dump(text, source, options);
  cl::Program built = computes_nothing(device_.info())
                          ? program("__kernel void " + source.kernel + "(void) {}\n", "", "", what)
                          : program(text, options, source.target, what);
  cl_int code = CL_SUCCESS;
  cl::Kernel kernel(clCreateKernel(built(), source.kernel.c_str(), &code));
  check(code, ("clCreateKernel(" + source.kernel + ")").c_str());
  return kernel;
}

}  // namespace dlprim
