/// For tests and fuzzing: GGUF files built byte by byte, valid or not, and a function that reads everything from a
/// reader.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.h"

namespace cairn::gguf {

/// Appends parts of a file without checks. Numbers are little-endian.
class TestBytes {
 public:
  template <class T>
  TestBytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  TestBytes& raw(std::string_view text) {
    text_.append(text);
    return *this;
  }
  TestBytes& string(std::string_view text) { return number<uint64_t>(text.size()).raw(text); }

  TestBytes& header(uint64_t tensors, uint64_t metadata, uint32_t version = 3) {
    return raw("GGUF").number(version).number(tensors).number(metadata);
  }
  /// A key and the type of the value that follows.
  TestBytes& key(std::string_view name, ValueType type) { return string(name).number(static_cast<uint32_t>(type)); }
  /// Appends an array's element type and length; the elements follow.
  TestBytes& array(ValueType type, uint64_t size) { return number(static_cast<uint32_t>(type)).number(size); }
  TestBytes& tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset) {
    string(name).number(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) number(size);
    return number(type).number(offset);
  }
  TestBytes& pad(size_t alignment = 32) {
    text_.resize((text_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  TestBytes& zeros(size_t count) {
    text_.append(count, '\0');
    return *this;
  }

  /// A copy of exact size, so that a sanitizer notices a read one byte too far.
  std::vector<std::byte> bytes() const { return copy(text_); }
  static std::vector<std::byte> copy(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
  }

 private:
  std::string text_;
};

/// An empty folder for the running test, in the temporary folder.
inline std::filesystem::path test_folder() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      (std::string("cairn_gguf_") + info->test_suite_name() + "_" + info->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

/// Whether files in the folder may be sparse. Elsewhere holes take up space like everything else: tests of large sparse
/// files must be skipped then, or they would fill the disk.
inline bool has_holes(const std::filesystem::path& folder) {
  constexpr int64_t kBytes = 1 << 20;
  const auto probe = folder / "holes";
  std::ofstream(probe).close();
  std::filesystem::resize_file(probe, kBytes);
  struct stat status{};
  const bool known = ::stat(probe.c_str(), &status) == 0;
  std::filesystem::remove(probe);
  return known && int64_t{status.st_blocks} * 512 < kBytes;
}

inline std::vector<std::byte> read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return TestBytes::copy(text);
}

}  // namespace cairn::gguf
