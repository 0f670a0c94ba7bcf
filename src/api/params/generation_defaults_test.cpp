#include "api/params/generation_defaults.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace cairn::api {
namespace {

gguf::Metadata metadata_of(std::map<std::string_view, gguf::Value> values) { return gguf::Metadata(std::move(values)); }

gguf::Value number(double value) { return {gguf::ValueType::kF32, value}; }
gguf::Value integer(int64_t value) { return {gguf::ValueType::kI32, value}; }

TEST(GenerationDefaults, AreWhatAFileRecommends) {
  std::map<std::string, gguf::Value, std::less<>> values;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    if (parameter.recommended.empty()) continue;
    values["general.sampling." + std::string(parameter.recommended)] = parameter.whole() ? integer(1) : number(0.5);
  }
  values["general.sampling.sequence"] = {gguf::ValueType::kString, std::string_view("top_k;temperature")};
  const sampling::GivenParameters recommended = recommended_by(metadata_of({values.begin(), values.end()}));
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    const auto value = recommended.get(parameter.name);
    const double recommended_value = parameter.whole() ? 1 : 0.5;
    EXPECT_EQ(value, parameter.recommended.empty() ? std::nullopt : std::optional(recommended_value)) << parameter.name;
  }
  EXPECT_EQ(recommended.get("temperature"), 0.5);
  EXPECT_EQ(recommended.get("penalty_last_n"), 1);
  EXPECT_EQ(recommended.steps, (std::vector{sampling::SamplerStep::kTopK, sampling::SamplerStep::kTemperature}));
}

TEST(GenerationDefaults, LeaveOutWhatIsOutOfRangeOrOfAnotherType) {
  const gguf::Value text = {gguf::ValueType::kString, std::string_view("20")};
  const sampling::GivenParameters recommended = recommended_by(metadata_of({{"general.sampling.temp", number(-1)},
                                                                            {"general.sampling.top_k", text},
                                                                            {"general.sampling.top_p", number(2)},
                                                                            {"general.sampling.sequence", text}}));
  EXPECT_FALSE(recommended.get("temperature"));
  EXPECT_FALSE(recommended.get("top_k"));
  EXPECT_FALSE(recommended.get("top_p"));
  EXPECT_FALSE(recommended.steps);
}

TEST(GenerationDefaults, OfAModelComeBeforeThoseOfOthers) {
  GenerationDefaults model, server;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    server.sampling.set(parameter, parameter.high);
    if (parameter.name == "top_k") model.sampling.set(parameter, 3);
  }
  server.seed = 7;
  const GenerationDefaults both = model.or_else(server);
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
    EXPECT_EQ(both.sampling.get(parameter.name), parameter.name == "top_k" ? 3 : parameter.high) << parameter.name;
  EXPECT_EQ(both.seed, 7);
  EXPECT_FALSE(both.predict);
}

}  // namespace
}  // namespace cairn::api
