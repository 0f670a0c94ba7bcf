#include "api/params/generation_defaults.h"

#include <gtest/gtest.h>

#include <map>

namespace cairn::api {
namespace {

gguf::Metadata metadata_of(std::map<std::string_view, gguf::Value> values) { return gguf::Metadata(std::move(values)); }

gguf::Value number(double value) { return {gguf::ValueType::kF32, value}; }
gguf::Value integer(int64_t value) { return {gguf::ValueType::kI32, value}; }

TEST(GenerationDefaults, AreWhatAFileRecommends) {
  const GenerationDefaults defaults = recommended_by(metadata_of({{"general.sampling.temp", number(0.5)},
                                                                  {"general.sampling.top_k", integer(20)},
                                                                  {"general.sampling.top_p", number(0.75)},
                                                                  {"general.sampling.min_p", number(0.25)},
                                                                  {"general.sampling.penalty_repeat", number(1.5)},
                                                                  {"general.sampling.penalty_last_n", integer(32)}}));
  EXPECT_EQ(defaults.temperature, 0.5f);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.top_p, 0.75f);
  EXPECT_EQ(defaults.min_p, 0.25f);
  EXPECT_EQ(defaults.repetition_penalty, 1.5f);
  EXPECT_EQ(defaults.penalty_last, 32);
  EXPECT_FALSE(defaults.seed);
}

TEST(GenerationDefaults, LeaveOutWhatIsOutOfRangeOrOfAnotherType) {
  const GenerationDefaults defaults =
      recommended_by(metadata_of({{"general.sampling.temp", number(-1)},
                                  {"general.sampling.top_k", {gguf::ValueType::kString, std::string_view("20")}},
                                  {"general.sampling.top_p", number(2)}}));
  EXPECT_FALSE(defaults.temperature);
  EXPECT_FALSE(defaults.top_k);
  EXPECT_FALSE(defaults.top_p);
}

TEST(GenerationDefaults, OfAModelComeBeforeThoseOfOthers) {
  GenerationDefaults model, server;
  model.top_k = 3;
  server.top_k = 5;
  server.seed = 7;
  const GenerationDefaults both = model.or_else(server);
  EXPECT_EQ(both.top_k, 3);
  EXPECT_EQ(both.seed, 7);
  EXPECT_FALSE(both.temperature);
}

}  // namespace
}  // namespace cairn::api
