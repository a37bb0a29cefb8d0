# SPDX-License-Identifier: MIT
# PROJECT_WARNINGS: warnings for our own targets.
if(MSVC)
  set(PROJECT_WARNINGS /W3)
else()
  set(PROJECT_WARNINGS -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms inside std::string.
    list(APPEND PROJECT_WARNINGS -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict)
  endif()
endif()
