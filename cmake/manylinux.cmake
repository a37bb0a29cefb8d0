# SPDX-License-Identifier: MIT
# link_as_manylinux(TARGET): a library, module or program that loads where glibc is 2.28 and libstdc++ is GCC 8's, built
# with newer ones (DLPRIM_MANYLINUX, set by tools/wheels.py).

function(link_as_manylinux target)
  if(NOT DLPRIM_MANYLINUX)
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/cmake/manylinux)
  set(sources ${folder}/glibc_2_28.c)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL SHARED_LIBRARY)  # which passes exceptions and strings to others, by the system's libstdc++
    list(APPEND sources ${folder}/libstdcxx_8.cpp)
  else()
    target_link_options(${target} PRIVATE -static-libstdc++)
  endif()
  if(type STREQUAL EXECUTABLE)
    list(APPEND sources ${folder}/start.c)
  endif()
  # Where that glibc has what the newer one has in libc.
  target_link_options(${target} PRIVATE "LINKER:--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--as-needed")
  target_sources(${target} PRIVATE ${sources})
  # Their functions stand for the C library's: neither its declarations nor a compiler's knowledge of it may be used.
  set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                              COMPILE_OPTIONS "-fno-builtin;-fno-lto")
endfunction()
