// On real models, the same request and seed give the same bytes alone, among others, after a prefix hit, after
// preemption, with pages from the disk, with and without speculation, for any chunks and threads. All of these follow
// from one seed.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/system/random_id.h"
#include "base/testing/test_data.h"
#include "cache/disk/disk_tier.h"
#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

constexpr uint32_t kSeed = 20'261'121;
constexpr int kRequests = 17;

/// A model and an engine over it, destroyed in the right order.
struct Served {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Runner> runner;
  std::unique_ptr<engine::Engine> engine;
};

struct Model {
  const char* file;
  int rounds;
  bool is_trained;             ///< otherwise drafts are right only by chance
  bool repeats_itself = true;  ///< so that there is something to draft
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.file; }

class SameBytes : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data() + GetParam().file);
    ASSERT_TRUE(file.has_value()) << file.error().text();
    file_ = std::make_unique<gguf::Reader>(std::move(*file));
    auto tokenizer = tokenizer::Tokenizer::load(file_->metadata());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
    tokenizer_ = std::move(*tokenizer);
    folder_ = testing::TempDir() + "cairn-same-bytes-" + random_id();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Served serve(int threads, kernels::KvType kv_type, engine::EngineOptions options, int32_t pages) {
    Served served;
    served.backend = kernels::make_cpu_backend({.threads = threads, .isa = ""}).value();
    served.runner = model::load_model(*file_, *served.backend, {.kv_type = kv_type, .batch_tokens_max = 128}).value();
    options.kv_pages.assign(served.runner->kv_layout().groups.size(), pages);
    if (options.prefix_cache) {
      auto worker = cache::disk::DiskWorker::open(folder_, {}).value();
      options.kv_disk =
          cache::disk::DiskTier::create(std::move(worker), served.runner->kv_layout(), "same bytes", "{}", {1, 1})
              .value();
    }
    auto engine = engine::Engine::create(*served.runner, *served.backend, *tokenizer_, options);
    EXPECT_TRUE(engine.has_value()) << engine.error().text();
    served.engine = std::move(*engine);
    return served;
  }

  std::vector<engine::GenerateRequest> requests(std::mt19937& random) const {
    const std::string story =
        "Once upon a time there was a little dog. The dog liked to run in the park. One day the dog saw a red ball. "
        "The dog ran to the ball. The ball was big. The dog was happy. ";
    std::vector<engine::GenerateRequest> requests;
    for (int i = 0; i < kRequests; ++i) {
      const size_t cut = 1 + random() % (story.size() - 1);
      engine::GenerateRequest request;
      request.prompt = tokenizer_->encode(story.substr(0, cut) + (random() % 2 == 0 ? story : ""), {}).value();
      request.max_tokens = static_cast<int32_t>(10 + random() % 60);
      request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
      request.sampling.repetition_penalty = i % 5 == 0 ? 1.1f : 1.0f;
      request.sampling.seed = random();
      request.ignore_eos = i % 3 == 0;
      requests.push_back(std::move(request));
    }
    return requests;
  }

  std::string folder_;  // of the disk tier, which outlives each engine
  std::unique_ptr<gguf::Reader> file_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

TEST_P(SameBytes, AnswersDoNotDependOnLoadCacheOrSpeculation) {
  std::mt19937 random(kSeed);
  int64_t cached = 0, preempted = 0, drafted = 0, accepted = 0, from_disk = 0;
  for (const kernels::KvType kv_type :
       {kernels::KvType::kF32, kernels::KvType::kF16, kernels::KvType::kQ8_0, kernels::KvType::kBF16}) {
    const std::vector<engine::GenerateRequest> asked = requests(random);
    std::vector<std::string> alone;
    engine::EngineOptions plain_options;
    plain_options.sequences_max = 1;
    plain_options.prefix_cache = false;
    {
      const Served plain = serve(1, kv_type, plain_options, 64);
      for (const engine::GenerateRequest& request : asked) {
        auto stream = plain.engine->submit(request);
        ASSERT_TRUE(stream.has_value()) << stream.error().text();
        alone.push_back(engine::collect(**stream).text);
      }
    }
    for (int round = 0; round < GetParam().rounds; ++round) {
      engine::EngineOptions options;
      options.sequences_max = static_cast<int32_t>(1 + random() % 17);
      options.prefill_chunk_max = static_cast<int32_t>(1 + random() % 128);
      options.speculation.tokens_max = static_cast<int32_t>(random() % 5);
      const auto threads = static_cast<int>(1 + random() % 2);
      const auto pages = static_cast<int32_t>(16 + random() % 32);
      const Served served = serve(threads, kv_type, options, pages);
      SCOPED_TRACE(fmt::format("round {}: {} at once, chunks of {}, {} drafts, {} threads, {} pages", round,
                               options.sequences_max, options.prefill_chunk_max, options.speculation.tokens_max,
                               threads, pages));
      std::vector<std::unique_ptr<engine::GenerateStream>> streams;
      for (engine::GenerateRequest request : asked) {
        request.priority = random() % 3 == 0 ? engine::Priority::kBatch : engine::Priority::kInteractive;
        auto stream = served.engine->submit(std::move(request));
        ASSERT_TRUE(stream.has_value()) << stream.error().text();
        streams.push_back(std::move(*stream));
      }
      for (size_t i = 0; i < streams.size(); ++i) {
        const engine::Answer answer = engine::collect(*streams[i]);
        EXPECT_EQ(answer.text, alone[i]) << "request " << i;
        cached += answer.finish.usage.cached_tokens;
        from_disk += answer.finish.usage.disk_tokens;
        preempted += answer.finish.timings.preemptions;
        drafted += answer.finish.timings.drafted;
        accepted += answer.finish.timings.accepted;
      }
    }
  }
  // The load did use everything that could change the bytes: the prefix cache, the disk, preemption and drafts.
  EXPECT_GT(cached, 0);
  EXPECT_GT(from_disk, 0);
  EXPECT_GT(preempted, 0);
  if (GetParam().repeats_itself) {
    EXPECT_GT(drafted, 0);
  }
  if (GetParam().is_trained) {
    EXPECT_GT(accepted, 0);
  }
}

// The second model has windows, compressed rows, and selected ones.
/// The file's name as one that a test may have.
std::string name_of(const testing::TestParamInfo<Model>& info) {
  std::string name = std::filesystem::path(info.param.file).stem().string();
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, SameBytes,
                         testing::Values(Model{"/trained/stories260K-f32.gguf", 6, true},
                                         Model{"/models/deepseek4-topk8.gguf", 3, false},
                                         Model{"/models/qwen35.gguf", 3, false}, Model{"/models/mamba2.gguf", 2, false},
                                         Model{"/converted/kimi_linear.gguf", 2, false, false}),
                         name_of);

}  // namespace
}  // namespace cairn
