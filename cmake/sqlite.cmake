# SPDX-License-Identifier: MIT
# Target `sqlite`: the static library where it can become part of a shared one, so that wheels need no libsqlite3.
# Not every distribution compiles it as PIC; its symbols must be hidden (--exclude-libs) where it is linked.
find_package(SQLite3 REQUIRED)
add_library(sqlite INTERFACE)
target_include_directories(sqlite SYSTEM INTERFACE ${SQLite3_INCLUDE_DIRS})

find_library(SQLITE_STATIC ${CMAKE_STATIC_LIBRARY_PREFIX}sqlite3${CMAKE_STATIC_LIBRARY_SUFFIX})
if(SQLITE_STATIC AND UNIX)
  set(probe ${CMAKE_CURRENT_BINARY_DIR}/sqlite_probe.cpp)
  file(WRITE ${probe} "#include <sqlite3.h>\nint probe() { return sqlite3_initialize(); }\n")
  try_compile(SQLITE_STATIC_IS_PIC ${CMAKE_CURRENT_BINARY_DIR}/sqlite_probe ${probe}
              COMPILE_DEFINITIONS -fPIC
              CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${SQLite3_INCLUDE_DIRS}
              LINK_OPTIONS -shared -Wl,--exclude-libs,ALL LINK_LIBRARIES ${SQLITE_STATIC} m pthread dl)
endif()
if(SQLITE_STATIC_IS_PIC)
  target_link_libraries(sqlite INTERFACE ${SQLITE_STATIC} m ${CMAKE_DL_LIBS})
else()
  target_link_libraries(sqlite INTERFACE ${SQLite3_LIBRARIES})
endif()
