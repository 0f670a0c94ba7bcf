// The rows of the sampling parameters, and what is made of them: the table of docs/sampling.md and the list of the
// page, which are written anew with CAIRN_UPDATE=1 in the environment.
#include "sampling/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "base/testing/test_data.h"
#include "sampling/default_parameters.h"
#include "sampling/sampler.h"

namespace cairn::sampling {
namespace {

const SamplingParameter& row_named(std::string_view name) {
  for (const SamplingParameter& parameter : sampling_parameters())
    if (parameter.name == name) return parameter;
  ADD_FAILURE() << name;
  return sampling_parameters().front();
}

// "--temp,--temperature" in parts.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  std::istringstream text{std::string(list)};
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

TEST(SamplingParameters, HaveNamesAndFlagsOfTheirOwnAndADefaultInTheirRange) {
  std::set<std::string, std::less<>> names, flags, keys, labels;
  for (const SamplingParameter& parameter : sampling_parameters()) {
    EXPECT_TRUE(names.emplace(parameter.name).second) << parameter.name;
    EXPECT_TRUE(parameter.alias.empty() || names.emplace(parameter.alias).second) << parameter.alias;
    for (const std::string& flag : parts_of(parameter.flags)) EXPECT_TRUE(flags.insert(flag).second) << flag;
    EXPECT_TRUE(parameter.recommended.empty() || keys.emplace(parameter.recommended).second) << parameter.recommended;
    EXPECT_TRUE(parameter.label.empty() || labels.emplace(parameter.label).second) << parameter.label;
    EXPECT_FALSE(parameter.flags.empty() || parameter.text.empty()) << parameter.name;
    EXPECT_TRUE(parameter.contains(parameter.get(SamplingParams()))) << parameter.name;
    EXPECT_TRUE(parameter.contains(default_of(parameter))) << parameter.name;
    EXPECT_TRUE(!parameter.off || parameter.contains(*parameter.off)) << parameter.name;
  }
}

TEST(SamplingParameters, SetAndGetANumberOfTheirOwn) {
  SamplingParams sampling;
  double value = 0.5;
  for (const SamplingParameter& parameter : sampling_parameters()) parameter.set(sampling, value = value + 1);
  value = 0.5;
  for (const SamplingParameter& parameter : sampling_parameters()) {
    value += 1;
    EXPECT_EQ(parameter.get(sampling), parameter.whole() ? std::trunc(value) : value) << parameter.name;
  }
}

// The distribution behind a prompt with repetitions.
void expect_the_models_own_distribution(const SamplingParams& sampling) {
  const std::vector<float> logits = {0, 0.5f, 1, 0.9f, 0.2f, -3, 0, 0.1f};
  const std::vector<TokenId> prompt = {TokenId{1}, TokenId{2}, TokenId{3}, TokenId{1}, TokenId{2}};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  Sampler sampler(sampling, static_cast<int32_t>(logits.size()), prompt);
  const auto distribution = sampler.distribution(logits);
  ASSERT_EQ(distribution.size(), logits.size());
  for (const auto& [token, probability] : distribution) {
    const auto logit = static_cast<double>(logits[static_cast<size_t>(index(token))]);
    EXPECT_NEAR(probability, std::exp(logit) / sum, 1e-6) << index(token);
  }
}

TEST(SamplingParameters, ThatAreOffDoNothing) {
  SamplingParams sampling;
  for (const SamplingParameter& parameter : sampling_parameters())
    if (parameter.off) parameter.set(sampling, *parameter.off);
  expect_the_models_own_distribution(sampling);
  // A step with two switches is off by the second one.
  sampling.presence_penalty = 1;
  sampling.dry.multiplier = 1;
  sampling.dry.allowed_length = 1;
  sampling.xtc_probability = 1;
  expect_the_models_own_distribution(sampling);
}

// What is sampled behind a prompt with repetitions.
std::vector<std::pair<TokenId, float>> outcome_of(const SamplingParams& sampling) {
  const std::vector<float> logits = {0, 0.5f, 1, 0.9f, 0.2f, -3, 0, 0.1f};
  std::vector<TokenId> prompt;
  for (const int32_t id : {1, 2, 3, 4, 0, 1, 2, 3, 6, 1, 2, 3}) prompt.push_back(TokenId{id});
  Sampler sampler(sampling, static_cast<int32_t>(logits.size()), prompt);
  std::vector<std::pair<TokenId, float>> outcome;
  for (int step = 0; step < 4; ++step) {
    for (const auto& each : sampler.distribution(logits)) outcome.push_back(each);
    outcome.emplace_back(sampler.sample(logits).token, 0.0f);
  }
  return outcome;
}

TEST(SamplingParameters, EachChangeWhatIsSampled) {
  // What some parameters need beside them.
  const std::vector<SamplingParams> surroundings = {
      {},
      {.presence_penalty = 1},
      {.dry = {.multiplier = 1}},
      {.xtc_probability = 1},
      {.dynatemp_range = 0.5f},
      {.top_p = 0.1f},
      {.adaptive_target = 0.3f},
      {.mirostat = 2, .mirostat_tau = 1.5f},
  };
  for (const SamplingParameter& parameter : sampling_parameters()) {
    bool changes = false;
    for (const SamplingParams& surrounding : surroundings) {
      for (const double value : {0.0, 0.05, 0.5, 1.0, 1.5, 2.0, 4.0}) {
        SamplingParams sampling = surrounding;
        if (parameter.contains(value)) parameter.set(sampling, value);
        changes |= outcome_of(sampling) != outcome_of(surrounding);
      }
    }
    EXPECT_TRUE(changes) << parameter.name << " changes nothing, or needs something beside it";
  }
}

TEST(SamplingParameters, SayTheirRangesInWords) {
  EXPECT_EQ(row_named("temperature").range_text(), "from 0 to 1000");
  EXPECT_EQ(row_named("top_k").range_text(), "0 (all tokens) or more");
  EXPECT_EQ(row_named("repetition_penalty").range_text(), "above 0 and at most 10");
  EXPECT_EQ(row_named("penalty_last_n").range_text(), "from 0 to 65536, or -1 for the maximum");
  EXPECT_EQ(row_named("top_n_sigma").range_text(), "at most 1000");
  EXPECT_EQ(row_named("adaptive_decay").range_text(), "from 0 to 0.99");
  EXPECT_EQ(row_named("mirostat").range_text(), "0, 1 or 2");
  EXPECT_EQ(row_named("min_keep").range_text(), "0 or more");
  EXPECT_EQ(row_named("min_keep").off_text(), "0");
  EXPECT_EQ(row_named("top_n_sigma").off_text(), "0 or less");
  EXPECT_EQ(row_named("mirostat_tau").off_text(), "");
}

TEST(SamplingParameters, TakeWhatIsUnderTheRangeForWhatItMeans) {
  const SamplingParameter& top_k = row_named("top_k");
  EXPECT_TRUE(top_k.takes(-1) && !top_k.takes(-2) && !top_k.takes(0.5) && !top_k.contains(-1));
  EXPECT_EQ(top_k.meaning(-1), 0);
  const SamplingParameter& base = row_named("dry_base");
  EXPECT_TRUE(base.takes(0.5) && !base.takes(-0.5) && !base.contains(0.5));
  EXPECT_FALSE(base.meaning(0.5));
  EXPECT_EQ(base.meaning(1), 1);
  EXPECT_TRUE(row_named("adaptive_decay").contains(static_cast<double>(0.99f)));
  EXPECT_FALSE(row_named("repetition_penalty").takes(0));
  for (const SamplingParameter& parameter : sampling_parameters())
    EXPECT_FALSE(parameter.takes(std::nan(""))) << parameter.name;
}

TEST(GivenParameters, ComeBeforeOthersAndLeaveTheRestAsItIs) {
  GivenParameters flags, file;
  flags.set(row_named("top_k"), 5);
  flags.set(row_named("dry_base"), 2);
  flags.set(row_named("dry_base"), 0.5);  // the same as to give none
  file.set(row_named("top_k"), 9);
  file.set(row_named("temperature"), 0.25);
  file.steps = {SamplerStep::kTopK};
  const GivenParameters both = flags.or_else(file);
  SamplingParams sampling{.top_p = 0.75f};
  both.apply(sampling);
  EXPECT_EQ(sampling.top_k, 5);
  EXPECT_EQ(sampling.temperature, 0.25f);
  EXPECT_EQ(sampling.dry.base, DryParams().base);
  EXPECT_EQ(sampling.top_p, 0.75f);
  EXPECT_EQ(sampling.steps, std::vector{SamplerStep::kTopK});
}

TEST(SamplerSteps, AreReadFromNamesAndLetters) {
  using enum SamplerStep;
  EXPECT_EQ(sampler_steps_of_names("top_k;temp"), (std::vector{kTopK, kTemperature}));
  EXPECT_EQ(sampler_steps_of_letters("kt"), (std::vector{kTopK, kTemperature}));
  EXPECT_EQ(sampler_steps_of_names(""), std::vector<SamplerStep>());
  EXPECT_EQ(
      sampler_steps_of_names("top_k;best").error().message,
      "has no step \"best\"; there are penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature, "
      "infill, adaptive_p, or letters of \"edskypmxtia\"");
  EXPECT_FALSE(sampler_steps_of_letters("kz"));
  EXPECT_FALSE(sampler_steps_of_letters(std::string(kSamplerStepsMax + 1, 'k')));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Compares a file with what it should be, or with CAIRN_UPDATE writes that.
void expect_file(const std::string& path, const std::string& wanted) {
  if (std::getenv("CAIRN_UPDATE") != nullptr) std::ofstream(path, std::ios::binary) << wanted;
  EXPECT_EQ(read_file(path), wanted) << "run sampling_test with CAIRN_UPDATE=1 in the environment";
}

constexpr std::string_view kTableHead = "| parameter | flag | default | off | range | what it does |\n";

std::string table() {
  std::string text = std::string(kTableHead) + "|---|---|---|---|---|---|\n";
  for (const SamplingParameter& parameter : sampling_parameters()) {
    text += fmt::format("| `{}`", parameter.name);
    if (!parameter.alias.empty()) text += fmt::format(" (`{}`)", parameter.alias);
    std::string flags;
    for (const std::string& flag : parts_of(parameter.flags))
      flags += fmt::format("{}`{}`", flags.empty() ? "" : ", ", flag);
    text +=
        fmt::format(" | {} | {} | {} | {} | {} |\n", flags, parameter.value_text(default_of(parameter)),
                    parameter.off ? parameter.value_text(*parameter.off) : "", parameter.range_text(), parameter.text);
  }
  return text;
}

TEST(SamplingParameters, AreTheTableOfTheDocumentAndItTellsOfEach) {
  const std::string path = source_file("/docs/sampling.md");
  std::string page = read_file(path);
  const size_t begin = page.find(kTableHead);
  ASSERT_NE(begin, std::string::npos) << path << " has no table that begins with " << kTableHead;
  const size_t size = page.find("\n\n", begin) + 1 - begin;
  const std::string text = std::string(page).erase(begin, size);
  for (const SamplingParameter& parameter : sampling_parameters())
    EXPECT_TRUE(std::regex_search(text, std::regex(fmt::format(R"(\b{}\b)", parameter.name))))
        << "beside its row " << parameter.name << " has no sentence in " << path;
  page.replace(begin, size, table());
  expect_file(path, page);
}

TEST(SamplingParameters, AreOfferedByTheServersPage) {
  std::string list =
      "// Made of the rows of src/sampling/parameters.cpp by sampling_test, with CAIRN_UPDATE=1 in the environment.\n"
      "export const kParameters: {\n"
      "  name: string;\n"
      "  label: string;\n"
      "  text: string;\n"
      "  whole: boolean;\n"
      "  min?: number;\n"
      "  max?: number;\n"
      "}[] = [\n";
  for (const SamplingParameter& parameter : sampling_parameters()) {
    if (parameter.label.empty()) continue;
    list += fmt::format("  {{\n    name: '{}',\n    label: '{}',\n    text: \"{}\",\n    whole: {},\n",
                        parameter.settings_name(), parameter.label, parameter.text, parameter.whole());
    if (parameter.low != SamplingParameter::kNoLow) list += fmt::format("    min: {},\n", parameter.low);
    if (parameter.high != SamplingParameter::kNoHigh) list += fmt::format("    max: {},\n", parameter.high);
    list += "  },\n";
  }
  expect_file(source_file("/web/src/lib/parameters.ts"), list + "];\n");
}

}  // namespace
}  // namespace cairn::sampling
