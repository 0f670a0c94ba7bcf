// Drafts of the model's MTP module in the engine: with 4 drafts per step, every token is the model's own choice for its
// place.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/test_data.h"
#include "engine/engine_core.h"
#include "engine/output/event_channel.h"
#include "engine/testing/collected_response.h"
#include "engine/testing/ticking_clock.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "mtp/files.h"
#include "tokenizer/tokenizer.h"

namespace cairn::mtp {
namespace {

constexpr int kRequests = 8;
constexpr int kTurnsMax = 100'000;
constexpr int kTokens = 300;  // that all models have
constexpr std::string_view kDeepSeek = "deepseek4";
constexpr std::string_view kDspark = "deepseek4-dspark";
constexpr std::string_view kAssisted = "gemma4";

// DeepSeek V4's module and its drafting head, and modules of decoders: of one with recurrent layers, and of one with
// experts; and an assistant.
class MtpEngine : public testing::TestWithParam<const char*> {
 protected:
  MtpEngine()
      : model_(gguf::Reader::open(model_path()).value()),
        file_(gguf::Reader::open(make_talker(model_, 2, folder_ / "talker.gguf")).value()),
        tokenizer_(tokenizer::Tokenizer::load(file_.metadata()).value()) {
    if (GetParam() != kAssisted) return;
    const auto assistant = gguf::Reader::open(data() / "converted" / "gemma4-assistant.gguf").value();
    assistant_ = gguf::Reader::open(make_talker(assistant, 2, folder_ / "assistant.gguf")).value();
  }
  static std::filesystem::path data() { return test_data(); }
  std::filesystem::path model_path() const {
    if (GetParam() == kAssisted) return data() / "converted" / "gemma4.gguf";
    if (GetParam() == kDspark) {
      const auto model = gguf::Reader::open(make_model(folder_ / "plain.gguf")).value();
      return make_with_dspark(model, folder_ / "model.gguf");
    }
    return GetParam() == kDeepSeek ? make_model(folder_ / "model.gguf") : data() / "models" / GetParam();
  }

  /// Members are destroyed in the right order.
  struct Served {
    std::unique_ptr<kernels::Backend> backend;
    std::unique_ptr<model::Runner> runner;
    std::unique_ptr<engine::EngineCore> core;
  };
  Served serve(engine::EngineOptions options, int32_t pages, const gguf::Reader* mtp_file = nullptr) {
    Served served;
    served.backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    model::ModelOptions model_options;
    model_options.context_tokens = 256;
    model_options.batch_tokens_max = 64;
    model_options.kv_type = kernels::KvType::kF16;
    model_options.load_mtp = options.speculation.tokens_max > 0;
    model_options.mtp_file = model_options.load_mtp && assistant_ ? &*assistant_ : mtp_file;
    served.runner = model::load_model(file_, *served.backend, model_options).value();
    EXPECT_EQ(served.runner->has_mtp(), model_options.load_mtp);
    options.kv_pages.assign(served.runner->kv_layout().groups.size(), pages);
    served.core = std::make_unique<engine::EngineCore>(
        *served.runner, *tokenizer_, options,
        cache::PagePool::create(*served.backend, served.runner->kv_layout(), options.kv_pages).value(),
        model_options.load_mtp ? engine::make_mtp_drafter(*served.runner) : nullptr, clock_);
    return served;
  }

  // Requests of which some begin with the same tokens; half of them are sampled.
  static std::vector<engine::GenerateRequest> requests() {
    std::mt19937 random(7);
    const auto ids = [&](size_t count) {
      std::vector<TokenId> tokens(count);
      for (TokenId& token : tokens) token = TokenId{static_cast<int32_t>(random() % kTokens)};
      return tokens;
    };
    const std::vector<TokenId> system = ids(40);
    std::vector<engine::GenerateRequest> requests;
    for (int i = 0; i < kRequests; ++i) {
      engine::GenerateRequest request;
      if (i % 3 == 0) request.prompt = system;
      const std::vector<TokenId> own = ids(1 + random() % 40);
      request.prompt.insert(request.prompt.end(), own.begin(), own.end());
      request.max_tokens = static_cast<int32_t>(60 + random() % 80);
      request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
      request.sampling.seed = random();
      request.ignore_eos = true;
      requests.push_back(std::move(request));
    }
    return requests;
  }
  static std::vector<engine::Answer> ask(engine::EngineCore& core,
                                         const std::vector<engine::GenerateRequest>& requests) {
    std::vector<std::shared_ptr<engine::EventChannel>> channels;
    for (const engine::GenerateRequest& request : requests) {
      channels.push_back(std::make_shared<engine::EventChannel>());
      EXPECT_TRUE(core.submit(engine::GenerateRequest(request), channels.back()).has_value());
    }
    std::vector<engine::Answer> answers(requests.size());
    for (int turns = 0; turns < kTurnsMax && core.iterate() != engine::EngineCore::Iteration::kIdle; ++turns) {
      for (size_t i = 0; i < answers.size(); ++i) answers[i].add(channels[i]->drain());
    }
    for (size_t i = 0; i < answers.size(); ++i) {
      answers[i].add(channels[i]->drain());
      EXPECT_TRUE(answers[i].finished) << i;
    }
    return answers;
  }
  static void expect_same(const std::vector<engine::Answer>& actual, const std::vector<engine::Answer>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_EQ(actual[i].tokens, expected[i].tokens) << i;
  }

  engine::TickingClock clock_;
  Folder folder_;
  gguf::Reader model_, file_;
  std::optional<gguf::Reader> assistant_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

TEST_P(MtpEngine, FourDraftsPerStepDoNotChangeAnswers) {
  const auto asked = requests();
  std::vector<engine::Answer> plain;
  {
    engine::EngineOptions options;
    options.sequences_max = 1;
    options.prefix_cache = false;
    plain = ask(*serve(options, 32).core, asked);
  }
  engine::EngineOptions alone, crowded;
  alone.speculation.tokens_max = crowded.speculation.tokens_max = 4;
  alone.sequences_max = 1;
  crowded.sequences_max = kRequests;
  crowded.prefill_chunk_max = 9;
  std::vector<Served> served;
  served.push_back(serve(alone, 64));
  served.push_back(serve(crowded, 12));
  std::optional<gguf::Reader> own;
  if (GetParam() == kDeepSeek) {
    own = gguf::Reader::open(make_own_file(file_, folder_ / "own.gguf")).value();
    served.push_back(serve(crowded, 12, &*own));
  }
  for (int round = 0; round < 2; ++round) {
    for (const Served& each : served) expect_same(ask(*each.core, asked), plain);
  }
  for (const Served& each : served) {
    const engine::EngineStats stats = each.core->stats();
    // Some drafts are right and some are not.
    EXPECT_GT(stats.accepted_tokens, 0);
    EXPECT_GT(stats.drafted_tokens, stats.accepted_tokens);
    EXPECT_GT(stats.cached_tokens, 0);
  }
  for (const Served& each : std::span(served).subspan(1)) EXPECT_GT(each.core->stats().preemptions, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, MtpEngine,
                         testing::Values("deepseek4", "deepseek4-dspark", "qwen35-mtp.gguf", "glm4moe-mtp.gguf",
                                         "gemma4"),
                         [](const auto& tested) {
                           std::string name = std::filesystem::path(tested.param).stem().string();
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace cairn::mtp
