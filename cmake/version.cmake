# SPDX-License-Identifier: MIT
# Sets `version`, numbers alone, to that of the last git tag v<version>, as the Python packages do (pyproject.toml).
set(version 0.1.0)
if(SKBUILD_PROJECT_VERSION)
  set(version ${SKBUILD_PROJECT_VERSION})
else()
  find_program(GIT git)
  if(GIT AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/../.git)  # not a repository around the files
    execute_process(COMMAND ${GIT} describe --tags --abbrev=0 --match v[0-9]*
      WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR} OUTPUT_VARIABLE tag ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(tag MATCHES "^v([0-9]+(\\.[0-9]+)*)")
      set(version ${CMAKE_MATCH_1})
    endif()
  endif()
endif()
