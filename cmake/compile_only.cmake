# SPDX-License-Identifier: MIT
# CMAKE_PROJECT_INCLUDE: sources are only checked by the compiler, which instantiates every template but generates no
# code; objects, libraries and programs become empty files.
set(empty "<CMAKE_COMMAND> -E touch")
set(CMAKE_CXX_COMPILE_OBJECT "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE>" "${empty} <OBJECT>")
set(CMAKE_CXX_ARCHIVE_CREATE "${empty} <TARGET>")
set(CMAKE_CXX_ARCHIVE_APPEND "${empty} <TARGET>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
set(CMAKE_CXX_LINK_EXECUTABLE "${empty} <TARGET>")
