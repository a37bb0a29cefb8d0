# SPDX-License-Identifier: MIT
# ocl_generate(<target>): generates the operator registrations for the torch found, adds them to the target.
#   Needs Python3_EXECUTABLE (with PyYAML), TORCH_DIR (folder "torch"; torchgen lies beside it).
#   Reads pytorch_ocl/operators/*.yaml and dlprim/include/dlprim/primitives/{pointwise,special,reduce}_table.inc; runs again when one
#   of them, the generator or torch's function list changes; an unchanged output keeps its time, so that
#   nothing else is rebuilt.
#   Gives the target `#include "generated/structured/<operator>.h"` and `"generated/functions/<family>.h"`,
#   and sets OCL_OPERATORS_JSON to the list of everything registered.
function(ocl_generate target)
  set(root ${PROJECT_SOURCE_DIR}/pytorch_ocl)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/codegen/generated)
  set(torchgen ${TORCH_DIR}/../torchgen)
  file(GLOB families CONFIGURE_DEPENDS ${root}/operators/*.yaml)
  file(GLOB generator CONFIGURE_DEPENDS ${root}/codegen/*.py)

  set(primitives ${PROJECT_SOURCE_DIR}/dlprim/include/dlprim/primitives)
  file(GLOB tables CONFIGURE_DEPENDS ${primitives}/pointwise_table.inc ${primitives}/special_table.inc
       ${primitives}/reduce_table.inc)
  set(table_options "")
  set(sources "")
  foreach(table IN LISTS tables)
    get_filename_component(name ${table} NAME_WE)
    string(REPLACE "_table" "" kind ${name})
    string(REPLACE "special" "pointwise" kind ${kind})  # its rows are of the pointwise engine
    list(APPEND table_options --table ${kind}=${table})
    list(APPEND sources ${output}/stubs_${kind}.cpp)
  endforeach()
  list(REMOVE_DUPLICATES sources)
  foreach(shard RANGE 3)
    list(APPEND sources ${output}/register_rows_${shard}.cpp)
  endforeach()
  foreach(family IN LISTS families)
    get_filename_component(name ${family} NAME_WE)
    list(APPEND sources ${output}/register_${name}.cpp)
  endforeach()

  # The stamp is the output: it is always touched, while an unchanged source keeps its time.
  set(stamp ${output}.stamp)
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${sources} ${output}/operators.json
    COMMAND ${Python3_EXECUTABLE} ${root}/codegen/generate.py --operators ${root}/operators --output ${output}
            --torchgen ${torchgen} --torch-include ${TORCH_DIR}/include ${table_options}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${families} ${tables} ${generator} ${torchgen}/packaged/ATen/native/native_functions.yaml
    COMMENT "Generating operator registrations for torch ${TORCH_VERSION}"
    VERBATIM)
  set_source_files_properties(${sources} PROPERTIES GENERATED TRUE)
  add_custom_target(${target}_codegen DEPENDS ${stamp})
  add_dependencies(${target} ${target}_codegen)
  target_sources(${target} PRIVATE ${sources} ${stamp})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/codegen)
  set(OCL_OPERATORS_JSON ${output}/operators.json PARENT_SCOPE)
endfunction()
