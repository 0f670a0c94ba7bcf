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
#include "sequence.h"

namespace cairn::gpu {

inline constexpr int32_t kStepRows = 256;
inline constexpr int32_t kPoolPages = 128;
/// Maximum difference between logits of GPU and CPU with float32 weights, relative to the largest logit.
inline constexpr double kBoundF32 = 1e-4;

/// A name with a folder, or one of models/.
inline std::filesystem::path fixture_path(const std::string& name) {
  return name.find('/') == std::string::npos ? test_data("/models/") + name : test_data("/") + name;
}
inline std::filesystem::path model_path(const std::string& name) { return fixture_path(name + ".gguf"); }
inline std::filesystem::path reference_path(const std::string& name) { return fixture_path(name + ".ref.json"); }

class Model {
 public:
  /// `earlier`: stages on other backends, before that of `backend`.
  Model(const gguf::Reader& file, kernels::Backend& backend, int32_t context,
        kernels::KvType kv_type = kernels::KvType::kF32, const std::vector<model::PipelineStage>& earlier = {})
      : Model(file, backend,
              // The references were made without the rounding.
              {.context_tokens = context, .kv_type = kv_type, .simulate_rounding = false}, earlier) {}
  /// With as many rows as all tests here need.
  Model(const gguf::Reader& file, kernels::Backend& backend, model::ModelOptions options,
        std::vector<model::PipelineStage> stages = {}) {
    options.batch_tokens_max = options.logits_max = kStepRows;
    stages.push_back({&backend, 0});
    runner_ = model::load_model(file, stages, options).value();
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), kPoolPages);
    std::vector<kernels::DeviceMemory*> devices;
    for (const model::PipelineStage& stage : stages) devices.push_back(stage.backend);
    pool_ = std::make_unique<cache::PagePool>(cache::PagePool::create(devices, runner_->kv_layout(), pages).value());
  }

  model::Runner& runner() { return *runner_; }
  cache::PagePool& pool() { return *pool_; }
  int64_t vocabulary() const { return runner_->vocabulary(); }

 private:
  std::unique_ptr<model::Runner> runner_;
  std::unique_ptr<cache::PagePool> pool_;
};

/// Logits of all rows.
inline std::vector<float> logits_of(Model& model, std::span<const TokenId> tokens, size_t chunk) {
  TestSequence sequence(model);
  std::vector<float> all;
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(chunk, tokens.size()))) {
    const std::vector<float> rows = sequence.step(tokens.first(std::min(chunk, tokens.size())));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

/// Logits of all rows, in pieces of changing size beside seven other sequences that begin with the same tokens and then
/// differ.
inline std::vector<float> logits_among_others(Model& model, std::span<const TokenId> tokens) {
  TestSequence sequence(model);
  std::vector<std::unique_ptr<TestSequence>> others;
  for (int i = 0; i < 7; ++i) others.push_back(std::make_unique<TestSequence>(model));
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size();) {
    const size_t count = std::min(1 + at % 11, tokens.size() - at);
    std::vector<TokenId> rows;
    std::vector<model::BatchSlice> slices;
    for (size_t i = 0; i < others.size(); ++i) {
      slices.push_back(others[i]->slice(static_cast<int32_t>(rows.size()), 1));
      rows.push_back(tokens[(at + i) % tokens.size()]);
    }
    const size_t first = rows.size();
    slices.push_back(sequence.slice(static_cast<int32_t>(first), static_cast<int32_t>(count)));
    const auto own_tokens = tokens.subspan(at, count);
    rows.insert(rows.end(), own_tokens.begin(), own_tokens.end());
    const auto view = model.runner().step({rows, slices, &model.pool()});
    EXPECT_TRUE(view.has_value()) << view.error().text();
    const auto own = view->values.subspan(first * static_cast<size_t>(view->vocabulary));
    all.insert(all.end(), own.begin(), own.end());
    at += count;
  }
  return all;
}

inline std::vector<TokenId> greedy(Model& model, const Prompt& prompt) {
  TestSequence sequence(model);
  std::vector<float> row = sequence.steps(prompt.tokens);
  std::vector<TokenId> written;
  while (written.size() < prompt.greedy.size()) {
    written.push_back(largest(row));
    row = sequence.step({&written.back(), 1});
  }
  return written;
}

inline Reference reference_of(const std::string& name) {
  Reference reference = read_reference(reference_path(name));
  if (kEmulated) {
    reference.runs.erase(reference.runs.begin(), reference.runs.end() - 1);  // keeps the longest prompt
    reference.runs[0].greedy.resize(4);
  }
  return reference;
}

}  // namespace cairn::gpu
