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
#include <string>
#include <vector>

#include "edited_model.h"
#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "golden_model.h"
#include "quant/float_formats.h"

namespace cairn {
namespace {

constexpr float kAlpha = 3;

/// A file in the folder for temporary files, removed with the object.
class AdapterFile {
 public:
  AdapterFile(const std::string& name, const std::string& architecture, const std::vector<AddedTensor>& tensors,
              const std::string& type = "lora")
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(::getpid()) + ".gguf")) {
    auto writer = gguf::Writer::create(path_);
    EXPECT_TRUE(writer.has_value());
    writer->set("general.type", {gguf::ValueType::kString, std::string_view("adapter")});
    writer->set("general.architecture", {gguf::ValueType::kString, std::string_view(architecture)});
    writer->set("adapter.type", {gguf::ValueType::kString, std::string_view(type)});
    writer->set("adapter.lora.alpha", {gguf::ValueType::kF32, double{kAlpha}});
    for (const AddedTensor& tensor : tensors) writer->declare(tensor.name, TensorType::kF32, tensor.shape);
    for (const AddedTensor& tensor : tensors)
      EXPECT_TRUE(writer->write(std::as_bytes(std::span(tensor.values))).has_value());
    EXPECT_TRUE(writer->finish().has_value());
  }
  ~AdapterFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

gguf::Reader open(const std::string& model) { return gguf::Reader::open(fixture(model)).value(); }

/// For all matrices of the layers: parts of rank `rank` and, in `merged`, the matrix with `scale` times their product.
std::vector<AddedTensor> parts_of(const gguf::Reader& file, int64_t rank, float scale,
                                  std::vector<AddedTensor>& merged) {
  std::vector<AddedTensor> parts;
  uint32_t seed = static_cast<uint32_t>(rank);
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.shape.size() < 2 || !tensor.name.starts_with("blk.")) continue;
    const int64_t cols = tensor.shape[0], rows = tensor.shape[1];
    const int64_t experts = tensor.shape.size() == 3 ? tensor.shape[2] : 1;
    const std::string name(tensor.name);
    const std::vector<int64_t> more = tensor.shape.size() == 3 ? std::vector{experts} : std::vector<int64_t>{};
    std::vector<int64_t> shape_a{cols, rank}, shape_b{rank, rows};
    shape_a.insert(shape_a.end(), more.begin(), more.end());
    shape_b.insert(shape_b.end(), more.begin(), more.end());
    const AddedTensor a = random_tensor(name + ".lora_a", shape_a, ++seed);
    const AddedTensor b = random_tensor(name + ".lora_b", shape_b, ++seed);
    auto found = std::ranges::find(merged, name, &AddedTensor::name);
    if (found == merged.end()) {
      found = merged.insert(merged.end(), {name, tensor.shape, std::vector<float>(tensor.elements())});
      std::memcpy(found->values.data(), tensor.bytes.data(), tensor.bytes.size());
    }
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; col < cols; ++col) {
          double sum = 0;
          for (int64_t r = 0; r < rank; ++r)
            sum += double{b.values[(e * rows + row) * rank + r]} * a.values[(e * rank + r) * cols + col];
          found->values[(e * rows + row) * cols + col] += static_cast<float>(scale * kAlpha / rank * sum);
        }
      }
    }
    parts.push_back(a);
    parts.push_back(b);
  }
  return parts;
}

class Lora : public testing::TestWithParam<const char*> {
 protected:
  std::string file() const { return std::string("models/") + GetParam() + ".gguf"; }
};

TEST_P(Lora, TwoAdaptersGiveTheLogitsOfAModelWithTheirProductsInItsMatrices) {
  const gguf::Reader base = open(file());
  const std::string architecture(base.metadata().string("general.architecture").value());
  std::vector<AddedTensor> merged;
  const AdapterFile four("lora_four", architecture, parts_of(base, 4, 0.02f, merged));
  const AdapterFile one("lora_one", architecture, parts_of(base, 1, -0.05f, merged));
  const EditedModel edited(fixture(file()), "merged", merged, [](gguf::Writer&) {});
  const std::vector<LoraFile> files = {{four.path(), 0.02f}, {one.path(), -0.05f}};
  const std::vector<LoraAdapter> adapters = open_lora_adapters(files, architecture).value();
  const Reference reference = read_reference(fixture(std::string("models/") + GetParam() + ".ref.json"));
  const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(40);
  for (const std::string& isa : isas()) {
    Model adapted(file(), 64, isa, 2, KvType::kF32, false, adapters), whole(edited.path(), 64, isa, 1);
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
  const AdapterFile four("lora_four", architecture, parts_of(base, 4, 1, merged));
  const AdapterFile one("lora_one", architecture, parts_of(base, 1, 1, merged));
  const auto adapters_of = [&](float first, float second) {
    const std::vector<LoraFile> files = {{four.path(), first}, {one.path(), second}};
    return open_lora_adapters(files, architecture).value();
  };
  const auto loaded = adapters_of(1, 0.25f);
  Model together(file(), 64, "", 2, KvType::kF32, false, loaded);
  const Reference reference = read_reference(fixture(std::string("models/") + GetParam() + ".ref.json"));
  const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(30);
  const std::vector<std::vector<float>> scales = {{0.02f, -0.05f}, {}, {0, 0}, {1, 0}, {0, -0.5f}};
  std::vector<std::unique_ptr<TestSequence>> sequences;
  std::vector<std::vector<float>> logits(scales.size());
  for (size_t i = 0; i < scales.size(); ++i) sequences.push_back(std::make_unique<TestSequence>(together));
  for (size_t begin = 0; begin < tokens.size(); begin += 10) {
    std::vector<TokenId> rows;
    std::vector<BatchSlice> slices;
    for (size_t i = 0; i < scales.size(); ++i) {
      // Logits of the last rows only, but for one sequence: the rows that go on are not those of the batch.
      const LogitsWanted wanted = i == 1 ? LogitsWanted::kAll : LogitsWanted::kLast;
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
    Model alone(file(), 64, "", 1, KvType::kF32, false, plain ? std::span<const LoraAdapter>() : own);
    TestSequence sequence(alone);
    std::vector<float> expected;
    for (size_t begin = 0; begin < tokens.size(); begin += 10) {
      const std::vector<float> last = sequence.step(tokens.subspan(begin, 10), LogitsWanted::kLast);
      expected.insert(expected.end(), last.begin(), last.end());
    }
    expect_same_bytes(logits[i], expected, "sequence " + std::to_string(i));
  }
}

// Matrices of their own, of experts, and several in one tensor (q, k and v; gate and up).
INSTANTIATE_TEST_SUITE_P(Models, Lora, testing::Values("llama-bias", "llama-moe", "phi3", "qwen3"));

/// The tensor in blocks of 32 numbers of eight bits (Q8_0), and `values` as those have them.
std::vector<std::byte> in_eight_bits(AddedTensor& tensor) {
  std::vector<std::byte> bytes(tensor.values.size() / 32 * 34);
  constexpr float kScale = 1.0f / 64;
  const uint16_t half = float_to_half(kScale);
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
    writer->set("adapter.lora.alpha", {gguf::ValueType::kF32, double{kAlpha}});
    for (const AddedTensor& part : parts) writer->declare(part.name, TensorType::kQ8_0, part.shape);
    for (AddedTensor& part : parts) ASSERT_TRUE(writer->write(in_eight_bits(part)).has_value());
    ASSERT_TRUE(writer->finish().has_value());
  }
  const AdapterFile plain("lora_plain", "llama", {parts[0], parts[1]});
  const std::vector<LoraFile> files[] = {{{path.string(), 0.5f}}, {{plain.path(), 0.5f}}};
  const auto rounded = open_lora_adapters(files[0], "llama").value(),
             exact = open_lora_adapters(files[1], "llama").value();
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kRowsMax; ++i) tokens.push_back(TokenId{i * 7 % 300});
  Model a(file, kRowsMax, "", 2, KvType::kF32, false, rounded), b(file, kRowsMax, "", 2, KvType::kF32, false, exact);
  const std::vector<float> logits = logits_of(a, tokens, kRowsMax);
  EXPECT_LE(nmse(logits, logits_of(b, tokens, kRowsMax)), 1e-3);
  expect_same_bytes(logits, logits_of(a, tokens, 50), "chunks of 50");
  std::filesystem::remove(path);
}

// The rows that an MTP module reads after a step are not those of its logits.
TEST(LoraMtp, LogitsAndDraftsAreThoseOfTheSequencesOwnScales) {
  const std::string file = "models/glm4moe-mtp.gguf";
  const gguf::Reader base = open(file);
  std::vector<AddedTensor> parts;
  for (const gguf::Tensor& tensor : base.tensors()) {
    if (!tensor.name.ends_with("attn_q.weight") && !tensor.name.ends_with("attn_v.weight")) continue;
    const std::string name(tensor.name);
    parts.push_back(random_tensor(name + ".lora_a", {tensor.shape[0], 2}, 1));
    parts.push_back(random_tensor(name + ".lora_b", {2, tensor.shape[1]}, 2));
  }
  const AdapterFile adapter("lora_mtp", "glm4moe", parts);
  const std::vector<TokenId> tokens = {TokenId{1}, TokenId{7}, TokenId{20}, TokenId{3}, TokenId{11}, TokenId{200}};
  // Logits of the last token, and of a draft behind it, of a sequence beside another one.
  const auto outputs = [&](float scale, std::vector<float> own, std::vector<float> others) {
    const std::vector<LoraFile> files = {{adapter.path(), scale}};
    const auto adapters = open_lora_adapters(files, "glm4moe").value();
    const auto backend = make_cpu_backend({.threads = 1, .isa = ""}).value();
    const auto runner =
        load_model(base, *backend, {.context_tokens = 64, .adapters = adapters, .load_mtp = true}).value();
    EXPECT_TRUE(runner->has_mtp());
    const std::vector<int32_t> pages(runner->kv_layout().groups.size(), 8);
    PagePool pool = PagePool::create(*backend, runner->kv_layout(), pages).value();
    struct {
      Runner& of;
      PagePool& pages;
      Runner& runner() { return of; }
      PagePool& pool() { return pages; }
    } model{*runner, pool};
    TestSequence first(model), second(model);
    std::vector<TokenId> rows = tokens;
    rows.insert(rows.end(), tokens.rbegin(), tokens.rend());
    const auto count = static_cast<int32_t>(tokens.size());
    BatchSlice slices[] = {first.slice(0, count, LogitsWanted::kAll), second.slice(count, count, LogitsWanted::kLast)};
    slices[0].adapter_scales = others;
    slices[1].adapter_scales = own;
    const auto step = runner->step({rows, slices, &pool}).value();
    std::vector<float> out(step.row(count).begin(), step.row(count).end());
    BatchSlice drafts[] = {first.slice(0, 1, LogitsWanted::kLast), second.slice(1, 1, LogitsWanted::kLast)};
    drafts[0].adapter_scales = others;
    drafts[1].adapter_scales = own;
    const TokenId next[] = {TokenId{5}, TokenId{6}};
    const auto draft = runner->mtp_step({next, drafts, &pool}).value();
    out.insert(out.end(), draft.row(1).begin(), draft.row(1).end());
    return out;
  };
  const std::vector<float> expected = outputs(0.5f, {}, {});
  expect_same_bytes(outputs(1, {0.5f}, {0}), expected, "beside one without the adapter");
  expect_same_bytes(outputs(0, {0.5f}, {-2}), expected, "beside one with another scale");
  EXPECT_GE(nmse(outputs(1, {0.5f}, {0.5f}), outputs(1, {0}, {0.5f})), 1e-6) << "the adapter changes something";
}

class LoraEngine : public testing::Test {
 protected:
  using Wanted = std::optional<std::vector<AdapterScale>>;
  static Wanted only(std::vector<AdapterScale> scales) { return scales; }

  LoraEngine() {
    std::vector<AddedTensor> merged;
    const auto add = [&](const std::string& name, int64_t rank) {
      files_.push_back(std::make_unique<AdapterFile>(name, "llama", parts_of(model_, rank, 1, merged)));
    };
    add("lora_first", 4);
    add("lora_second", 1);
    const std::vector<LoraFile> files = {{files_[0]->path(), 1}, {files_[1]->path(), 1}};
    adapters_ = open_lora_adapters(files, "llama").value();
    backend_ = make_cpu_backend({.threads = 2, .isa = ""}).value();
    runner_ = load_model(model_, *backend_, {.context_tokens = 256, .adapters = adapters_}).value();
    for (int32_t i = 0; i < 80; ++i) prompt_.push_back(TokenId{3 + i * 7 % 290});
  }
  std::unique_ptr<Engine> serve(const std::function<void(EngineOptions&)>& change = [](EngineOptions&) {}) {
    EngineOptions options;
    change(options);
    options.kv_pages = {64};
    options.adapter_scales = {1, 1};
    return Engine::create(*runner_, *backend_, *tokenizer_, options).value();
  }
  GenerateRequest request(const Wanted& wanted) const {
    GenerateRequest request;
    request.prompt = prompt_;
    request.max_tokens = 24;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    request.adapters = wanted;
    return request;
  }
  Answer ask(Engine& engine, const Wanted& wanted) const { return collect(*engine.submit(request(wanted)).value()); }

  const gguf::Reader model_ = open("models/llama.gguf");
  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(model_.metadata()).value();
  std::vector<std::unique_ptr<AdapterFile>> files_;
  std::vector<LoraAdapter> adapters_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Runner> runner_;
  std::vector<TokenId> prompt_;
  const std::vector<Wanted> wanted_ = {std::nullopt, only({}), only({{0, 1}}), only({{1, -0.5f}, {0, 0.25f}})};
};

TEST_F(LoraEngine, RequestsOfDifferentScalesRunTogetherAndShareNoPages) {
  std::vector<std::vector<TokenId>> expected;
  {
    const auto alone = serve([](EngineOptions& options) {
      options.sequences_max = 1;
      options.prefix_cache = false;
    });
    for (const Wanted& wanted : wanted_) expected.push_back(ask(*alone, wanted).tokens);
  }
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_NE(expected[i], expected[i - 1]);
  const auto engine = serve();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const Answer answer = ask(*engine, wanted_[i]);
    EXPECT_EQ(answer.tokens, expected[i]) << i;
    EXPECT_EQ(answer.finish.usage.cached_tokens, 0) << i;
  }
  for (size_t i = 0; i < wanted_.size(); ++i) EXPECT_GT(ask(*engine, wanted_[i]).finish.usage.cached_tokens, 32) << i;
  const auto crowded = serve([](EngineOptions& options) { options.prefill_chunk_max = 7; });
  std::vector<std::unique_ptr<GenerateStream>> streams;
  for (size_t i = 0; i < 3 * wanted_.size(); ++i)
    streams.push_back(crowded->submit(request(wanted_[i % wanted_.size()])).value());
  const std::vector<Answer> answers = collect_together(streams);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i % wanted_.size()]) << i;
}

TEST_F(LoraEngine, ScalesThatAreSetAreThoseOfRequestsThatComeLater) {
  const auto engine = serve();
  EXPECT_EQ(engine->adapter_scales(), (std::vector<float>{1, 1}));
  const std::vector<TokenId> first = ask(*engine, std::nullopt).tokens, none = ask(*engine, only({})).tokens;
  const std::vector<TokenId> half = ask(*engine, only({{1, 0.5f}})).tokens;
  auto running = engine->submit(request(std::nullopt)).value();
  const AdapterScale one[] = {{1, 0.25f}, {1, 0.5f}};
  ASSERT_TRUE(engine->set_adapter_scales(one).has_value());
  EXPECT_EQ(engine->adapter_scales(), (std::vector<float>{0, 0.5f}));
  EXPECT_EQ(collect(*running).tokens, first);
  const Answer later = ask(*engine, std::nullopt);
  EXPECT_EQ(later.tokens, half);
  EXPECT_GT(later.finish.usage.cached_tokens, 0) << "pages of a request that named these scales";
  ASSERT_TRUE(engine->set_adapter_scales({}).has_value());
  EXPECT_EQ(ask(*engine, std::nullopt).tokens, none);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const AdapterScale& wrong : {AdapterScale{2, 1}, AdapterScale{0, 1'001}, AdapterScale{0, nan}}) {
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
    const std::vector<LoraFile> files = {{path, 1}};
    const auto adapters = open_lora_adapters(files, "llama");
    if (!adapters.has_value()) return adapters.error().text();
    const auto backend = make_cpu_backend({.threads = 1, .isa = "generic"}).value();
    const auto loaded = load_model(model_, *backend, {.context_tokens = 64, .adapters = *adapters});
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
  EXPECT_THAT(error_with({part("token_embd.weight.lora_a", {64, 2}), part("token_embd.weight.lora_b", {2, 316})}),
              testing::HasSubstr("token_embd.weight, whose rows are looked up"));
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
