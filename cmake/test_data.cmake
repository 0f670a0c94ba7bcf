# The target test_data: unpacks tests/data into CAIRN_TEST_DATA, as far as that is not done (a tenth of a second to see).
# Programs that read it link cairn_test_data (src/base/testing/test_data.h), which says where it is and depends on it, so
# whatever is built finds the data of the commit that it was built from.
function(cairn_imports_numpy result python)
  execute_process(COMMAND "${python}" -c "import numpy" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(CAIRN_PYTHON NAMES python3 VALIDATOR cairn_imports_numpy DOC "A Python that has NumPy, which unpacks tests/data")
if(NOT CAIRN_PYTHON)
  message(FATAL_ERROR "No python3 with NumPy, which the tests' reference data is unpacked with: scripts/setup.sh installs it; or set -DCAIRN_TESTS=OFF.")
endif()
add_custom_target(test_data ALL
  COMMAND "${CAIRN_PYTHON}" "${CMAKE_SOURCE_DIR}/tests/data/data.py" unpack "${CAIRN_TEST_DATA}"
  COMMENT "Reference data of the tests in ${CAIRN_TEST_DATA}" VERBATIM)
add_library(cairn_test_data STATIC "${CMAKE_SOURCE_DIR}/tests/test_data.cpp")
target_include_directories(cairn_test_data PUBLIC "${CMAKE_SOURCE_DIR}/src")
target_compile_definitions(cairn_test_data PRIVATE CAIRN_TEST_DATA="${CAIRN_TEST_DATA}" CAIRN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_dependencies(cairn_test_data test_data)
