// An assistant of Gemma 4 drafts what transformers' does, and changes nothing of the model that it drafts for.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "edited_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "sequence.h"

namespace cairn::mtp {
namespace {

constexpr double kAssistantNmseMax = 1e-9;
/// Each draft starts from the row of the one before it, and so from its rounding errors.
constexpr double kNmseGrowthMax = 10;

std::filesystem::path converted(const std::string& name) {
  return std::filesystem::path(test_data()) / "converted" / name;
}

/// Normalised mean square error.
double distance(std::span<const float> got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    power += expected[i] * expected[i];
  }
  return error / power;
}

/// Gemma 4 with or without its assistant.
class Assisted {
 public:
  explicit Assisted(bool assisted) {
    const model::ModelOptions options{.context_tokens = 256,
                                      .batch_tokens_max = 128,
                                      .load_mtp = assisted,
                                      .mtp_file = assisted ? &assistant_ : nullptr};
    auto loaded = model::load_model(file_, *backend_, options);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().text();
    runner_ = std::move(*loaded);
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), 8);
    pool_ = cache::PagePool::create(*backend_, runner_->kv_layout(), pages).value();
  }

  model::Runner& runner() { return *runner_; }
  cache::PagePool& pool() { return pool_; }

 private:
  const gguf::Reader file_ = gguf::Reader::open(converted("gemma4.gguf")).value();
  const gguf::Reader assistant_ = gguf::Reader::open(converted("gemma4-assistant.gguf")).value();
  std::unique_ptr<kernels::Backend> backend_ = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
  std::unique_ptr<model::Runner> runner_;
  cache::PagePool pool_;
};

std::vector<TokenId> ids_of(const nlohmann::json& numbers) {
  std::vector<TokenId> ids;
  for (const auto& number : numbers) ids.push_back(TokenId{number.get<int32_t>()});
  return ids;
}

nlohmann::json reference_runs() {
  return nlohmann::json::parse(std::ifstream(converted("gemma4-assistant.ref.json"))).at("runs");
}

TEST(Gemma4Assistant, DraftsAreThoseOfTransformers) {
  for (const auto& run : reference_runs()) {
    Assisted model(true);
    ASSERT_TRUE(model.runner().has_mtp());
    TestSequence sequence(model);
    const std::vector<TokenId> tokens = ids_of(run.at("tokens"));
    // In two steps, and the first draft begins with a row of the last.
    sequence.step(std::span(tokens).first(17), model::LogitsWanted::kNone);
    sequence.step(std::span(tokens).subspan(17), model::LogitsWanted::kLast);
    int32_t before = 0;
    double nmse_max = kAssistantNmseMax;
    for (const auto& draft : run.at("drafts")) {
      const TokenId token{draft.at("token").get<int32_t>()};
      model::BatchSlice slice = sequence.slice(0, 1, model::LogitsWanted::kLast);
      slice.drafts_before = before++;
      const auto view = model.runner().mtp_step({{&token, 1}, {&slice, 1}, &model.pool()});
      ASSERT_TRUE(view.has_value()) << view.error().text();
      EXPECT_LE(distance(view->values, draft.at("logits").get<std::vector<double>>()), nmse_max) << before;
      nmse_max *= kNmseGrowthMax;
    }
  }
}

TEST(Gemma4Assistant, TheModelsLogitsAreThoseWithoutIt) {
  Assisted plain(false), assisted(true);
  EXPECT_FALSE(plain.runner().has_mtp());
  TestSequence of_plain(plain), of_assisted(assisted);
  const std::vector<TokenId> tokens = ids_of(reference_runs().at(1).at("tokens"));
  EXPECT_EQ(of_plain.step(std::span(tokens).first(60)), of_assisted.step(std::span(tokens).first(60)));
  const int32_t position = of_assisted.position();
  {
    TestSequence drafts(assisted);
    drafts.step(std::span(tokens).first(static_cast<size_t>(position)));
    const model::BatchSlice slice = drafts.slice(0, 1, model::LogitsWanted::kLast);
    EXPECT_TRUE(assisted.runner().mtp_step({{&tokens[60], 1}, {&slice, 1}, &assisted.pool()}).has_value());
  }
  EXPECT_EQ(of_plain.step(std::span(tokens).subspan(60)), of_assisted.step(std::span(tokens).subspan(60)));
}

TEST(Gemma4Assistant, WhatDoesNotFitIsNamed) {
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto assistant = gguf::Reader::open(converted("gemma4-assistant.gguf")).value();
  EXPECT_TRUE(model::is_mtp_file(assistant));
  const auto error_of = [&](const gguf::Reader& model, const gguf::Reader* drafts) {
    const auto loaded = model::load_model(model, *backend, {.load_mtp = drafts != nullptr, .mtp_file = drafts});
    return loaded.has_value() ? std::string("it loaded") : loaded.error().text();
  };
  EXPECT_NE(error_of(assistant, nullptr).find("\"gemma4-assistant\" is no model by itself"), std::string::npos)
      << error_of(assistant, nullptr);
  const auto llama = gguf::Reader::open(converted("llama.gguf")).value();
  EXPECT_NE(error_of(llama, &assistant).find("an assistant of Gemma 4, but the model's architecture is \"llama\""),
            std::string::npos)
      << error_of(llama, &assistant);
  // One of another size of heads.
  const auto other = gguf::Reader::open(std::filesystem::path(test_data()) / "models" / "gemma4.gguf").value();
  EXPECT_NE(error_of(other, &assistant).find("the assistant does not fit this model"), std::string::npos)
      << error_of(other, &assistant);
}

}  // namespace
}  // namespace cairn::mtp
