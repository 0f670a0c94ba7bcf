/// Where tests find their files. Compiled into one small library, so that no other object of a test depends on where
/// the checkout lies, and compiler caches serve every clone.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

/// The folder of reference data (tests/data, unpacked), followed by `path`, e.g. "/models/llama.gguf". CAIRN_TEST_DATA
/// in the environment is the folder for a program that was built elsewhere.
std::string test_data(std::string_view path = {});

/// The checkout, followed by `path`, e.g. "/docs/fields.md".
std::string source_file(std::string_view path);

}  // namespace cairn
