// Compares files that llama.cpp's own converter wrote from models of transformers (data/make/hf_fixture.py) with what
// transformers itself computes: keys and tensors are those of real files, and the numbers are as a model's authors
// intend. A new architecture is complete when it has a line here. docs/testing.md has more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "edited_model.h"
#include "golden_model.h"
#include "kernels/cpu/cpu_backend.h"

namespace cairn {
namespace {

struct Converted {
  const char* name;
  /// Maximum NMSE of logits. Both sides are float32 and differ in the order of sums.
  double nmse_max = 1e-10;
  /// LongRoPE: transformers uses the short factors until a text is longer than this, an engine if its context is no
  /// longer than this; so shorter texts run with a context of that many tokens.
  int32_t short_context = 0;
};

void PrintTo(const Converted& c, std::ostream* out) { *out << c.name; }

const Converted kDecoders[] = {
    {"llama"},
    {"llama-spm"},
    {"llama-bias"},
    {"llama-tied-llama3rope"},
    {"llama-linear"},
    {"llama-yarn"},
    {"llama-headdim"},
    {"mistral"},
    {"mixtral"},
    {"ministral3"},
    {"qwen2"},
    {"qwen2_moe"},
    {"qwen2-yarn"},
    {"qwen3"},
    {"qwen3_moe"},
    {"gemma"},
    {"gemma2"},
    {"gemma2-27b"},
    {"gemma3"},
    {"gemma3-27b"},
    {"phi3"},
    {"phi3-window"},
    {"phi3-longrope", 1e-10, 128},
    {"phi4-partial"},
    {"phi4-mini-longrope", 1e-10, 128},
    {"smollm3"},
    {"olmo2"},
    {"olmo3"},
    {"granite"},
    {"granitemoe"},
    {"granitemoeshared"},
    {"deepseek_v2"},
    {"deepseek_v2-groups"},
    {"deepseek_v2-lite"},
    {"deepseek_v3"},
    {"deepseek_v3-nogroups"},
    {"deepseek_v32-topk8"},
    {"deepseek_v4"},
    {"deepseek_v4-hash"},
    {"deepseek_v4-yarn"},
    // transformers normalises latent rows with an epsilon of 1e-6, whatever the file's own is (here 1e-5).
    {"glm4_moe_lite", 1e-9},
    {"youtu"},
    {"mistral4"},
    {"cohere"},
    {"cohere2"},
    {"ernie4_5"},
    {"ernie4_5_moe"},
    {"exaone4"},
    {"falcon"},
    {"falcon-40b"},
    {"glm4"},
    {"glm4_moe"},
    {"gpt2"},
    {"hunyuan_v1_dense"},
    {"llama4"},
    {"minimax_m2"},
    {"nemotron"},
    {"olmoe"},
    {"seed_oss"},
    {"stablelm"},
    {"starcoder2"},
    {"qwen3_5"},
    // transformers computes the delta rule in chunks, in float32: from the recurrence in double precision its logits
    // are 5e-10 away where a query is nearly at right angles to its state; ours are 1e-12 away there.
    {"qwen3_5_moe", 1e-9},
    {"qwen3_next", 1e-9},
    {"falcon_h1"},
    {"granite-hybrid-dense"},
    {"granitemoehybrid"},
    {"lfm2"},
    {"lfm2_moe"},
    {"mamba2"},
    {"nemotron_h"},
    {"nemotron_h-moe"},
    {"nemotron_h-latent"},
    {"gpt_oss"},
    // transformers' epsilon of latent rows is 1e-6 here too, and in GLM 5.
    {"kimi_linear", 1e-9},
    // transformers takes the short factors whatever a text's length is.
    {"phimoe", 1e-10, 256},
    {"glm_moe_dsa", 1e-9},
    {"glm_moe_dsa-shared", 1e-9},
    // Scores are not divided by the square root of a head's size, so that rounding weighs more.
    {"gemma4", 1e-9},
    {"gemma4-moe", 1e-9},
};

std::string file_of(std::string_view name) { return fmt::format("converted/{}.gguf", name); }

/// The log output of loading a file of the test data, or another one given by its full path.
std::string log_of(const std::string& file, int32_t context) {
  testing::internal::CaptureStderr();
  Model(file, context, "", 1);
  return testing::internal::GetCapturedStderr();
}

class ConvertedTest : public testing::TestWithParam<Converted> {
 protected:
  std::string file() const { return file_of(GetParam().name); }
  Reference reference() const { return read_reference(fixture(fmt::format("converted/{}.ref.json", GetParam().name))); }
  int32_t context_of(const Reference& reference, const Prompt& run) const {
    const auto tokens = static_cast<int32_t>(run.tokens.size() + run.greedy.size());
    return tokens <= GetParam().short_context ? GetParam().short_context : reference.context;
  }
};

TEST_P(ConvertedTest, LogitsAndGreedyContinuationAreThoseOfTransformers) {
  const Reference reference = this->reference();
  EXPECT_EQ(log_of(file(), reference.context).find("not used"), std::string::npos) << "all keys and tensors have a use";
  for (const std::string& isa : isas()) {
    double worst = 0;
    float margin = 1e9f;
    for (const Prompt& run : reference.runs) {
      Model model(file(), context_of(reference, run), isa, 2);
      worst = std::max(worst, worst_nmse(model, run));
      EXPECT_EQ(greedy_continuation(model, run), run.greedy) << isa;
      margin = std::min(margin, std::ranges::min(run.margins));
    }
    std::printf("%-24s %-10s worst NMSE %.1e, least margin %.4f\n", GetParam().name, isa.c_str(), worst,
                static_cast<double>(margin));
    EXPECT_LE(worst, GetParam().nmse_max) << isa;
  }
}

TEST_P(ConvertedTest, SameBytesInUnevenChunksAndAmongOtherSequences) {
  constexpr size_t kUneven = 7;
  const Reference reference = this->reference();
  const std::span<const TokenId> tokens = reference.runs.front().tokens;
  for (const std::string& isa : isas()) {
    SCOPED_TRACE(isa);
    Model model(file(), reference.context, isa, 2);
    const std::vector<float> whole = logits_of(model, tokens, kRowsMax);
    expect_same_bytes(whole, logits_of(model, tokens, kUneven), "chunks of 7");
    expect_same_bytes(whole, logits_among_others(model, tokens), "among 8 others");
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ConvertedTest, testing::ValuesIn(kDecoders),
                         [](const auto& p) { return test_name(p.param.name); });

/// The converted models that are decoders.
std::set<std::string> decoder_files() {
  constexpr std::string_view kSuffix = ".ref.json";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixture("converted"))) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kSuffix)) continue;
    std::ifstream stream(entry.path());
    if (nlohmann::json::parse(stream).at("kind") != "decoder") continue;
    names.insert(name.substr(0, name.size() - kSuffix.size()));
  }
  return names;
}

TEST(ConvertedFiles, EveryDecoderFileIsTested) {
  std::set<std::string> listed;
  for (const Converted& each : kDecoders)
    EXPECT_TRUE(listed.insert(each.name).second) << each.name << " is there twice";
  EXPECT_EQ(decoder_files(), listed);
}

TEST(ConvertedFiles, LoadingLogsWhichLongRopeFactorsAreUsed) {
  EXPECT_NE(log_of(file_of("phi3-longrope"), 128).find("the short factors"), std::string::npos);
  EXPECT_NE(log_of(file_of("phi3-longrope"), 129).find("the long factors"), std::string::npos);
  EXPECT_EQ(log_of(file_of("phi3"), 128).find("factors"), std::string::npos);
}

TEST(ConvertedFiles, LoadingLogsUnusedKeys) {
  const EditedModel edited(fixture(file_of("qwen2")), "window", {}, [](gguf::Writer& writer) {
    writer.set_integer("qwen2.attention.sliding_window", gguf::ValueType::kU32, 16);
    // A key about experts, which the model does not have.
    writer.set_integer("qwen2.expert_shared_count", gguf::ValueType::kU32, 1);
  });
  EXPECT_NE(log_of(edited.path(), 64).find("1 keys of the file are not used: qwen2.attention.sliding_window"),
            std::string::npos);
}

TEST(ConvertedFiles, LoadingLogsTheMtpLayersThatAreNotRead) {
  const std::string log = log_of("models/glm4moe-mtp.gguf", 64);
  EXPECT_NE(log.find("MTP layers are not read: blk.2 to blk.2"), std::string::npos);
  EXPECT_EQ(log.find("not used"), std::string::npos) << "all other tensors have a use";
}

/// The error of a converted file whose metadata `edit` changes, which must name `key`.
void expect_refused(const std::string& name, const std::string& key, Code code,
                    const std::function<void(gguf::Writer&)>& edit) {
  SCOPED_TRACE(name);
  const EditedModel edited(fixture(file_of(name)), "unsupported", {}, edit);
  const auto file = gguf::Reader::open(edited.path());
  ASSERT_TRUE(file.has_value());
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto runner = model::load_model(*file, *backend, {});
  ASSERT_FALSE(runner.has_value());
  EXPECT_EQ(runner.error().code, code);
  EXPECT_NE(runner.error().text().find(key), std::string::npos) << runner.error().text();
}

void expect_unsupported(const std::string& name, const std::string& key,
                        const std::function<void(gguf::Writer&)>& edit) {
  expect_refused(name, key, Code::kUnsupported, edit);
}

TEST(ConvertedFiles, WhatIsNotSupportedIsRefusedNamingItsKey) {
  expect_unsupported("qwen2", "qwen2.attention.causal",
                     [](gguf::Writer& writer) { writer.set_boolean("qwen2.attention.causal", false); });
  expect_unsupported("falcon", "falcon.tensor_data_layout",
                     [](gguf::Writer& writer) { writer.set("falcon.tensor_data_layout", std::string_view("other")); });
  expect_unsupported("glm4", "glm4.rope.dimension_sections", [](gguf::Writer& writer) {
    writer.set_integer("glm4.rope.dimension_sections", gguf::ValueType::kU32, 4);
  });
  expect_unsupported("llama4", "llama4.expert_used_count", [](gguf::Writer& writer) {
    writer.set_integer("llama4.expert_used_count", gguf::ValueType::kU32, 2);
  });
  expect_unsupported("phimoe", "phimoe.expert_used_count", [](gguf::Writer& writer) {
    writer.set_integer("phimoe.expert_used_count", gguf::ValueType::kU32, 3);
  });
}

// Which layers of GLM 5.2 have an indexer.
void set_indexers(gguf::Writer& writer, std::initializer_list<bool> layers) {
  std::vector<std::byte> flags;
  for (const bool layer : layers) flags.push_back(std::byte{layer});
  writer.set("glm-dsa.attention.indexer.types",
             {gguf::ValueType::kArray, gguf::Array{gguf::ValueType::kBool, flags.size(), flags, {}, {}}});
}

TEST(ConvertedFiles, IndexersThatAreMissingAreNamed) {
  expect_refused("glm_moe_dsa-shared", "layer 0 has no indexer", Code::kCorruptFile,
                 [](gguf::Writer& writer) { set_indexers(writer, {false, true, true, true}); });
  expect_refused("glm_moe_dsa-shared", "3 entries, but there are 4 layers", Code::kCorruptFile,
                 [](gguf::Writer& writer) { set_indexers(writer, {true, false, true}); });
  expect_refused("glm_moe_dsa-shared", "blk.1.indexer.attn_q_b.weight", Code::kCorruptFile,
                 [](gguf::Writer& writer) { set_indexers(writer, {true, true, true, false}); });
}

// Of a context of GLM 5.2's length layers 0 and 1 have one, and then every fourth from layer 2 on, if no key says so.
TEST(ConvertedFiles, ALongContextTellsWhichLayersHaveIndexers) {
  const EditedModel edited(
      fixture(file_of("glm_moe_dsa")), "indexers", {},
      [](gguf::Writer& writer) { writer.set_integer("glm-dsa.context_length", gguf::ValueType::kU32, 1 << 20); },
      {"glm-dsa.attention.indexer.types"});
  const EditedModel named(fixture(file_of("glm_moe_dsa")), "named", {},
                          [](gguf::Writer& writer) { set_indexers(writer, {true, true, true, false}); });
  const Reference reference = read_reference(fixture("converted/glm_moe_dsa.ref.json"));
  const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(40);
  Model by_length(edited.path(), 64, "", 1), by_key(named.path(), 64, "", 1), all(file_of("glm_moe_dsa"), 64, "", 1);
  const std::vector<float> logits = logits_of(by_length, tokens, kRowsMax);
  expect_same_bytes(logits, logits_of(by_key, tokens, kRowsMax), "by key");
  EXPECT_GT(nmse(logits, logits_of(all, tokens, kRowsMax)), 1e-6) << "all layers have one";
}

// Where no file of a model of the size exists that has them: windows that lie at the multiples of their length.
TEST(ConvertedFiles, WindowsOfLlama4BeginAnewAtMultiplesOfTheirLength) {
  constexpr size_t kWindow = 40, kTokens = 60;
  const Reference reference = read_reference(fixture("converted/llama4.ref.json"));
  const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(kTokens);
  const EditedModel edited(fixture(file_of("llama4")), "window", {}, [](gguf::Writer& writer) {
    writer.set_integer("llama4.attention.sliding_window", gguf::ValueType::kU32, kWindow);
  });
  Model without(file_of("llama4"), reference.context, "", 1), with(edited.path(), reference.context, "", 1);
  const std::vector<float> far = logits_of(without, tokens, kRowsMax), near = logits_of(with, tokens, kRowsMax);
  const size_t before = kWindow * without.runner().vocabulary();
  expect_same_bytes(std::span(far).first(before), std::span(near).first(before), "within the first window");
  EXPECT_GT(nmse(std::span(near).subspan(before), std::span(far).subspan(before)), 1e-4) << "in the second";
  expect_same_bytes(near, logits_of(with, tokens, 7), "chunks of 7");
  expect_same_bytes(near, logits_among_others(with, tokens), "among 8 others");
}

TEST(ConvertedFiles, UnknownArchitecturesAreRefusedByName) {
  const EditedModel edited(fixture(file_of("seed_oss")), "unknown", {}, [](gguf::Writer& writer) {
    writer.set("general.architecture", {gguf::ValueType::kString, std::string_view("newest")});
  });
  const auto file = gguf::Reader::open(edited.path());
  ASSERT_TRUE(file.has_value());
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto runner = model::load_model(*file, *backend, {});
  ASSERT_FALSE(runner.has_value());
  EXPECT_EQ(runner.error().code, Code::kUnsupported);
  EXPECT_NE(runner.error().text().find("architecture \"newest\""), std::string::npos) << runner.error().text();
}

}  // namespace
}  // namespace cairn
