/// For tests of models: reads the reference files beside the fixtures, NAME.ref.json.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/ids.h"

namespace cairn {

inline double squared_error(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum;
}

inline double squared(std::span<const float> a) {
  double sum = 0;
  for (const float value : a) sum += double{value} * value;
  return sum;
}

/// Normalised mean squared error: the squared error divided by the square of the expected values.
inline double nmse(std::span<const float> ours, std::span<const float> theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  return squared_error(ours, theirs) / squared(theirs);
}

/// A prompt with logits at some positions and the greedy continuation.
struct Prompt {
  std::vector<TokenId> tokens;
  std::vector<int32_t> positions;
  std::vector<std::vector<float>> logits;
  std::vector<TokenId> greedy;
  std::vector<float> margins;
};

struct Reference {
  int32_t context = 0;
  std::vector<Prompt> runs;
};

inline std::vector<TokenId> token_ids(const nlohmann::json& list) {
  std::vector<TokenId> ids;
  for (const int32_t id : list.get<std::vector<int32_t>>()) ids.push_back(TokenId{id});
  return ids;
}

inline Reference read_reference(const std::filesystem::path& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream.good()) << path;
  const auto json = nlohmann::json::parse(stream);
  Reference reference;
  reference.context = json.at("n_ctx");
  for (const auto& run : json.at("runs")) {
    reference.runs.push_back({token_ids(run.at("tokens")), run.at("positions"), run.at("logits"),
                              token_ids(run.at("greedy")), run.at("greedy_margin")});
  }
  return reference;
}

}  // namespace cairn
