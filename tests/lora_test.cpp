// LoRA adapters: the logits are those of a model whose matrices hold the adapters' products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "deepseek41/model_file.h"
#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "golden_model.h"
#include "lora_files.h"
#include "quant/float_formats.h"

namespace cairn {
namespace {

gguf::Reader open(const std::string& model) { return gguf::Reader::open(fixture(model)).value(); }

/// For all matrices of the layers and the table of tokens.
std::vector<AddedTensor> all_parts_of(const gguf::Reader& file, int64_t rank, float scale,
                                      std::vector<AddedTensor>& merged) {
  std::vector<AddedTensor> parts = parts_of(file, rank, scale, merged);
  add_table_parts(file, rank, scale, parts, merged);
  return parts;
}

class Lora : public testing::TestWithParam<const char*> {
 protected:
  Lora() {
    if (GetParam() == std::string("deepseek41")) made_ = std::make_unique<deepseek41::ModelFile>();
  }
  std::string file() const { return made_ ? made_->path().string() : std::string("models/") + GetParam() + ".gguf"; }
  std::vector<TokenId> tokens(size_t count) const {
    if (!made_) {
      auto own = read_reference(fixture(std::string("models/") + GetParam() + ".ref.json")).runs.front().tokens;
      own.resize(count);
      return own;
    }
    std::vector<TokenId> own;
    std::mt19937 random(7);
    while (own.size() < count) own.push_back(TokenId{static_cast<int32_t>(random() % 96)});
    return own;
  }

 private:
  std::unique_ptr<deepseek41::ModelFile> made_;
};

TEST_P(Lora, TwoAdaptersGiveTheLogitsOfAModelWithTheirProductsInItsMatrices) {
  const gguf::Reader base = open(file());
  const std::string architecture(base.metadata().string("general.architecture").value());
  std::vector<AddedTensor> merged;
  const AdapterFile four("lora_four", architecture, all_parts_of(base, 4, 0.02f, merged));
  const AdapterFile one("lora_one", architecture, all_parts_of(base, 1, -0.05f, merged));
  const EditedModel edited(fixture(file()), "merged", merged, [](gguf::Writer&) {});
  const std::vector<model::LoraFile> files = {{four.path(), 0.02f}, {one.path(), -0.05f}};
  const std::vector<model::LoraAdapter> adapters = model::open_lora_adapters(files, architecture).value();
  const std::vector<TokenId> text = this->tokens(40);
  const std::span<const TokenId> tokens = text;
  for (const std::string& isa : isas()) {
    Model adapted(file(), 64, isa, 2, kernels::KvType::kF32, false, adapters), whole(edited.path(), 64, isa, 1);
    Model plain(file(), 64, isa, 1);
    const std::vector<float> logits = logits_of(adapted, tokens, kRowsMax);
    EXPECT_LE(nmse(logits, logits_of(whole, tokens, kRowsMax)), 1e-9) << isa;
    EXPECT_GE(nmse(logits, logits_of(plain, tokens, kRowsMax)), 1e-4) << isa << ": the adapters change something";
    expect_same_bytes(logits, logits_of(adapted, tokens, 3), "chunks of 3");
    expect_same_bytes(logits, logits_among_others(adapted, tokens), "among others");
  }
}

// Scales of one batch; an adapter with a scale of 0 is as if it were not there.
TEST_P(Lora, EachSequenceOfABatchTakesTheAdaptersByItsOwnScales) {
  const gguf::Reader base = open(file());
  const std::string architecture(base.metadata().string("general.architecture").value());
  std::vector<AddedTensor> merged;
  const AdapterFile four("lora_four", architecture, all_parts_of(base, 4, 1, merged));
  const AdapterFile one("lora_one", architecture, all_parts_of(base, 1, 1, merged));
  const auto adapters_of = [&](float first, float second) {
    const std::vector<model::LoraFile> files = {{four.path(), first}, {one.path(), second}};
    return model::open_lora_adapters(files, architecture).value();
  };
  const auto loaded = adapters_of(1, 0.25f);
  Model together(file(), 64, "", 2, kernels::KvType::kF32, false, loaded);
  const std::vector<TokenId> text = this->tokens(30);
  const std::span<const TokenId> tokens = text;
  const std::vector<std::vector<float>> scales = {{0.02f, -0.05f}, {}, {0, 0}, {1, 0}, {0, -0.5f}};
  std::vector<std::unique_ptr<TestSequence>> sequences;
  std::vector<std::vector<float>> logits(scales.size());
  for (size_t i = 0; i < scales.size(); ++i) sequences.push_back(std::make_unique<TestSequence>(together));
  for (size_t begin = 0; begin < tokens.size(); begin += 10) {
    std::vector<TokenId> rows;
    std::vector<model::BatchSlice> slices;
    for (size_t i = 0; i < scales.size(); ++i) {
      // Logits of the last rows only, but for one sequence: the rows that go on are not those of the batch.
      const model::LogitsWanted wanted = i == 1 ? model::LogitsWanted::kAll : model::LogitsWanted::kLast;
      slices.push_back(sequences[i]->slice(static_cast<int32_t>(rows.size()), 10, wanted));
      slices.back().adapter_scales = scales[i];
      rows.insert(rows.end(), tokens.begin() + begin, tokens.begin() + begin + 10);
    }
    const auto view = together.runner().step({rows, slices, &together.pool()}).value();
    for (size_t i = 0, row = 0; i < scales.size(); row += i == 1 ? 10 : 1, ++i) {
      const auto last = view.row(static_cast<int64_t>(row) + (i == 1 ? 9 : 0));
      logits[i].insert(logits[i].end(), last.begin(), last.end());
    }
  }
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto own = scales[i].empty() ? adapters_of(1, 0.25f) : adapters_of(scales[i][0], scales[i][1]);
    const bool plain = i == 2;
    Model alone(file(), 64, "", 1, kernels::KvType::kF32, false, plain ? std::span<const model::LoraAdapter>() : own);
    TestSequence sequence(alone);
    std::vector<float> expected;
    for (size_t begin = 0; begin < tokens.size(); begin += 10) {
      const std::vector<float> last = sequence.step(tokens.subspan(begin, 10), model::LogitsWanted::kLast);
      expected.insert(expected.end(), last.begin(), last.end());
    }
    expect_same_bytes(logits[i], expected, "sequence " + std::to_string(i));
  }
}

// Matrices of their own, of experts, of heads and of groups; several in one tensor (q, k and v; gate and up; a query
// and its gate); tables that are the output too, and whose rows are scaled.
INSTANTIATE_TEST_SUITE_P(Models, Lora,
                         testing::Values("llama-bias", "llama-moe", "phi3", "qwen3", "llama-tied-llama3rope", "granite",
                                         "qwen35", "deepseek2", "deepseek2-nomla", "deepseek4", "deepseek4-hash",
                                         "deepseek41"),
                         [](const auto& model) { return test_name(model.param); });

/// The tensor in blocks of 32 numbers of eight bits (Q8_0), and `values` as those have them.
std::vector<std::byte> in_eight_bits(AddedTensor& tensor) {
  std::vector<std::byte> bytes(tensor.values.size() / 32 * 34);
  constexpr float kScale = 1.0f / 64;
  const uint16_t half = quant::float_to_half(kScale);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    std::byte* block = bytes.data() + i / 32 * 34;
    if (i % 32 == 0) std::memcpy(block, &half, sizeof half);
    const auto number = static_cast<int8_t>(std::lround(tensor.values[i] / kScale));
    block[2 + i % 32] = static_cast<std::byte>(number);
    tensor.values[i] = static_cast<float>(number) * kScale;
  }
  return bytes;
}

// Of quantised parts, whose inputs are rounded. A GPU would stop here if their working memory had not been reserved.
TEST(LoraRank, ARankLargerThanAllRowsOfTheModelIsComputed) {
  constexpr int64_t kRank = 8192;
  const std::string file = "models/llama.gguf";
  AddedTensor parts[] = {random_tensor("blk.0.attn_q.weight.lora_a", {64, kRank}, 1),
                         random_tensor("blk.0.attn_q.weight.lora_b", {kRank, 128}, 2)};
  const auto path =
      std::filesystem::temp_directory_path() / ("lora_eight_bits." + std::to_string(::getpid()) + ".gguf");
  {
    auto writer = gguf::Writer::create(path);
    ASSERT_TRUE(writer.has_value());
    writer->set("general.type", {gguf::ValueType::kString, std::string_view("adapter")});
    writer->set("general.architecture", {gguf::ValueType::kString, std::string_view("llama")});
    writer->set("adapter.type", {gguf::ValueType::kString, std::string_view("lora")});
    writer->set("adapter.lora.alpha", {gguf::ValueType::kF32, double{kLoraAlpha}});
    for (const AddedTensor& part : parts) writer->declare(part.name, TensorType::kQ8_0, part.shape);
    for (AddedTensor& part : parts) ASSERT_TRUE(writer->write(in_eight_bits(part)).has_value());
    ASSERT_TRUE(writer->finish().has_value());
  }
  const AdapterFile plain("lora_plain", "llama", {parts[0], parts[1]});
  const std::vector<model::LoraFile> files[] = {{{path.string(), 0.5f}}, {{plain.path(), 0.5f}}};
  const auto rounded = model::open_lora_adapters(files[0], "llama").value(),
             exact = model::open_lora_adapters(files[1], "llama").value();
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kRowsMax; ++i) tokens.push_back(TokenId{i * 7 % 300});
  Model a(file, kRowsMax, "", 2, kernels::KvType::kF32, false, rounded),
      b(file, kRowsMax, "", 2, kernels::KvType::kF32, false, exact);
  const std::vector<float> logits = logits_of(a, tokens, kRowsMax);
  EXPECT_LE(nmse(logits, logits_of(b, tokens, kRowsMax)), 1e-3);
  expect_same_bytes(logits, logits_of(a, tokens, 50), "chunks of 50");
  std::filesystem::remove(path);
}

// As in llama.cpp: products of rank 4 are then as they are with an alpha of 4.
TEST(LoraAlpha, WithoutAnAlphaTheScaleAloneCounts) {
  const std::string file = "models/llama.gguf";
  const std::vector<AddedTensor> parts = {random_tensor("blk.0.attn_q.weight.lora_a", {64, 4}, 1),
                                          random_tensor("blk.0.attn_q.weight.lora_b", {4, 128}, 2)};
  const AdapterFile four("lora_four", "llama", parts, "lora", 4),
      none("lora_none", "llama", parts, "lora", std::nullopt), zero("lora_zero", "llama", parts, "lora", 0);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < 20; ++i) tokens.push_back(TokenId{i * 7 % 300});
  std::vector<std::vector<float>> logits;
  for (const AdapterFile* each : {&four, &none, &zero}) {
    const model::LoraFile one{each->path(), 0.5F};
    const auto adapters = model::open_lora_adapters({&one, 1}, "llama").value();
    Model model(file, kRowsMax, "", 2, kernels::KvType::kF32, false, adapters);
    logits.push_back(logits_of(model, tokens, kRowsMax));
  }
  expect_same_bytes(logits[0], logits[1], "no alpha");
  expect_same_bytes(logits[0], logits[2], "an alpha of 0");
  Model plain(file, kRowsMax, "", 2);
  EXPECT_GT(nmse(logits[0], logits_of(plain, tokens, kRowsMax)), 1e-6);
}

class LoraEngine : public testing::Test {
 protected:
  using Wanted = std::optional<std::vector<engine::AdapterScale>>;
  static Wanted only(std::vector<engine::AdapterScale> scales) { return scales; }

  LoraEngine() {
    std::vector<AddedTensor> merged;
    const auto add = [&](const std::string& name, int64_t rank) {
      files_.push_back(std::make_unique<AdapterFile>(name, "llama", parts_of(model_, rank, 1, merged)));
    };
    add("lora_first", 4);
    add("lora_second", 1);
    const std::vector<model::LoraFile> files = {{files_[0]->path(), 1}, {files_[1]->path(), 1}};
    adapters_ = model::open_lora_adapters(files, "llama").value();
    backend_ = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    runner_ = model::load_model(model_, *backend_, {.context_tokens = 256, .adapters = adapters_}).value();
    for (int32_t i = 0; i < 80; ++i) prompt_.push_back(TokenId{3 + i * 7 % 290});
  }
  std::unique_ptr<engine::Engine> serve(const std::function<void(engine::EngineOptions&)>& change =
                                            [](engine::EngineOptions&) {}) {
    engine::EngineOptions options;
    change(options);
    options.kv_pages = {64};
    options.adapter_scales = {1, 1};
    return engine::Engine::create(*runner_, *backend_, *tokenizer_, options).value();
  }
  engine::GenerateRequest request(const Wanted& wanted) const {
    engine::GenerateRequest request;
    request.prompt = prompt_;
    request.max_tokens = 24;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    request.adapters = wanted;
    return request;
  }
  engine::Answer ask(engine::Engine& engine, const Wanted& wanted) const {
    return engine::collect(*engine.submit(request(wanted)).value());
  }

  const gguf::Reader model_ = open("models/llama.gguf");
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::Tokenizer::load(model_.metadata()).value();
  std::vector<std::unique_ptr<AdapterFile>> files_;
  std::vector<model::LoraAdapter> adapters_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Runner> runner_;
  std::vector<TokenId> prompt_;
  const std::vector<Wanted> wanted_ = {std::nullopt, only({}), only({{0, 1}}), only({{1, -0.5f}, {0, 0.25f}})};
};

TEST_F(LoraEngine, RequestsOfDifferentScalesRunTogetherAndShareNoPages) {
  std::vector<std::vector<TokenId>> expected;
  {
    const auto alone = serve([](engine::EngineOptions& options) {
      options.sequences_max = 1;
      options.prefix_cache = false;
    });
    for (const Wanted& wanted : wanted_) expected.push_back(ask(*alone, wanted).tokens);
  }
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_NE(expected[i], expected[i - 1]);
  const auto engine = serve();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const engine::Answer answer = ask(*engine, wanted_[i]);
    EXPECT_EQ(answer.tokens, expected[i]) << i;
    EXPECT_EQ(answer.finish.usage.cached_tokens, 0) << i;
  }
  for (size_t i = 0; i < wanted_.size(); ++i) EXPECT_GT(ask(*engine, wanted_[i]).finish.usage.cached_tokens, 32) << i;
  const auto crowded = serve([](engine::EngineOptions& options) { options.prefill_chunk_max = 7; });
  std::vector<std::unique_ptr<engine::GenerateStream>> streams;
  for (size_t i = 0; i < 3 * wanted_.size(); ++i)
    streams.push_back(crowded->submit(request(wanted_[i % wanted_.size()])).value());
  const std::vector<engine::Answer> answers = engine::collect_together(streams);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i % wanted_.size()]) << i;
}

TEST_F(LoraEngine, ScalesThatAreSetAreThoseOfRequestsThatComeLater) {
  const auto engine = serve();
  EXPECT_EQ(engine->adapter_scales(), (std::vector<float>{1, 1}));
  const std::vector<TokenId> first = ask(*engine, std::nullopt).tokens, none = ask(*engine, only({})).tokens;
  const std::vector<TokenId> half = ask(*engine, only({{1, 0.5f}})).tokens;
  auto running = engine->submit(request(std::nullopt)).value();
  const engine::AdapterScale one[] = {{1, 0.25f}, {1, 0.5f}};
  ASSERT_TRUE(engine->set_adapter_scales(one).has_value());
  EXPECT_EQ(engine->adapter_scales(), (std::vector<float>{0, 0.5f}));
  EXPECT_EQ(engine::collect(*running).tokens, first);
  const engine::Answer later = ask(*engine, std::nullopt);
  EXPECT_EQ(later.tokens, half);
  EXPECT_GT(later.finish.usage.cached_tokens, 0) << "pages of a request that named these scales";
  ASSERT_TRUE(engine->set_adapter_scales({}).has_value());
  EXPECT_EQ(ask(*engine, std::nullopt).tokens, none);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const engine::AdapterScale& wrong :
       {engine::AdapterScale{2, 1}, engine::AdapterScale{0, 1'001}, engine::AdapterScale{0, nan}}) {
    const auto set = engine->set_adapter_scales({&wrong, 1});
    ASSERT_FALSE(set.has_value());
    EXPECT_EQ(set.error().at, "lora[0]");
    EXPECT_EQ(engine->submit(request(only({wrong}))).error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(engine->adapter_scales(), (std::vector<float>{0, 0}));
}

class LoraErrors : public testing::Test {
 protected:
  /// The error of opening the adapter, or of loading the model with it.
  std::string error_of(const std::string& path) {
    const std::vector<model::LoraFile> files = {{path, 1}};
    const auto adapters = model::open_lora_adapters(files, "llama");
    if (!adapters.has_value()) return adapters.error().text();
    const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = "generic"}).value();
    const auto loaded = model::load_model(model_, *backend, {.context_tokens = 64, .adapters = *adapters});
    return loaded.has_value() ? "" : loaded.error().text();
  }
  std::string error_with(const std::vector<AddedTensor>& tensors, const std::string& architecture = "llama",
                         const std::string& type = "lora") {
    const AdapterFile file("lora_wrong", architecture, tensors, type);
    return error_of(file.path());
  }
  static AddedTensor part(const std::string& name, std::vector<int64_t> shape) {
    return random_tensor(name, std::move(shape), 1);
  }
  const gguf::Reader model_ = open("models/llama.gguf");
};

TEST_F(LoraErrors, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(error_with({part("blk.0.attn_q.weight.lora_a", {64, 2}), part("blk.0.attn_q.weight.lora_b", {2, 128})}),
            "");
  EXPECT_THAT(error_with({part("blk.0.attn_q.weight.lora_a", {64, 2})}),
              testing::HasSubstr("tensor blk.0.attn_q.weight.lora_b is missing"));
  EXPECT_THAT(error_with({part("blk.0.attn_q.weight.lora_a", {64, 2}), part("blk.0.attn_q.weight.lora_b", {3, 64})}),
              testing::HasSubstr("are no product for a matrix of 64 columns, 128 rows"));
  EXPECT_THAT(error_with({part("blk.77.attn_q.weight.lora_a", {64, 2}), part("blk.77.attn_q.weight.lora_b", {2, 64})}),
              testing::HasSubstr("tensor blk.77.attn_q.weight.lora_a belongs to no matrix"));
  EXPECT_EQ(error_with({part("token_embd.weight.lora_a", {2, 316}), part("token_embd.weight.lora_b", {2, 64})}), "");
  EXPECT_THAT(error_with({part("token_embd.weight.lora_a", {64, 2}), part("token_embd.weight.lora_b", {2, 316})}),
              testing::HasSubstr("are no product for a table of 316 rows of 64 elements"));
  EXPECT_THAT(error_with({part("blk.0.attn_norm.weight", {64})}), testing::HasSubstr("no part of a low-rank product"));
}

TEST_F(LoraErrors, OtherKindsOfFilesAreNamed) {
  EXPECT_THAT(error_with({}, "qwen2"), testing::HasSubstr("of architecture \"qwen2\", but the model's is \"llama\""));
  EXPECT_THAT(error_with({}, "llama", "control_vector"), testing::HasSubstr("of kind \"control_vector\""));
  EXPECT_THAT(error_of(fixture("models/llama.gguf").string()), testing::HasSubstr("is no LoRA adapter"));
  EXPECT_THAT(error_of("/nowhere.gguf"), testing::HasSubstr("/nowhere.gguf"));
}

}  // namespace
}  // namespace cairn
