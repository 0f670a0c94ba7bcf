/// Reads the reference blocks for quant's tests. `folder` is test_data("/quants/").
#pragma once

#include <cstddef>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/system/mapped_file.h"
#include "base/tensor_type.h"

namespace cairn::quant {

inline constexpr int64_t kFixtureRows = 8;
inline constexpr int64_t kFixtureCols = 1024;

inline std::vector<std::byte> read_bytes(const std::string& folder, const std::string& name) {
  const auto file = MappedFile::open(folder + name);
  if (!file.has_value()) return {};
  const auto bytes = file->bytes();
  return {bytes.begin(), bytes.end()};
}

inline std::vector<float> read_floats(const std::string& folder, const std::string& name) {
  const std::vector<std::byte> bytes = read_bytes(folder, name);
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

/// The entries of index.json's "types".
inline nlohmann::json fixture_types(const std::string& folder) {
  std::ifstream file(folder + "index.json");
  return nlohmann::json::parse(file).at("types");
}

/// Sum of (a - b)^2 over sum of a^2.
inline double nmse(std::span<const float> a, std::span<const float> b) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = static_cast<double>(a[i]) - b[i];
    error += off * off;
    norm += static_cast<double>(a[i]) * a[i];
  }
  return error / norm;
}

}  // namespace cairn::quant
