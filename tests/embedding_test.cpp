// Embeddings of decoders: hidden rows compared with another implementation's logits, and the engine's vectors compared
// with rows of a single step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "edited_model.h"
#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

std::filesystem::path fixture(const std::string& name) { return std::filesystem::path(test_data()) / "models" / name; }

std::vector<TokenId> random_tokens(std::mt19937& random, int32_t count, int32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{static_cast<int32_t>(random() % vocabulary)});
  return tokens;
}

/// A decoder with pages for one sequence at a time.
class Decoding {
 public:
  explicit Decoding(const std::filesystem::path& path, int threads = 1)
      : file_(gguf::Reader::open(path).value()),
        backend_(kernels::make_cpu_backend({.threads = threads, .isa = ""}).value()) {
    // The references were made without simulated rounding.
    runner_ = model::load_model(
                  file_, *backend_,
                  {.context_tokens = 512, .batch_tokens_max = 256, .logits_max = 256, .simulate_rounding = false})
                  .value();
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), 64);
    pool_ = std::make_unique<cache::PagePool>(cache::PagePool::create(*backend_, runner_->kv_layout(), pages).value());
  }

  const gguf::Reader& file() const { return file_; }
  kernels::Backend& backend() { return *backend_; }
  model::Runner& runner() { return *runner_; }
  /// The result of one step of all tokens: [hidden, logits].
  std::pair<std::vector<float>, std::vector<float>> step(std::span<const TokenId> tokens, model::LogitsWanted wanted) {
    cache::PageTable pages;
    EXPECT_TRUE(pool_->extend(pages, static_cast<int32_t>(tokens.size())));
    const model::BatchSlice slice{SequenceId{}, 0, static_cast<int32_t>(tokens.size()), 0, &pages, wanted};
    const auto view = runner_->step({tokens, std::span(&slice, 1), pool_.get()});
    EXPECT_TRUE(view.has_value());
    pool_->release(pages);
    return {{view->hidden.begin(), view->hidden.end()}, {view->values.begin(), view->values.end()}};
  }
  std::vector<float> vector(std::span<const TokenId> tokens, model::Pooling pooling) {
    model::PoolingAccumulator rows(pooling, runner_->embedding().dimensions);
    rows.add(step(tokens, model::LogitsWanted::kHiddenAll).first);
    return rows.vector();
  }

 private:
  gguf::Reader file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Runner> runner_;
  std::unique_ptr<cache::PagePool> pool_;
};

class HiddenRowsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fixtures, HiddenRowsTest, testing::Values("llama", "qwen3", "olmo2", "phi3", "deepseek4"),
                         [](const auto& p) { return std::string(p.param); });

// After the last norm there is only the output matrix.
TEST_P(HiddenRowsTest, HiddenRowsTimesTheOutputMatrixAreTheReferenceLogits) {
  Decoding model(fixture(std::string(GetParam()) + ".gguf"));
  const gguf::Tensor* output = model.file().find_tensor("output.weight");
  if (output == nullptr) output = model.file().find_tensor("token_embd.weight");
  ASSERT_EQ(output->type, TensorType::kF32);
  const auto width = static_cast<size_t>(output->shape[0]), vocabulary = static_cast<size_t>(output->shape[1]);
  std::vector<float> matrix(width * vocabulary);
  std::memcpy(matrix.data(), output->bytes.data(), output->bytes.size());
  EXPECT_EQ(model.runner().embedding().dimensions, static_cast<int32_t>(width));
  EXPECT_EQ(model.runner().embedding().pooling, model::Pooling::kLast);
  EXPECT_FALSE(model.runner().embedding().ranks);

  std::ifstream stream(fixture(std::string(GetParam()) + ".ref.json"));
  const auto run = nlohmann::json::parse(stream).at("runs").at(0);
  std::vector<TokenId> tokens;
  for (const int32_t id : run.at("tokens").get<std::vector<int32_t>>()) tokens.push_back(TokenId{id});
  const auto [hidden, none] = model.step(tokens, model::LogitsWanted::kHiddenAll);
  EXPECT_TRUE(none.empty());
  ASSERT_EQ(hidden.size(), tokens.size() * width);
  const auto positions = run.at("positions").get<std::vector<size_t>>();
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto reference = run.at("logits").at(i).get<std::vector<float>>();
    double error = 0, power = 0;
    for (size_t token = 0; token < vocabulary; ++token) {
      double logit = 0;
      for (size_t k = 0; k < width; ++k) logit += double{matrix[token * width + k]} * hidden[positions[i] * width + k];
      error += (logit - reference[token]) * (logit - reference[token]);
      power += double{reference[token]} * reference[token];
    }
    EXPECT_LE(error / power, 1e-8) << "position " << positions[i];
  }
  const auto last = model.step(tokens, model::LogitsWanted::kHiddenLast).first;
  ASSERT_EQ(last.size(), width);
  EXPECT_EQ(std::memcmp(last.data(), &hidden[hidden.size() - width], width * sizeof(float)), 0);
}

class EngineEmbeddingTest : public testing::Test {
 protected:
  void start(Decoding& model, engine::EngineOptions options) {
    tokenizer_ = tokenizer::Tokenizer::load(model.file().metadata()).value();
    auto engine = engine::Engine::create(model.runner(), model.backend(), *tokenizer_, options);
    ASSERT_TRUE(engine.has_value()) << engine.error().text();
    engine_ = std::move(*engine);
  }
  std::unique_ptr<engine::GenerateStream> embed(const std::vector<TokenId>& tokens, model::Pooling pooling) {
    engine::GenerateRequest request;
    request.priority = engine::Priority::kBatch;
    request.prompt = tokens;
    request.embed = engine::EmbeddingOptions{.pooling = pooling};
    auto stream = engine_->submit(std::move(request));
    EXPECT_TRUE(stream.has_value()) << stream.error().text();
    return stream.has_value() ? std::move(*stream) : nullptr;
  }
  static engine::Finish finish_of(engine::GenerateStream& stream) {
    const engine::Answer answer = engine::collect(stream);
    EXPECT_TRUE(answer.tokens.empty());
    EXPECT_EQ(answer.finish.reason, engine::FinishReason::kStop) << answer.finish.error.text();
    return answer.finish;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<engine::Engine> engine_;
};

void expect_same_bytes(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

// Small chunks, decoding requests in parallel, and so few pages that texts are preempted and start again.
TEST_F(EngineEmbeddingTest, VectorsAreThoseOfASingleStepWhateverElseRuns) {
  constexpr uint32_t kSeed = 17;
  std::mt19937 random(kSeed);
  std::vector<std::vector<TokenId>> texts;
  for (int i = 0; i < 48; ++i) texts.push_back(random_tokens(random, 60 + static_cast<int32_t>(random() % 150), 300));
  texts.push_back(texts[0]);  // the same text twice, of which the second could be found in a cache
  constexpr model::Pooling kPoolings[] = {model::Pooling::kMean, model::Pooling::kCls, model::Pooling::kLast};
  Decoding alone(fixture("llama.gguf"));
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < texts.size(); ++i) expected.push_back(alone.vector(texts[i], kPoolings[i % 3]));

  Decoding model(fixture("llama.gguf"), 2);
  start(model, {.kv_pages = {18}, .sequences_max = 12, .prefill_chunk_max = 13});
  std::vector<std::unique_ptr<engine::GenerateStream>> answers, embeddings;
  for (size_t i = 0; i < texts.size(); ++i) embeddings.push_back(embed(texts[i], kPoolings[i % 3]));
  for (int i = 0; i < 6; ++i) {
    engine::GenerateRequest request;
    request.prompt = texts[i];
    request.max_tokens = 60;
    request.ignore_eos = true;
    answers.push_back(engine_->submit(std::move(request)).value());
  }
  int32_t preemptions = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const engine::Finish finish = finish_of(*embeddings[i]);
    expect_same_bytes(finish.embedding, expected[i], "text " + std::to_string(i));
    EXPECT_EQ(finish.usage.prompt_tokens, static_cast<int32_t>(texts[i].size()));
    EXPECT_EQ(finish.usage.completion_tokens, 0);
    preemptions += finish.timings.preemptions;
  }
  for (const auto& answer : answers) EXPECT_EQ(engine::collect(*answer).tokens.size(), 60u);
  EXPECT_GT(preemptions, 0) << "no text was ever put back: this test sees too little";
  const engine::EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.active_requests, 0);
  EXPECT_EQ(stats.pages_total, stats.pages_free + stats.pages_cached);
}

TEST_F(EngineEmbeddingTest, ATextMayFillTheContextAndNoMore) {
  Decoding model(fixture("llama.gguf"));
  start(model, {.kv_pages = {16}, .sequences_max = 4, .prefill_chunk_max = 100});
  std::mt19937 random(3);
  const auto whole = random_tokens(random, 512, 300);
  EXPECT_EQ(finish_of(*embed(whole, model::Pooling::kMean)).embedding.size(), 64u);
  engine::GenerateRequest longer;
  longer.prompt = random_tokens(random, 513, 300);
  longer.embed = engine::EmbeddingOptions{};
  const auto refused = engine_->submit(std::move(longer));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kContextLengthExceeded);
  EXPECT_NE(refused.error().message.find("513"), std::string::npos);
  EXPECT_NE(refused.error().message.find("512"), std::string::npos);
  engine::GenerateRequest judged;
  judged.prompt = whole;
  judged.embed = engine::EmbeddingOptions{.pooling = model::Pooling::kRank};
  const auto unranked = engine_->submit(std::move(judged));
  ASSERT_FALSE(unranked.has_value());
  EXPECT_EQ(unranked.error().code, Code::kUnsupported);
}

TEST_F(EngineEmbeddingTest, AYesNoHeadScoresByTheDifferenceOfItsLogits) {
  const AddedTensor labels = random_tensor("cls.output.weight", {64, 2}, 9);
  const EditedModel file(fixture("qwen3.gguf"), "cairn-yes-no", {labels},
                         [](gguf::Writer& keys) { keys.set_integer("qwen3.pooling_type", gguf::ValueType::kU32, 4); });
  Decoding model(file.path());
  EXPECT_TRUE(model.runner().embedding().ranks);
  EXPECT_EQ(model.runner().embedding().pooling, model::Pooling::kRank);
  start(model, {.kv_pages = {32}, .sequences_max = 4, .prefill_chunk_max = 16});
  std::mt19937 random(4);
  for (int i = 0; i < 4; ++i) {
    const auto text = random_tokens(random, 10 + i * 20, 300);
    const auto hidden =
        model.vector(text, model::Pooling::kLast);  // computed before the engine's thread uses the model
    double difference = 0;
    for (size_t k = 0; k < 64; ++k) difference += (double{labels.values[k]} - labels.values[64 + k]) * hidden[k];
    const engine::Finish finish = finish_of(*embed(text, model::Pooling::kRank));
    ASSERT_EQ(finish.embedding.size(), 1u);
    EXPECT_NEAR(finish.embedding[0], difference, 1e-5 * (1 + std::abs(difference)));
  }
}

class EncoderEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::make_unique<gguf::Reader>(gguf::Reader::open(fixture("jina-bert-v2.gguf")).value());
    backend_ = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    embedder_ = model::load_embedder(*file_, *backend_, {}).value();
  }
  static engine::GenerateRequest request_of(std::vector<TokenId> tokens, model::Pooling pooling,
                                            engine::Priority priority) {
    engine::GenerateRequest request;
    request.prompt = std::move(tokens);
    request.embed = engine::EmbeddingOptions{.pooling = pooling};
    request.priority = priority;
    return request;
  }

  std::unique_ptr<gguf::Reader> file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Embedder> embedder_;
};

TEST_F(EncoderEngineTest, ManyTextsOfBothPrioritiesGetTheirOwnVectors) {
  std::mt19937 random(5);
  std::vector<std::vector<TokenId>> texts;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 150; ++i) {
    texts.push_back(random_tokens(random, 1 + static_cast<int32_t>(random() % (i % 10 == 0 ? 512 : 40)), 128));
    const model::EmbedText text{texts.back()};
    expected.emplace_back(64);
    const model::Pooling pooling = i % 7 == 0 ? model::Pooling::kLast : model::Pooling::kMean;
    ASSERT_TRUE(embedder_->embed({&text, 1}, pooling, expected.back()).has_value());
  }
  const auto engine = engine::make_encoder_engine(*embedder_, {}).value();
  std::vector<std::unique_ptr<engine::GenerateStream>> streams;
  for (size_t i = 0; i < texts.size(); ++i) {
    streams.push_back(engine
                          ->submit(request_of(texts[i], i % 7 == 0 ? model::Pooling::kLast : model::Pooling::kMean,
                                              i % 3 == 0 ? engine::Priority::kBatch : engine::Priority::kInteractive))
                          .value());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i % 11 == 5) {
      streams[i].reset();  // cancelled, or finished already
      continue;
    }
    const engine::Answer answer = engine::collect(*streams[i]);
    expect_same_bytes(answer.finish.embedding, expected[i], "text " + std::to_string(i));
    EXPECT_EQ(answer.finish.usage.prompt_tokens, static_cast<int32_t>(texts[i].size()));
  }
  const engine::EngineStats stats = engine->stats();
  EXPECT_EQ(stats.total_requests, 150);
  EXPECT_LT(stats.steps, 150) << "texts should share batches";
}

TEST_F(EncoderEngineTest, RefusesRequestsThatAreNotEmbeddings) {
  const auto engine = engine::make_encoder_engine(*embedder_, {.queue_max = 1}).value();
  const auto error_of = [&](engine::GenerateRequest request) {
    const auto stream = engine->submit(std::move(request));
    EXPECT_FALSE(stream.has_value());
    return stream.has_value() ? Error{} : stream.error();
  };
  engine::GenerateRequest writes;
  writes.prompt = {TokenId{5}};
  EXPECT_NE(error_of(std::move(writes)).message.find("/v1/embeddings"), std::string::npos);
  const auto of = [](int32_t count, int32_t id) {
    return request_of(std::vector(static_cast<size_t>(count), TokenId{id}), model::Pooling::kMean,
                      engine::Priority::kBatch);
  };
  EXPECT_EQ(error_of(of(513, 5)).code, Code::kContextLengthExceeded);
  EXPECT_EQ(error_of(of(0, 5)).code, Code::kInvalidArgument);
  EXPECT_EQ(error_of(of(3, 128)).at, "prompt[0]");
  EXPECT_EQ(error_of(request_of({TokenId{5}}, model::Pooling::kRank, engine::Priority::kBatch)).code,
            Code::kUnsupported);
  engine->stop();
  EXPECT_EQ(error_of(of(3, 5)).code, Code::kUnavailable);
}

/// An embedder that runs a hook first in every call.
class FakeEmbedder final : public model::Embedder {
 public:
  using Before = std::function<Result<void>(std::span<const model::EmbedText>)>;
  explicit FakeEmbedder(Before before) : before_(std::move(before)) {}
  const model::EmbeddingAbility& ability() const override { return ability_; }
  int64_t vocabulary() const override { return 10; }
  int32_t context_tokens() const override { return 8; }
  int32_t batch_tokens_max() const override { return 8; }
  int32_t texts_max() const override { return 1; }
  Result<void> embed(std::span<const model::EmbedText> texts, model::Pooling, std::span<float> out) override {
    CAIRN_TRY_VOID(before_(texts));
    std::ranges::fill(out, 1.0f);
    return {};
  }

 private:
  const model::EmbeddingAbility ability_{.dimensions = 4, .pooling = model::Pooling::kMean};
  Before before_;
};

TEST_F(EncoderEngineTest, TextsTakeLoraAdaptersAsTheirRequestsOrTheEngineSay) {
  std::vector<std::vector<float>> scales;
  FakeEmbedder embedder([&](std::span<const model::EmbedText> texts) -> Result<void> {
    scales.emplace_back(texts.front().adapter_scales.begin(), texts.front().adapter_scales.end());
    return {};
  });
  const auto engine = engine::make_encoder_engine(embedder, {.adapter_scales = {0.5F, 2}}).value();
  const auto embed = [&](std::optional<std::vector<engine::AdapterScale>> adapters) {
    engine::GenerateRequest request = request_of({TokenId{1}}, model::Pooling::kMean, engine::Priority::kBatch);
    request.adapters = std::move(adapters);
    auto stream = engine->submit(std::move(request));
    if (!stream.has_value()) return stream.error().code;
    EXPECT_EQ(engine::collect(**stream).finish.reason, engine::FinishReason::kStop);
    return Code::kInternal;
  };
  embed(std::nullopt);
  embed({{{.id = 0, .scale = 4}}});
  EXPECT_EQ(embed({{{.id = 2, .scale = 1}}}), Code::kInvalidArgument);
  const engine::AdapterScale all[] = {{.id = 1, .scale = 3}};
  ASSERT_TRUE(engine->set_adapter_scales(all).has_value());
  embed(std::nullopt);
  engine->stop();
  EXPECT_EQ(scales, (std::vector<std::vector<float>>{{0.5F, 2}, {4, 0}, {0, 3}}));
  EXPECT_EQ(engine->adapter_scales(), (std::vector<float>{0, 3}));
}

TEST_F(EncoderEngineTest, AFailedCallFailsOnlyItsTexts) {
  int calls = 0;
  FakeEmbedder failing([&](std::span<const model::EmbedText>) -> Result<void> {
    if (calls++ % 2 == 0) return fail(Code::kInternal, "the device is gone");
    return {};
  });
  const auto engine = engine::make_encoder_engine(failing, {}).value();
  for (int i = 0; i < 4; ++i) {
    const auto stream =
        engine->submit(request_of({TokenId{1}}, model::Pooling::kMean, engine::Priority::kInteractive)).value();
    const engine::Answer answer = engine::collect(*stream);
    EXPECT_EQ(answer.finish.reason, i % 2 == 0 ? engine::FinishReason::kError : engine::FinishReason::kStop);
    EXPECT_EQ(answer.finish.error.message, i % 2 == 0 ? "the device is gone" : "");
    EXPECT_EQ(answer.finish.embedding.size(), i % 2 == 0 ? 0u : 4u);
  }
  EXPECT_EQ(engine->stats().active_requests, 0);
}

TEST_F(EncoderEngineTest, AnyExceptionOfACallFailsItsTextsAndTheEngineGoesOn) {
  int calls = 0;
  FakeEmbedder throwing([&](std::span<const model::EmbedText>) -> Result<void> {
    if (++calls == 1) throw std::runtime_error("nobody expects this");
    if (calls == 2) throw std::bad_alloc();
    return {};
  });
  const auto engine = engine::make_encoder_engine(throwing, {}).value();
  for (const auto& [code, reason] : {std::pair(Code::kInternal, engine::FinishReason::kError),
                                     std::pair(Code::kOutOfMemory, engine::FinishReason::kError),
                                     std::pair(Code::kInternal, engine::FinishReason::kStop)}) {
    const auto stream =
        engine->submit(request_of({TokenId{1}}, model::Pooling::kMean, engine::Priority::kInteractive)).value();
    const engine::Answer answer = engine::collect(*stream);
    EXPECT_EQ(answer.finish.reason, reason);
    if (reason != engine::FinishReason::kError) continue;
    EXPECT_EQ(answer.finish.error.code, code);
  }
  EXPECT_EQ(engine->stats().active_requests, 0);
}

// Each call has one text here, so the order of texts is that of the calls.
TEST_F(EncoderEngineTest, ClientsShareTheEngineByTokens) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  std::vector<int32_t> order;
  FakeEmbedder embedder([&](std::span<const model::EmbedText> texts) -> Result<void> {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return go; });
    order.push_back(index(texts.front().tokens.front()));
    return {};
  });
  const auto engine = engine::make_encoder_engine(embedder, {}).value();
  std::vector<std::unique_ptr<engine::GenerateStream>> streams;
  for (int32_t i = 0; i < 44; ++i) {
    const int32_t client = i < 40 ? 1 : 2;  // texts of four tokens, then of eight
    engine::GenerateRequest request = request_of(std::vector(client == 1 ? 4 : 8, TokenId{client}),
                                                 model::Pooling::kMean, engine::Priority::kInteractive);
    request.client = std::to_string(client);
    streams.push_back(engine->submit(std::move(request)).value());
  }
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  changed.notify_all();
  for (const auto& stream : streams) EXPECT_EQ(engine::collect(*stream).finish.reason, engine::FinishReason::kStop);
  // The first client gets two texts for one of the second, apart from its first texts, which came before the second
  // client.
  const auto last_of_second = std::ranges::find(order.rbegin(), order.rend(), 2).base() - order.begin();
  EXPECT_LE(last_of_second, 16);
  EXPECT_EQ(std::ranges::count(order, 2), 4);
}

}  // namespace
}  // namespace cairn
