# cairn_module(NAME <folder> DEPS <modules...> [TEST_DEPS <modules...>] [LIBS <outside libraries...>] [PRIVATE_LIBS <...>]
#              [NUMERIC])
#
# One folder of src/ is one static library `cairn_<NAME>`: every *.cpp in it except *_test.cpp and *_bench.cpp. The unit
# tests beside the code become one program `<NAME>_test`, registered with ctest, and benchmarks `<NAME>_bench`. DEPS is
# the whole list of modules whose headers the folder may include, TEST_DEPS those that its tests and benchmarks may
# besides; scripts/tidy.py fails the build's tests when a file includes anything else. NUMERIC: loops over numbers are most of it, and a release optimises them more (-O3).
function(cairn_module)
  cmake_parse_arguments(M "NUMERIC" "NAME" "DEPS;TEST_DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  set(target cairn_${M_NAME})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")

  if(sources)
    add_library(${target} STATIC ${sources})
    cairn_unity(${target})
    if(M_NUMERIC)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
    endif()
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${CMAKE_SOURCE_DIR}/src")
  list(TRANSFORM M_DEPS PREPEND cairn_ OUTPUT_VARIABLE deps)
  list(TRANSFORM M_TEST_DEPS PREPEND cairn_ OUTPUT_VARIABLE test_deps)
  target_link_libraries(${target} ${scope} ${deps} ${M_LIBS})
  if(M_PRIVATE_LIBS AND sources)
    target_link_libraries(${target} PRIVATE ${M_PRIVATE_LIBS})
  endif()

  if(CAIRN_TESTS AND tests)
    cairn_test(NAME ${M_NAME}_test SOURCES ${tests} LIBS ${target} ${test_deps} ${M_PRIVATE_LIBS})
  endif()
  if(CAIRN_TESTS AND benches AND NOT CAIRN_KERNELS_ONLY)
    add_executable(${M_NAME}_bench EXCLUDE_FROM_ALL ${benches})
    add_dependencies(benches ${M_NAME}_bench)
    target_link_libraries(${M_NAME}_bench PRIVATE ${target} ${test_deps} ${M_PRIVATE_LIBS} cairn_test_data benchmark::benchmark_main)
  endif()
endfunction()

# cairn_unity(<target>): with CAIRN_UNITY, the target's sources are compiled several at once. Headers then are read, and
# templates instantiated, once for all of them.
function(cairn_unity target)
  if(CAIRN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    # All that is local to a source seems local to an included file.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# cairn_test(NAME <program> SOURCES <files...> LIBS <libraries...> [SHARDS <n>]): a GoogleTest program run by ctest; with
# SHARDS as so many tests, <program>_1 and so on, which may run side by side.
function(cairn_test)
  cmake_parse_arguments(T "" "NAME;SHARDS" "SOURCES;LIBS" ${ARGN})
  add_executable(${T_NAME} ${T_SOURCES})
  cairn_unity(${T_NAME})
  # What is tested is in the libraries: the tests themselves should compile fast.
  target_compile_options(${T_NAME} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:Dev>:-O0>)
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} cairn_test_data GTest::gmock GTest::gtest_main)
  if(NOT T_SHARDS)
    cairn_add_test(NAME ${T_NAME} COMMAND ${T_NAME})
    set_tests_properties(${T_NAME} PROPERTIES TIMEOUT 900)
    return()
  endif()
  foreach(number RANGE 1 ${T_SHARDS})
    math(EXPR index "${number} - 1")
    cairn_add_test(NAME ${T_NAME}_${number} COMMAND ${T_NAME})
    set_tests_properties(${T_NAME}_${number} PROPERTIES TIMEOUT 900
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${T_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# cairn_add_test(NAME <test> COMMAND <target or program> <arguments...>): add_test through scripts/measured.py, which writes
# what the test took into test-cost/<test>.json of the build folder, for `scripts/cost.py tests`.
function(cairn_add_test)
  cmake_parse_arguments(A "" "NAME" "COMMAND" ${ARGN})
  list(POP_FRONT A_COMMAND program)
  if(TARGET ${program})
    set(program ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${A_NAME} COMMAND "${CAIRN_PYTHON}" -I -S "${CMAKE_SOURCE_DIR}/scripts/measured.py" ${A_NAME}
    "${CMAKE_BINARY_DIR}/test-cost" -- ${program} ${A_COMMAND})
endfunction()

# cairn_fuzz(NAME <program> SOURCES <files...> LIBS <libraries...>): a libFuzzer target (preset `fuzz`).
function(cairn_fuzz)
  cmake_parse_arguments(F "" "NAME" "SOURCES;LIBS" ${ARGN})
  add_executable(${F_NAME} ${F_SOURCES})
  target_link_libraries(${F_NAME} PRIVATE ${F_LIBS})
  target_link_options(${F_NAME} PRIVATE -fsanitize=fuzzer)
endfunction()
