# SPDX-License-Identifier: MIT
# Finds PyTorch without its own CMake package (which asks for CUDA where PyTorch was built with it).
# TORCH_DIR: the folder "torch" of an installation or of an unpacked wheel; default: the one Python imports.
# Defines the target `torch_cpu` and TORCH_VERSION ("2.13").
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(NOT TORCH_DIR)
  # pip's isolated builds hide the environment's packages but keep its interpreter: so look into its folders, too.
  set(query "
import importlib.util, os, sysconfig
spec = importlib.util.find_spec('torch')
folders = [os.path.dirname(spec.origin)] if spec and spec.origin else []
folders += [os.path.join(sysconfig.get_path(key), 'torch') for key in ('platlib', 'purelib')]
print(next((f for f in folders if os.path.exists(os.path.join(f, 'include', 'ATen', 'ATen.h'))), ''), end='')
")
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "${query}" OUTPUT_VARIABLE TORCH_DIR)
  if(NOT TORCH_DIR)
    message(FATAL_ERROR
      "PyTorch was not found by ${Python3_EXECUTABLE}. Install the PyTorch you want to use first; if it is installed, "
      "turn off build isolation (pip install --no-build-isolation ., with scikit-build-core, pyyaml, cmake and ninja "
      "installed) or name its folder (pip install . -C cmake.define.TORCH_DIR=<site-packages>/torch).")
  endif()
endif()
file(STRINGS ${TORCH_DIR}/include/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR)")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" TORCH_VERSION "${version_lines}")
message(STATUS "PyTorch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_cpu INTERFACE)
target_include_directories(torch_cpu SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/kineto
                           ${TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(torch_cpu INTERFACE USE_KINETO FMT_HEADER_ONLY AT_PER_OPERATOR_HEADERS)
target_link_libraries(torch_cpu INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so)
# An unpacked wheel lacks the libraries that these two need in turn.
target_link_options(torch_cpu INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)
