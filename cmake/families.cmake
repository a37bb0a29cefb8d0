# SPDX-License-Identifier: MIT
# Lists that nobody keeps by hand: each file <folder>/<name>.cpp defines dlprim::<space>::<name>(<registry>&), and
# dlprim::<space>::add_all(<registry>&), in a generated file, calls them all. `header`, below the folder of the caller,
# declares the registry. `result` is set to all these files.
function(list_families folder space header registry result)
  file(GLOB families CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(declarations "")
  set(calls "")
  foreach(file IN LISTS families)
    get_filename_component(family ${file} NAME_WE)
    string(APPEND declarations "void ${family}(${registry}& registry);\n")
    string(APPEND calls "  ${family}(registry);\n")
  endforeach()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/all_${space}.cpp)
  file(GENERATE OUTPUT ${list} CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${header}\"\n
namespace dlprim::${space} {\n\n${declarations}\nvoid add_all(${registry}& registry) {\n${calls}}\n
}  // namespace dlprim::${space}\n")
  set(${result} ${families} ${list} PARENT_SCOPE)
endfunction()
