# SPDX-License-Identifier: MIT
# Compiles through ccache where it is installed, also with precompiled headers. Of those ccache must compare the contents
# of all files (depend mode), not the preprocessed text: "#pragma once" goes by contents too, so a header precompiled
# before a comment of it changed would be included a second time. A namespace keeps entries made without it apart.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_NAMESPACE=dlprim-depend
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fpch-preprocess)  # lets ccache see through the precompiled header
endif()
