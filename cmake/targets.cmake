# SPDX-License-Identifier: Apache-2.0
# weir_library(name SOURCES ... PUBLIC ... PRIVATE ...): a library weir_<name>, alias weir::<name>.
# Without SOURCES it is header-only.
function(weir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_SOURCES)
    add_library(weir_${name} ${ARG_SOURCES})
    target_include_directories(weir_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(weir_${name} PUBLIC ${ARG_PUBLIC}
                          PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:weir_build_flags>)
  else()
    add_library(weir_${name} INTERFACE)
    target_include_directories(weir_${name} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(weir_${name} INTERFACE ${ARG_PUBLIC})
  endif()
  add_library(weir::${name} ALIAS weir_${name})
  set_target_properties(weir_${name} PROPERTIES EXPORT_NAME ${name})
endfunction()

# weir_program(name SOURCES ... LINK ...): an executable in <build>/bin.
function(weir_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} weir_build_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()
