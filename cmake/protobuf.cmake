# SPDX-License-Identifier: MIT
# PROTOBUF_LITE, a library to link with, and protobuf::protoc: the system's. With DLPRIM_PROTOBUF_SOURCE, a folder of
# protobuf's sources of the version of the compiler that the system has, the library is compiled from these, as wheels
# need it: Debian's static one cannot become part of a shared library.
if(NOT DLPRIM_PROTOBUF_SOURCE)
  find_package(Protobuf REQUIRED)
  set(PROTOBUF_LITE protobuf::libprotobuf-lite)
  return()
endif()
foreach(part TESTS CONFORMANCE EXAMPLES PROTOC_BINARIES LIBPROTOC SHARED_LIBS)
  set(protobuf_BUILD_${part} OFF CACHE BOOL "" FORCE)
endforeach()
set(protobuf_INSTALL OFF CACHE BOOL "" FORCE)
set(protobuf_WITH_ZLIB OFF CACHE BOOL "" FORCE)
add_subdirectory(${DLPRIM_PROTOBUF_SOURCE} protobuf EXCLUDE_FROM_ALL)
set(PROTOBUF_LITE $<BUILD_INTERFACE:libprotobuf-lite>)  # not for who links with what is installed
find_program(PROTOC protoc REQUIRED)
add_executable(protobuf::protoc IMPORTED)
set_target_properties(protobuf::protoc PROPERTIES IMPORTED_LOCATION ${PROTOC})
set(Protobuf_INCLUDE_DIRS ${DLPRIM_PROTOBUF_SOURCE}/src)
