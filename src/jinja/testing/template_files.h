/// For tests: published chat templates, and the variables with which they were rendered.
#pragma once

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace cairn::jinja {

inline constexpr std::time_t kNow = 1768480496;  // 2026-01-15 12:34:56 UTC, the fixtures' clock

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace cairn::jinja
