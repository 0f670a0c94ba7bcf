# Makes a C++ source of the files of web/dist, which lie compressed in the program:
#   cmake -DFOLDER=<web/dist> -DOUT=<page_files.cpp> -DGZIP=<program> -P web_page.cmake
# Used as a script by the build, and included for the function that has it called.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE names RELATIVE "${FOLDER}" "${FOLDER}/*")
  list(SORT names)
  get_filename_component(folder "${OUT}" DIRECTORY)
  set(number 0)
  foreach(name IN LISTS names)
    set(packed "${folder}/page_${number}.gz")
    execute_process(COMMAND "${GZIP}" -9nc "${FOLDER}/${name}" OUTPUT_FILE "${packed}" COMMAND_ERROR_IS_FATAL ANY)
    file(SHA256 "${FOLDER}/${name}" hash)
    string(SUBSTRING "${hash}" 0 16 hash)
    string(APPEND bytes "asm(\".section .rodata\\n.global page_${number}\\n.global page_${number}_end\\npage_${number}:\\n"
           ".incbin \\\"${packed}\\\"\\npage_${number}_end:\\n.byte 0\\n.previous\\n\");\n"
           "extern \"C\" const char page_${number}[], page_${number}_end[];\n")
    string(APPEND table "      {\"${name}\", {page_${number}, page_${number}_end}, \"\\\"${hash}\\\"\"},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(WRITE "${OUT}" "// Made by cmake/web_page.cmake of web/dist.\n#include \"api/web/page.h\"\n\n${bytes}\n"
       "namespace cairn::api::web {\n\nstd::span<const PageFile> page_files() {\n  static const PageFile files[] = {\n"
       "${table}  };\n  return files;\n}\n\n}  // namespace cairn::api::web\n")
  return()
endif()

# Adds the source to the target.
function(cairn_web_page target)
  find_program(CAIRN_GZIP gzip REQUIRED)
  set(script "${CMAKE_SOURCE_DIR}/cmake/web_page.cmake")
  set(folder "${CMAKE_SOURCE_DIR}/web/dist")
  set(out "${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${folder}/*")
  add_custom_command(OUTPUT "${out}" DEPENDS ${files} "${script}" VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${folder}" "-DOUT=${out}" "-DGZIP=${CAIRN_GZIP}" -P "${script}")
  target_sources(${target} PRIVATE "${out}")
  set_source_files_properties("${out}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
