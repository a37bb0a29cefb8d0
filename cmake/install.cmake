# SPDX-License-Identifier: MIT
# The package that find_package(dlprim) finds: headers, libraries, the program `dlprim`. Component "dlprim" of the
# installation, so that wheels leave it out.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(headers ${PROJECT_SOURCE_DIR}/dlprim/include)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/dlprim)

install(DIRECTORY ${headers}/dlprim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dlprim)

set(libraries dlprim)
if(DLPRIM_NET)
  list(APPEND libraries dlprim_net)
endif()
install(TARGETS ${libraries} EXPORT dlprimTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dlprim
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dlprim
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT dlprim)
if(TARGET dlprim_compiler)
  # Beside what carries the library's code.
  install(TARGETS dlprim_compiler RUNTIME COMPONENT dlprim
          DESTINATION $<IF:$<BOOL:${DLPRIM_SHARED}>,${CMAKE_INSTALL_LIBDIR},${CMAKE_INSTALL_BINDIR}>)
endif()
install(EXPORT dlprimTargets NAMESPACE dlprim:: DESTINATION ${package} COMPONENT dlprim)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/dlprimConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/dlprimConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/dlprimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dlprimConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/dlprimConfigVersion.cmake
        DESTINATION ${package} COMPONENT dlprim)
