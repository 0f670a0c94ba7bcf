/// For the tests of whole models on a GPU: a model with its pages, and sequences that run through it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "gpu/lab.h"
#include "model/model.h"
#include "reference_logits.h"

namespace cairn::gpu {

inline constexpr int32_t kStepRows = 256;
inline constexpr int32_t kPoolPages = 128;
/// Between logits of the GPU and the processor, of float32 weights, in parts of the largest.
inline constexpr double kBoundF32 = 1e-4;

inline std::filesystem::path model_path(const std::string& name) { return fixtures() / "models" / (name + ".gguf"); }

inline std::filesystem::path reference_path(const std::string& name) {
  return fixtures() / "models" / (name + ".ref.json");
}

class Model {
 public:
  Model(const gguf::Reader& file, Backend& backend, int32_t context, KvType kv_type = KvType::kF32,
        FirstLayers first = {})
      : runner_(load_model(file, backend,
                           {.context_tokens = context,
                            .kv_type = kv_type,
                            .rows_max = kStepRows,
                            .logit_rows_max = kStepRows,
                            .first_layers = first})
                    .value()) {
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), kPoolPages);
    Backend* const backends[] = {&backend, first.backend};
    pool_ = std::make_unique<PagePool>(PagePool::create(backends, runner_->kv_layout(), pages).value());
  }

  Runner& runner() { return *runner_; }
  PagePool& pool() { return *pool_; }
  int64_t vocabulary() const { return runner_->vocabulary(); }

 private:
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<PagePool> pool_;
};

class Sequence {
 public:
  explicit Sequence(Model& model) : model_(model) {}
  ~Sequence() { model_.pool().release(pages_); }
  Sequence(const Sequence&) = delete;

  BatchSlice slice(int32_t row_begin, int32_t rows) {
    EXPECT_TRUE(model_.pool().extend(pages_, position_ + rows));
    const BatchSlice made{SequenceId{}, row_begin, rows, position_, &pages_, LogitsWanted::kAll};
    position_ += rows;
    return made;
  }
  std::vector<float> step(std::span<const TokenId> tokens) {
    const BatchSlice one = slice(0, static_cast<int32_t>(tokens.size()));
    const auto view = model_.runner().step({tokens, std::span(&one, 1), &model_.pool()});
    EXPECT_TRUE(view.has_value()) << view.error().text();
    return {view->values.begin(), view->values.end()};
  }

 private:
  Model& model_;
  PageTable pages_;
  int32_t position_ = 0;
};

/// Of all rows.
inline std::vector<float> logits_of(Model& model, std::span<const TokenId> tokens, size_t chunk) {
  Sequence sequence(model);
  std::vector<float> all;
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(chunk, tokens.size()))) {
    const std::vector<float> rows = sequence.step(tokens.first(std::min(chunk, tokens.size())));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

inline TokenId largest(std::span<const float> logits) {
  return TokenId{static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

inline std::vector<TokenId> greedy(Model& model, const Prompt& prompt) {
  Sequence sequence(model);
  std::vector<float> rows;
  for (size_t at = 0; at < prompt.tokens.size(); at += kStepRows) {
    const size_t count = std::min<size_t>(kStepRows, prompt.tokens.size() - at);
    rows = sequence.step(std::span(prompt.tokens).subspan(at, count));
  }
  std::vector<TokenId> written;
  while (written.size() < prompt.greedy.size()) {
    written.push_back(largest(std::span(rows).last(static_cast<size_t>(model.vocabulary()))));
    rows = sequence.step({&written.back(), 1});
  }
  return written;
}

inline Reference reference_of(const std::string& name) {
  Reference reference = read_reference(reference_path(name));
  if (kEmulated) {
    reference.runs.erase(reference.runs.begin(), reference.runs.end() - 1);  // the longest prompt stays
    reference.runs[0].greedy.resize(4);
  }
  return reference;
}

}  // namespace cairn::gpu
