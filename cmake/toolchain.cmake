# SPDX-License-Identifier: Apache-2.0
# The compiler, its warnings, and the accelerators of the build that are used where present.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers and __TIME__ need ccache's sloppiness to be cached at all.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${WEIR_CCACHE})
endif()

foreach(linker mold lld)
  find_program(WEIR_LINKER_${linker} NAMES ${linker} ld.${linker})
  if(WEIR_LINKER_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

# Warnings and sanitizers, carried by every target of ours.
add_library(weir_build_flags INTERFACE)
target_compile_options(weir_build_flags INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(weir_build_flags INTERFACE -Wthread-safety)
endif()
if(WEIR_SANITIZE)
  # Without the second flag UndefinedBehaviorSanitizer reports, and the test passes.
  target_compile_options(weir_build_flags INTERFACE -fsanitize=${WEIR_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weir_build_flags INTERFACE -fsanitize=${WEIR_SANITIZE})
  target_compile_definitions(weir_build_flags INTERFACE WEIR_SANITIZED)
  if(WEIR_SANITIZE MATCHES thread)
    # Protobuf's headers give map fields another layout where they see gcc's macro, and its library,
    # which is not instrumented, has the usual one.
    target_compile_options(weir_build_flags INTERFACE -U__SANITIZE_THREAD__)
    target_compile_definitions(weir_build_flags INTERFACE WEIR_SANITIZED_THREADS)
  endif()
endif()
