# SPDX-License-Identifier: MIT
# PROJECT_WARNINGS: warnings for our own targets. TEST_OPTIONS: tests run once or twice, so less time is spent on
# optimizing them.
set(TEST_OPTIONS $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang>>:-O1>)
if(MSVC)
  set(PROJECT_WARNINGS /W3)
else()
  set(PROJECT_WARNINGS -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms inside std::string.
    list(APPEND PROJECT_WARNINGS -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict)
  endif()
endif()
