#include "base/testing/test_data.h"

#include <cstdlib>

namespace cairn {

std::string test_data(std::string_view path) {
  const char* moved = std::getenv("CAIRN_TEST_DATA");
  return (moved != nullptr ? moved : CAIRN_TEST_DATA) + std::string(path);
}

std::string source_file(std::string_view path) { return CAIRN_SOURCE_DIR + std::string(path); }

}  // namespace cairn
