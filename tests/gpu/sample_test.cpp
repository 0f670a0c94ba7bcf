// Tokens sampled on the GPU: the same as the sampler takes from the same logits, and whole answers of an engine whose
// model samples, whatever runs beside them.
#include <cmath>
#include <memory>
#include <numeric>

#include "engine/decoding_constraint.h"
#include "engine/engine.h"
#include "engine/speculation/draft_model.h"
#include "engine/testing/collected_response.h"
#include "gpu/model_lab.h"
#include "sampling/sampler.h"

namespace cairn::gpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// More than the device sorts, and a multiple of no block size.
constexpr int32_t kVocabulary = 5'003;

class GpuSample : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    kernels::WorkspaceSizes sizes = sizes_of_tests();
    sizes.sample_rows = 64;
    ASSERT_TRUE(gpu().reserve(sizes).has_value());
  }
  /// Takes the samples in one call; the rows of logits must be unchanged afterwards.
  static std::vector<kernels::SampleResult> sample(const std::vector<float>& logits, int64_t vocabulary,
                                                   std::span<const kernels::SampleRequest> samples,
                                                   std::span<const kernels::LogitChange> changes = {}) {
    Arrays arrays(gpu());
    float* const there = arrays.put(logits);
    std::vector<kernels::SampleResult> sampled(samples.size());
    gpu().sampler()->sample(there, vocabulary, samples, changes, sampled);
    EXPECT_TRUE(kernels::cpu::same_bits(arrays.get(there, std::ssize(logits)), logits)) << "logits have changed";
    return sampled;
  }
};

// Rows that look like a model's, and unusual ones.
std::vector<std::vector<float>> rows_of_all_kinds(int32_t vocabulary) {
  std::vector<std::vector<float>> rows;
  const auto add = [&](auto logit_of) {
    std::vector<float>& row = rows.emplace_back();
    for (int32_t i = 0; i < vocabulary; ++i) row.push_back(logit_of(i));
  };
  Random random(7);
  const std::vector<float> normals = random.normals(vocabulary);
  add([&](int32_t i) { return 3 * normals[i] + 5; });
  add([&](int32_t i) { return 12 * normals[i] - 40; });            // few tokens matter
  add([&](int32_t i) { return 0.01f * normals[i]; });              // nearly flat
  add([&](int32_t i) { return std::round(2 * normals[i]); });      // many are equal
  add([&](int32_t i) { return i % 7 == 3 ? 1.5f : -kInfinity; });  // few tokens are possible, with equal probability
  add([&](int32_t i) { return i % 3 == 0 ? kNaN : normals[i]; });  // NaN counts as -infinity
  add([&](int32_t i) { return i == vocabulary - 1 ? 0.25f : -kInfinity; });  // a single token is possible
  add([&](int32_t i) { return 1e30f * normals[i]; });
  add([&](int32_t i) { return i % 1'000 == 999 ? kInfinity : normals[i]; });
  add([](int32_t) { return -kInfinity; });
  return rows;
}

struct Wish {
  std::string name;
  sampling::SamplingParams params;
  std::vector<TokenId> banned;
  bool greedy = false;
};

std::vector<Wish> wishes() {
  std::vector<Wish> all;
  const auto add = [&](std::string name, auto set) {
    Wish wish;
    wish.name = std::move(name);
    set(wish.params);
    all.push_back(std::move(wish));
  };
  add("plain", [](sampling::SamplingParams&) {});
  add("greedy", [](sampling::SamplingParams& params) { params.temperature = 0; });
  add("cold", [](sampling::SamplingParams& params) { params.temperature = 0.05f; });
  add("hot", [](sampling::SamplingParams& params) { params.temperature = 2; });
  for (const int32_t k : {1, 2, 40, 1'000, 4'500}) {
    add("top_k " + std::to_string(k), [k](sampling::SamplingParams& params) { params.top_k = k; });
  }
  add("top_k of all", [](sampling::SamplingParams& params) { params.top_k = 1 << 30; });
  for (const float p : {0.05f, 0.5f, 0.95f}) {
    add("top_p " + std::to_string(p), [p](sampling::SamplingParams& params) { params.top_p = p; });
  }
  for (const float p : {0.05f, 0.9f}) {
    add("min_p " + std::to_string(p), [p](sampling::SamplingParams& params) { params.min_p = p; });
  }
  add("all filters", [](sampling::SamplingParams& params) {
    params.top_k = 40, params.top_p = 0.95f, params.min_p = 0.05f, params.temperature = 0.8f;
  });
  add("top_p and min_p", [](sampling::SamplingParams& params) { params.top_p = 0.9f, params.min_p = 0.1f; });
  add("penalties", [](sampling::SamplingParams& params) {
    params.repetition_penalty = 1.3f, params.frequency_penalty = 0.4f, params.presence_penalty = 0.5f;
    params.top_k = 20;
  });
  add("penalties that raise", [](sampling::SamplingParams& params) {
    params.repetition_penalty = 0.5f, params.frequency_penalty = -2, params.presence_penalty = -1;
  });
  add("biases", [](sampling::SamplingParams& params) {
    params.logit_bias = {{TokenId{17}, 6.0f}, {TokenId{4'000}, 3.0f}, {TokenId{17}, 2.0f}, {TokenId{5}, -100.0f}};
    params.repetition_penalty = 1.1f;
  });
  add("log-probabilities", [](sampling::SamplingParams& params) { params.logprobs = true; });
  add("log-probabilities of 20", [](sampling::SamplingParams& params) {
    params.logprobs = true, params.top_logprobs = kernels::kSampleTopMax, params.top_k = 3, params.presence_penalty = 1;
  });
  all.push_back({"banned", {.repetition_penalty = 1.2f}, {TokenId{3}, TokenId{17}, TokenId{3}}, false});
  all.push_back({"all but three banned", {}, {}, false});
  for (int32_t i = 3; i < kernels::kSampleChangesMax; ++i) all.back().banned.push_back(TokenId{i % kVocabulary});
  all.push_back({"greedy for once", {.top_k = 5}, {}, true});
  for (Wish& wish : all) wish.params.seed = std::hash<std::string>{}(wish.name);
  return all;
}

void expect_same(const sampling::Sampled& a, const sampling::Sampled& b) {
  EXPECT_EQ(index(a.token), index(b.token));
  EXPECT_NEAR(a.logprob, b.logprob, 1e-5);
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(index(a.top[i].token), index(b.top[i].token)) << i;
    EXPECT_NEAR(a.top[i].logprob, b.top[i].logprob, 1e-5) << i;
  }
}

TEST_F(GpuSample, TokensAreThoseOfTheSampler) {
  const std::vector<std::vector<float>> rows = rows_of_all_kinds(kVocabulary);
  std::vector<float> logits;
  for (const std::vector<float>& row : rows) logits.insert(logits.end(), row.begin(), row.end());
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < 80; ++i) prompt.push_back(TokenId{i * i * 7 % kVocabulary});
  int64_t left = 0, drawn_here = 0;
  for (const Wish& wish : wishes()) {
    SCOPED_TRACE(wish.name);
    std::vector<sampling::Sampler> samplers, on_gpu;
    for (size_t row = 0; row < rows.size(); ++row) {
      samplers.emplace_back(wish.params, kVocabulary, prompt);
      on_gpu.emplace_back(wish.params, kVocabulary, prompt);
    }
    // Each request samples several tokens in turn, to which penalties apply.
    for (int32_t turn = 0; turn < (kEmulated ? 2 : 20); ++turn) {
      std::vector<kernels::SampleRequest> samples;
      std::vector<kernels::LogitChange> changes;
      for (size_t row = 0; row < rows.size(); ++row) {
        ASSERT_TRUE(on_gpu[row].can_sample_on_device(wish.banned));
        samples.push_back(on_gpu[row].request_for(static_cast<int32_t>(row), 0, wish.banned, wish.greedy, changes));
      }
      const std::vector<kernels::SampleResult> sampled = sample(logits, kVocabulary, samples, changes);
      for (size_t row = 0; row < rows.size(); ++row) {
        SCOPED_TRACE("row " + std::to_string(row));
        const sampling::Sampled expected = samplers[row].sample(rows[row], wish.banned, wish.greedy);
        const bool not_here = sampled[row].token == kernels::SampleResult::kNeedsHost;
        (not_here ? left : drawn_here) += 1;
        expect_same(not_here ? on_gpu[row].sample(rows[row], wish.banned, wish.greedy) : on_gpu[row].take(sampled[row]),
                    expected);
      }
    }
  }
  // Left to the host: rows with infinity, and nearly flat rows on which filters apply.
  EXPECT_GT(left, 0);
  EXPECT_LT(left, drawn_here / 5);
}

// Masks with few tokens, with most of them, and with none that the row makes possible; the last words are missing.
TEST_F(GpuSample, MaskedTokensAreNotSampled) {
  constexpr size_t kWords = kVocabulary / 64 - 3;
  const std::vector<std::vector<float>> rows = rows_of_all_kinds(kVocabulary);
  std::vector<std::vector<uint64_t>> masks;
  std::vector<float> logits;
  for (const std::vector<float>& row : rows) {
    logits.insert(logits.end(), row.begin(), row.end());
    std::vector<uint64_t>& mask = masks.emplace_back(kWords);
    for (size_t word = 0; word < kWords; ++word)
      mask[word] = masks.size() % 3 == 0 ? 1ull << (word % 64) : masks.size() % 3 == 1 ? ~(1ull << (word % 64)) : 0;
    if (masks.size() % 3 == 2) mask[7] = 0x30;
  }
  std::vector<kernels::AllowedTokens> allowed;
  for (size_t row = 1; row < rows.size(); ++row) allowed.push_back({static_cast<int32_t>(row), masks[row]});
  Arrays arrays(gpu());
  float* const there = arrays.put(logits);
  gpu().sampler()->mask(there, kVocabulary, allowed);
  const std::vector<float> masked = arrays.get(there, std::ssize(logits));
  for (size_t i = 0; i < logits.size(); ++i) {
    const size_t row = i / kVocabulary, token = i % kVocabulary;
    const bool kept = row == 0 || (token / 64 < kWords && (masks[row][token / 64] >> (token % 64) & 1) != 0);
    ASSERT_TRUE(kept ? std::bit_cast<uint32_t>(masked[i]) == std::bit_cast<uint32_t>(logits[i])
                     : masked[i] == -kInfinity)
        << row << " " << token;
  }
  for (const Wish& wish : wishes()) {
    if (wish.params.logprobs || wish.params.top_logprobs > 0) continue;
    SCOPED_TRACE(wish.name);
    std::vector<sampling::Sampler> samplers, on_gpu;
    std::vector<kernels::SampleRequest> samples;
    std::vector<kernels::LogitChange> changes;
    for (size_t row = 0; row < rows.size(); ++row) {
      samplers.emplace_back(wish.params, kVocabulary, std::vector<TokenId>{});
      on_gpu.emplace_back(wish.params, kVocabulary, std::vector<TokenId>{});
      samples.push_back(on_gpu[row].request_for(static_cast<int32_t>(row), 0, wish.banned, wish.greedy, changes));
    }
    const std::vector<kernels::SampleResult> sampled = sample(masked, kVocabulary, samples, changes);
    for (size_t row = 1; row < rows.size(); ++row) {
      SCOPED_TRACE("row " + std::to_string(row));
      const sampling::Sampled expected = samplers[row].sample(rows[row], wish.banned, wish.greedy, masks[row]);
      if (sampled[row].token == kernels::SampleResult::kNeedsHost) continue;
      EXPECT_EQ(index(on_gpu[row].take(sampled[row]).token), index(expected.token));
    }
  }
}

TEST_F(GpuSample, ARowGivesTheSameTokenAloneAndAmongOthers) {
  const std::vector<std::vector<float>> rows = rows_of_all_kinds(kVocabulary);
  sampling::SamplingParams params{.top_k = 50, .presence_penalty = 0.5f, .seed = 3, .top_logprobs = 5};
  const std::vector<TokenId> prompt = {TokenId{1}, TokenId{17}, TokenId{400}};
  sampling::Sampler sampler(params, kVocabulary, prompt);
  std::vector<float> logits;
  std::vector<kernels::SampleRequest> samples;
  std::vector<kernels::LogitChange> changes;
  for (const std::vector<float>& row : rows) {
    samples.push_back(sampler.request_for(static_cast<int32_t>(samples.size()), 0, {}, false, changes));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const std::vector<kernels::SampleResult> together = sample(logits, kVocabulary, samples, changes);
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<kernels::LogitChange> own;
    const kernels::SampleRequest one = sampler.request_for(0, 0, {}, false, own);
    const kernels::SampleResult alone = sample(rows[row], kVocabulary, {&one, 1}, own).front();
    ASSERT_EQ(alone.token, together[row].token) << row;
    if (alone.token < 0) continue;
    EXPECT_EQ(alone.sum, together[row].sum) << row;
    EXPECT_EQ(alone.logit, together[row].logit) << row;
    ASSERT_EQ(alone.top_logprobs, together[row].top_logprobs) << row;
    for (int32_t i = 0; i < alone.top_logprobs; ++i) {
      EXPECT_EQ(alone.top[i].token, together[row].top[i].token) << row << " " << i;
    }
  }
}

// This many samples would show even a small error of the probabilities.
TEST_F(GpuSample, FrequenciesOfTokensAreTheirProbabilities) {
  constexpr int32_t kRows = 64, kTurns = kEmulated ? 20 : 200;
  const std::vector<float> row = {0, std::log(2.0f), -kInfinity, std::log(3.0f), std::log(4.0f)};
  std::vector<float> logits;
  for (int32_t i = 0; i < kRows; ++i) logits.insert(logits.end(), row.begin(), row.end());
  for (const int32_t top_k : {0, 4}) {
    std::vector<double> found(row.size());
    for (int32_t turn = 0; turn < kTurns; ++turn) {
      std::vector<kernels::SampleRequest> samples(kRows);
      for (int32_t i = 0; i < kRows; ++i) {
        samples[i].row = i;
        samples[i].top_k = top_k;
        samples[i].random = (turn * kRows + i + 0.5) / (kTurns * kRows);
      }
      for (const kernels::SampleResult& sampled : sample(logits, std::ssize(row), samples))
        found[sampled.token] += 1.0 / (kTurns * kRows);
    }
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(found[i], std::exp(row[i]) / 10, 1.5 / (kTurns * kRows)) << i << " top_k " << top_k;
    }
  }
}

// Parameters that the device does not support.
TEST_F(GpuSample, UnsupportedSamplesAreLeftToTheHost) {
  const std::vector<TokenId> prompt(kernels::kSampleChangesMax + 1, TokenId{1}),
      banned(kernels::kSampleChangesMax + 1, TokenId{1});
  EXPECT_FALSE(sampling::Sampler({.typical_p = 0.9f}, kVocabulary, {}).can_sample_on_device({}));
  EXPECT_FALSE(sampling::Sampler({}, kVocabulary, {}).can_sample_on_device(banned));
  EXPECT_FALSE(
      sampling::Sampler({.presence_penalty = 1, .penalty_last = -1}, kVocabulary, prompt).can_sample_on_device({}));
  EXPECT_TRUE(sampling::Sampler({.presence_penalty = 1}, kVocabulary, prompt).can_sample_on_device({}));
}

// Forces tokens, bans the last one, is greedy, and allows few tokens, in turn.
class Meddling final : public engine::DecodingConstraint {
 public:
  void begin(engine::NextTokenRule& next) override { next.forced = {TokenId{65}, TokenId{66}}; }
  void token(TokenId token, std::string_view, engine::NextTokenRule& next) override {
    next.greedy = ++seen_ % 3 == 0;
    next.banned = {token};
    next.allowed = {};
    if (seen_ % 4 == 1) next.allowed = few_;
    next.expected = {};
    if (seen_ % 5 == 2) next.expected = likely_;
    if (seen_ == 5) next.forced = {TokenId{67}};
  }

 private:
  int32_t seen_ = 0;
  std::vector<uint64_t> few_ = {0x5500, 0xf0f0};
  std::vector<TokenId> likely_ = {TokenId{65}, TokenId{41}};
};

std::vector<engine::GenerateRequest> requests(int32_t vocabulary) {
  std::vector<engine::GenerateRequest> all;
  for (const Wish& wish : wishes()) {
    if (!wish.banned.empty() || wish.greedy) continue;
    engine::GenerateRequest& request = all.emplace_back();
    request.sampling = wish.params;
    for (auto& [token, bias] : request.sampling.logit_bias) token = TokenId{index(token) % vocabulary};
    request.ignore_eos = true;
    request.max_tokens = 12;
    // A repetition, which prompt lookup proposes.
    for (int32_t i = 0; i < 20 + std::ssize(all); ++i) request.prompt.push_back(TokenId{40 + i % 5});
  }
  for (const float temperature : {0.0f, 0.8f}) {
    for (const bool logprobs : {false, true}) {
      engine::GenerateRequest request = all[1];
      request.sampling.temperature = temperature;
      request.sampling.logprobs = logprobs;
      request.constraint = std::make_shared<Meddling>();
      all.push_back(request);
    }
  }
  all.push_back(all[0]);
  all.back().sampling.typical_p = 0.8f;
  return all;
}

// A runner that hands every row to the host instead of sampling from it.
class Reading final : public model::Runner {
 public:
  explicit Reading(model::Runner& runner) : runner_(runner) {}
  Result<model::LogitsView> step(const model::Batch& batch) override { return runner_.step(batch); }
  const cache::KvLayout& kv_layout() const override { return runner_.kv_layout(); }
  int64_t vocabulary() const override { return runner_.vocabulary(); }
  int32_t context_tokens() const override { return runner_.context_tokens(); }
  int32_t batch_tokens_max() const override { return runner_.batch_tokens_max(); }
  int32_t logits_max() const override { return runner_.logits_max(); }

 private:
  model::Runner& runner_;
};

TEST_F(GpuSample, DraftModelsProposeTheSameTokensAsWithRowsReadBack) {
  const auto file = gguf::Reader::open(model_path("llama")).value();
  model::ModelOptions model_options{.context_tokens = 128, .kv_type = kernels::KvType::kF32};
  model_options.batch_tokens_max = model_options.logits_max = 48;
  const auto runner = model::load_model(file, gpu(), model_options).value();
  Reading reading(*runner);
  const std::vector<int32_t> pages(runner->kv_layout().groups.size(), 16);
  const std::vector<TokenId> first = {TokenId{40}, TokenId{90}, TokenId{7}}, second(20, TokenId{65});
  const auto proposals_of = [&](model::Runner& from, int32_t vocabulary) {
    const auto drafter = engine::make_draft_model(from, gpu(), {pages, vocabulary}).value();
    std::vector<std::vector<TokenId>> proposed(2);
    const engine::DraftRequest requests[] = {{SequenceId{1}, first, 5, &proposed[0], nullptr, nullptr},
                                             {SequenceId{2}, second, 3, &proposed[1], nullptr, nullptr}};
    drafter->propose(requests);
    return proposed;
  };
  const auto vocabulary = static_cast<int32_t>(runner->vocabulary());
  const auto sampled = proposals_of(*runner, vocabulary);
  EXPECT_EQ(sampled[0].size(), 5u);
  EXPECT_EQ(sampled[1].size(), 3u);
  EXPECT_EQ(sampled, proposals_of(reading, vocabulary));
  // A token outside the target's vocabulary is not proposed.
  EXPECT_TRUE(proposals_of(*runner, index(sampled[0][0]))[0].empty());
}

// Compares sampling, reading rows, and sampling without drafts.
TEST_F(GpuSample, AnswersAreTheSameAsWithRowsReadBack) {
  const auto file = gguf::Reader::open(model_path("llama")).value();
  const auto tokenizer = tokenizer::Tokenizer::load(file.metadata()).value();
  model::ModelOptions model_options{.context_tokens = 128, .kv_type = kernels::KvType::kF32};
  model_options.batch_tokens_max = model_options.logits_max = 48;
  const auto runner = model::load_model(file, gpu(), model_options).value();
  ASSERT_TRUE(runner->samples_on_device());
  Reading reading(*runner);
  const std::vector<int32_t> pages(runner->kv_layout().groups.size(), kPoolPages);
  engine::EngineOptions options{.kv_pages = pages, .sequences_max = 32, .speculation = {.tokens_max = 3}};
  const auto answers_of = [&](model::Runner& from, bool together) {
    const auto engine = engine::Engine::create(from, gpu(), *tokenizer, options).value();
    std::vector<engine::Answer> answers;
    std::vector<std::unique_ptr<engine::GenerateStream>> streams;
    for (engine::GenerateRequest& request : requests(static_cast<int32_t>(runner->vocabulary()))) {
      streams.push_back(engine->submit(std::move(request)).value());
      if (!together) answers.push_back(engine::collect(*streams.back()));
    }
    for (const auto& stream : streams)
      if (together) answers.push_back(engine::collect(*stream));
    EXPECT_EQ(engine->stats().accepted_tokens > 0, options.speculation.tokens_max > 0);
    return answers;
  };
  const std::vector<engine::Answer> sampled = answers_of(*runner, true), read = answers_of(reading, true);
  options.speculation.tokens_max = 0;
  const std::vector<engine::Answer> alone = answers_of(*runner, false);
  for (size_t i = 0; i < sampled.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    EXPECT_EQ(sampled[i].finish.reason, engine::FinishReason::kLength) << sampled[i].finish.error.text();
    EXPECT_EQ(sampled[i].tokens, read[i].tokens);
    EXPECT_EQ(sampled[i].tokens, alone[i].tokens);
  }
}

}  // namespace
}  // namespace cairn::gpu
