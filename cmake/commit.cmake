# Makes a C++ source that has the version with the commit of the checkout, where there is one:
#   cmake -DSOURCE=<checkout> -DVERSION=<version> -DCOMMIT=<commit, or nothing> -DOUT=<build_version.cpp> -P commit.cmake
# Used as a script by every build, which writes the source only when it changes, and included for the function that has
# it called.
if(CMAKE_SCRIPT_MODE_FILE)
  # Not the commit of another repository that a released archive was unpacked in.
  if(NOT COMMIT AND EXISTS "${SOURCE}/.git")
    execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD OUTPUT_VARIABLE COMMIT
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND git -C "${SOURCE}" diff --quiet HEAD RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
    if(COMMIT AND NOT differs EQUAL 0)
      string(APPEND COMMIT "+")
    endif()
  endif()
  if(COMMIT)
    string(APPEND VERSION " (commit ${COMMIT})")
  endif()
  file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT [[
// Made by cmake/commit.cmake.
#include "build_version.h"

constexpr std::string_view cairn::kBuildVersion = "@VERSION@";
]])
  return()
endif()

set(CAIRN_COMMIT "" CACHE STRING "The commit that --version tells, where the sources are no checkout")

# Adds the source to the target.
function(cairn_commit target)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/build_version.cpp")
  add_custom_target(${target}_commit BYPRODUCTS "${out}" VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DVERSION=${PROJECT_VERSION}" "-DCOMMIT=${CAIRN_COMMIT}"
            "-DOUT=${out}" -P "${CMAKE_SOURCE_DIR}/cmake/commit.cmake"
    COMMENT "Commit of the checkout")
  target_sources(${target} PRIVATE "${out}")
  set_source_files_properties("${out}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_dependencies(${target} ${target}_commit)
endfunction()
