// --rope-scaling and the flags beside it: a model with them is, bit by bit, the one whose file has keys that say the
// same.
#include "model/rope_options.h"

#include <gtest/gtest.h>

#include <vector>

#include "edited_model.h"
#include "gguf/fingerprint.h"
#include "golden_model.h"

namespace cairn {
namespace {

using model::RopeOptions;
using model::RopeScaling;

constexpr int32_t kTokens = 32;

std::vector<TokenId> some_tokens(int64_t vocabulary) {
  std::mt19937 random(5);
  std::vector<TokenId> tokens(kTokens);
  for (TokenId& token : tokens) token = TokenId{static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary))};
  return tokens;
}

struct Computed {
  std::vector<float> logits;
  int32_t context_tokens = 0;
  uint64_t fingerprint = 0;  // what pages on disk are kept under
};

/// Runs the file with the options; throws an exception with the error.
Computed compute(const std::filesystem::path& path, const RopeOptions& options, int32_t context = 0) {
  auto file = gguf::Reader::open(path).value();
  if (const auto set = model::set_rope_options(file, options, context); !set)
    throw std::runtime_error(set.error().text());
  auto backend = kernels::make_cpu_backend({.threads = 1, .isa = "generic"}).value();
  auto runner = model::load_model(file, *backend,
                                  {.context_tokens = context, .batch_tokens_max = kTokens, .logits_max = kTokens});
  if (!runner.has_value()) throw std::runtime_error(runner.error().text());
  const std::vector<int32_t> pages((*runner)->kv_layout().groups.size(), kPoolPages);
  auto pool = cache::PagePool::create(*backend, (*runner)->kv_layout(), pages).value();
  struct Running {
    model::Runner& runner_;
    cache::PagePool& pool_;
    model::Runner& runner() { return runner_; }
    cache::PagePool& pool() { return pool_; }
  } running{**runner, pool};
  TestSequence sequence(running);
  return {sequence.step(some_tokens((*runner)->vocabulary())), (*runner)->context_tokens(),
          gguf::thorough_fingerprint(file)};
}

std::string refusal_of(const std::filesystem::path& path, const RopeOptions& options) {
  auto file = gguf::Reader::open(path).value();
  const auto set = model::set_rope_options(file, options, 0);
  return set ? std::string() : set.error().message;
}

double metadata_number(const std::filesystem::path& path, std::string_view key) {
  return gguf::Reader::open(path)->metadata().number(key).value();
}

/// The file with the scaling of `from` taken out, as it was before it was extended.
class Unscaled {
 public:
  explicit Unscaled(const std::filesystem::path& from)
      : factor(metadata_number(from, "llama.rope.scaling.factor")),
        context(static_cast<int32_t>(metadata_number(from, "llama.context_length"))),
        original(gguf::Reader::open(from)->metadata().contains("llama.rope.scaling.original_context_length")
                     ? static_cast<int32_t>(metadata_number(from, "llama.rope.scaling.original_context_length"))
                     : context),
        model(
            from, "unscaled", {},
            [this](gguf::Writer& writer) {
              writer.set_integer("llama.context_length", gguf::ValueType::kU32, original);
            },
            keys_of_scaling(from)) {}

  const double factor;
  const int32_t context;
  const int32_t original;
  const EditedModel model;

 private:
  static std::vector<std::string> keys_of_scaling(const std::filesystem::path& from) {
    std::vector<std::string> keys{"llama.context_length"};
    const auto file = gguf::Reader::open(from).value();
    for (const auto& [key, value] : file.metadata().values())
      if (key.starts_with("llama.rope.scaling.")) keys.emplace_back(key);
    return keys;
  }
};

TEST(RopeOptionsTest, YarnByFlagsIsYarnByKeys) {
  const auto scaled = fixture("models/llama-rope-yarn.gguf");
  const Unscaled plain(scaled);
  ASSERT_GT(plain.factor, 1);
  const auto context = static_cast<int32_t>(plain.original * plain.factor);
  const Computed by_keys = compute(scaled, {}, context);
  const Computed before = compute(plain.model.path(), {});
  const Computed by_flags =
      compute(plain.model.path(), {.scaling = RopeScaling::kYarn, .scale = plain.factor}, context);
  EXPECT_EQ(by_flags.logits, by_keys.logits);
  EXPECT_NE(by_flags.logits, before.logits);
  EXPECT_EQ(before.context_tokens, plain.original);
  EXPECT_EQ(by_flags.context_tokens, context);
  EXPECT_EQ(compute(plain.model.path(), {.scaling = RopeScaling::kYarn, .scale = plain.factor}).context_tokens, context)
      << "without --ctx";
  EXPECT_NE(by_flags.fingerprint, before.fingerprint);
}

TEST(RopeOptionsTest, LinearByFlagsIsLinearByKeys) {
  const auto scaled = fixture("models/llama-rope-linear.gguf");
  const Unscaled plain(scaled);
  const Computed by_keys = compute(scaled, {}, kTokens);
  const Computed by_flags = compute(plain.model.path(), {.scale = plain.factor}, kTokens);
  EXPECT_EQ(by_flags.logits, by_keys.logits);
  EXPECT_NE(by_flags.logits, compute(plain.model.path(), {}, kTokens).logits);
}

TEST(RopeOptionsTest, ScalingCanBeTakenOut) {
  const auto scaled = fixture("models/llama-rope-yarn.gguf");
  const Unscaled plain(scaled);
  const Computed without = compute(scaled, {.scaling = RopeScaling::kNone});
  EXPECT_EQ(without.logits, compute(plain.model.path(), {}).logits);
  EXPECT_EQ(without.context_tokens, plain.original);
}

TEST(RopeOptionsTest, EachNumberOfYarnHasAnEffectOfItsOwn) {
  const auto scaled = fixture("models/llama-rope-yarn.gguf");
  const std::vector<float> as_it_is = compute(scaled, {}).logits;
  const RopeOptions changes[] = {{.extrapolation = 0.5}, {.attention_factor = 1.25}, {.beta_fast = 4},
                                 {.beta_slow = 0.25},    {.freq_base = 500'000},     {.scale = 2}};
  std::vector<std::vector<float>> all{as_it_is};
  for (const RopeOptions& change : changes) {
    const std::vector<float> logits = compute(scaled, change, kTokens).logits;
    for (const auto& other : all) EXPECT_NE(logits, other) << all.size();
    all.push_back(logits);
  }
}

TEST(RopeOptionsTest, AnotherBaseAllowsALargerContext) {
  const auto path = fixture("models/llama.gguf");
  const auto trained = static_cast<int32_t>(metadata_number(path, "llama.context_length"));
  EXPECT_EQ(compute(path, {.freq_base = 40'000}, 2 * trained).context_tokens, 2 * trained);
  EXPECT_THROW(compute(path, {}, 2 * trained), std::runtime_error);
}

TEST(RopeOptionsTest, ModelsThatCannotAreRefusedByName) {
  const RopeOptions scale{.scale = 2};
  EXPECT_NE(refusal_of(fixture("models/gpt2.gguf"), scale).find("\"gpt2\" has no rotary positions"), std::string::npos)
      << refusal_of(fixture("models/gpt2.gguf"), scale);
  EXPECT_NE(refusal_of(fixture("models/phi3-longrope.gguf"), scale).find("LongRoPE"), std::string::npos);
  EXPECT_NE(refusal_of(fixture("models/llama.gguf"), {.beta_fast = 4}).find("--rope-scaling yarn"), std::string::npos);
  EXPECT_NE(refusal_of(fixture("models/llama.gguf"), {.scaling = RopeScaling::kNone, .scale = 2}).find("--rope-scale"),
            std::string::npos);
  EXPECT_NE(refusal_of(fixture("models/llama.gguf"), {.scale = 1e9}).find("positions times a scale"),
            std::string::npos);
  EXPECT_EQ(refusal_of(fixture("models/llama.gguf"), scale), "");
}

}  // namespace
}  // namespace cairn
