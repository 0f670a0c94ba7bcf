/// For tests that compare whole models with reference logits: a model on every instruction set, and its logits for any
/// division of its rows into steps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "model/weights/lora.h"
#include "reference_logits.h"
#include "sequence.h"

namespace cairn {

inline constexpr int32_t kRowsMax = 256;
inline constexpr int32_t kPoolPages = 128;

inline std::filesystem::path fixture(const std::string& name) { return std::filesystem::path(test_data()) / name; }

/// Instruction sets that this machine has; with sanitizers, which are slow, the last of them.
/// kernels_test runs all of them with sanitizers, and these tests do without.
inline std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const char* name : {"generic", "avx2", "avx512", "avx512bf16", "neon"}) {
    if (kernels::make_cpu_backend({.threads = 1, .isa = name}).has_value()) names.emplace_back(name);
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  names.erase(names.begin(), names.end() - 1);
#endif
  return names;
}

/// A loaded file of the test data; throws an exception with the error.
class Model {
 public:
  Model(const std::string& file, int32_t context, const std::string& isa, int threads,
        kernels::KvType kv_type = kernels::KvType::kF32, bool rounding = false,
        std::span<const model::LoraAdapter> adapters = {}) {
    auto reader = gguf::Reader::open(fixture(file));
    if (!reader.has_value()) throw std::runtime_error(reader.error().text());
    file_ = std::make_unique<gguf::Reader>(std::move(reader).value());
    auto backend = kernels::make_cpu_backend({.threads = threads, .isa = isa});
    if (!backend.has_value()) throw std::runtime_error(backend.error().text());
    backend_ = std::move(backend).value();
    // The references were made without simulated rounding.
    auto runner = model::load_model(*file_, *backend_,
                                    {.context_tokens = context,
                                     .kv_type = kv_type,
                                     .batch_tokens_max = kRowsMax,
                                     .logits_max = kRowsMax,
                                     .simulate_rounding = rounding,
                                     .adapters = adapters});
    if (!runner.has_value()) throw std::runtime_error(runner.error().text());
    runner_ = std::move(runner).value();
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), kPoolPages);
    pool_ = std::make_unique<cache::PagePool>(cache::PagePool::create(*backend_, runner_->kv_layout(), pages).value());
  }

  model::Runner& runner() { return *runner_; }
  cache::PagePool& pool() { return *pool_; }
  const gguf::Reader& file() const { return *file_; }

 private:
  std::unique_ptr<gguf::Reader> file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Runner> runner_;
  std::unique_ptr<cache::PagePool> pool_;
};

/// Logits of all rows of a prompt that runs alone, `chunk` rows per step.
inline std::vector<float> logits_of(Model& model, std::span<const TokenId> tokens, size_t chunk) {
  TestSequence sequence(model);
  std::vector<float> all;
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const auto rows =
        sequence.step(tokens.subspan(begin, std::min(chunk, tokens.size() - begin)), model::LogitsWanted::kAll);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

/// The largest NMSE over all positions for which the reference has logits.
inline double worst_nmse(Model& model, const Prompt& run) {
  const int64_t vocabulary = model.runner().vocabulary();
  const std::vector<float> logits = logits_of(model, run.tokens, kRowsMax);
  double worst = 0;
  for (size_t i = 0; i < run.positions.size(); ++i) {
    const auto row = std::span(logits).subspan(run.positions[i] * vocabulary, vocabulary);
    worst = std::max(worst, nmse(row, run.logits[i]));
  }
  return worst;
}

/// The model's greedy continuation of the run's prompt, with as many tokens as the reference.
inline std::vector<TokenId> greedy_continuation(Model& model, const Prompt& run) {
  TestSequence sequence(model);
  std::vector<float> last = sequence.steps(run.tokens);
  std::vector<TokenId> greedy;
  for (size_t i = 0; i < run.greedy.size(); ++i) {
    greedy.push_back(largest(last));
    last = sequence.step(std::span(&greedy.back(), 1), model::LogitsWanted::kLast);
  }
  return greedy;
}

/// Logits of `tokens` in pieces of changing size beside eight other sequences in all phases: long prompts, short ones,
/// single decoded tokens.
inline std::vector<float> logits_among_others(Model& model, std::span<const TokenId> tokens) {
  constexpr uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  const auto token = [&] { return TokenId{static_cast<int32_t>(random() % model.runner().vocabulary())}; };
  std::vector<std::unique_ptr<TestSequence>> others;
  for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<TestSequence>(model));
  TestSequence sequence(model);
  std::vector<float> all;
  while (sequence.position() < static_cast<int32_t>(tokens.size())) {
    std::vector<TokenId> rows;
    std::vector<model::BatchSlice> slices;
    const size_t place = random() % others.size();
    for (size_t i = 0; i < others.size(); ++i) {
      if (i == place) {
        const int32_t left = static_cast<int32_t>(tokens.size()) - sequence.position();
        const int32_t count = std::min<int32_t>(left, 1 + random() % 13);
        rows.insert(rows.end(), tokens.begin() + sequence.position(), tokens.begin() + sequence.position() + count);
        slices.push_back(sequence.slice(static_cast<int32_t>(rows.size()) - count, count, model::LogitsWanted::kAll));
      }
      const int32_t count = others[i]->position() > 0 && random() % 3 != 0 ? 1 : 1 + random() % 21;
      const model::LogitsWanted wanted = random() % 2 == 0 ? model::LogitsWanted::kLast : model::LogitsWanted::kNone;
      slices.push_back(others[i]->slice(static_cast<int32_t>(rows.size()), count, wanted));
      for (int32_t row = 0; row < count; ++row) rows.push_back(token());
    }
    const auto view = model.runner().step({rows, slices, &model.pool()});
    EXPECT_TRUE(view.has_value());
    int64_t row = 0;
    for (const model::BatchSlice& slice : slices) {
      const int64_t count =
          slice.logits == model::LogitsWanted::kAll ? slice.rows : slice.logits == model::LogitsWanted::kLast;
      const auto values = view->values.subspan(row * view->vocabulary, count * view->vocabulary);
      if (slice.logits == model::LogitsWanted::kAll) all.insert(all.end(), values.begin(), values.end());
      row += count;
    }
    EXPECT_EQ(row, view->rows());
  }
  return all;
}

inline void expect_same_bytes(std::span<const float> a, std::span<const float> b, std::string_view what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << what;
}

/// A valid GoogleTest name, of letters, digits and underscores.
inline std::string test_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

}  // namespace cairn
