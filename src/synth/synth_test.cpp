#include "synth/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "model/parts/engram.h"
#include "quant/codec.h"
#include "synth/weights.h"
#include "tokenizer/tokenizer.h"

namespace cairn::synth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr const char* kRatiosKey = "attention.compress_ratios";
using Settings = std::vector<std::pair<std::string, std::string>>;

// A test with a folder of its own, which is removed afterwards.
class Synth : public ::testing::Test {
 protected:
  Synth() : folder_(std::filesystem::path(::testing::TempDir()) / ("cairn_synth_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Synth() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  std::filesystem::path made(const Shape& shape, const Options& options, const std::string& name = "made.gguf") const {
    const auto planned = plan(shape, options);
    EXPECT_TRUE(planned.has_value()) << planned.error().text();
    if (!planned.has_value()) return {};
    const auto written = write(*planned, options, path(name));
    EXPECT_TRUE(written.has_value()) << written.error().text();
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

Shape architecture(std::string_view name, const Settings& settings = {}) {
  Shape shape = Shape::of_architecture(name).value();
  for (const auto& [key, value] : settings) {
    const auto set = shape.set(key, value);
    EXPECT_TRUE(set.has_value()) << set.error().text();
  }
  return shape;
}

gguf::Reader open(const std::filesystem::path& file) {
  auto reader = gguf::Reader::open(file);
  EXPECT_TRUE(reader.has_value()) << reader.error().text();
  return std::move(reader).value();
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  bool finite = true;
};

Moments moments_of(std::span<const float> values) {
  Moments found;
  double squares = 0;
  for (const float value : values) {
    found.finite = found.finite && std::isfinite(value);
    found.mean += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  found.mean /= count;
  found.deviation = std::sqrt(squares / count - found.mean * found.mean);
  return found;
}

std::map<std::string, std::vector<int64_t>> shapes_of(std::span<const TensorPlan> tensors) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorPlan& tensor : tensors) shapes[tensor.name] = tensor.shape;
  return shapes;
}

std::map<std::string, std::vector<int64_t>> shapes_of(const gguf::Reader& file) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const gguf::Tensor& tensor : file.tensors()) shapes[std::string(tensor.name)] = tensor.shape;
  return shapes;
}

Error error_of(const Shape& shape, const Options& options = {}) {
  const auto planned = plan(shape, options);
  return planned.has_value() ? Error{Code::kInternal, "it was planned", {}} : planned.error();
}

TEST(SynthWeights, EveryTypeDecodesToItsStandardDeviation) {
  constexpr int64_t kElements = 1 << 20;
  for (const TensorTypeInfo& info : tensor_types()) {
    if (!quant::can_decode(info.type)) continue;
    for (const float deviation : {1.0f, 1 / 16.0f, 1 / 64.0f, 1 / 128.0f}) {
      SCOPED_TRACE(fmt::format("{} {}", info.name, deviation));
      Random random(7);
      std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(info.type, kElements)));
      WeightMaker(info.type, deviation).fill(blocks, random);
      std::vector<float> values(kElements);
      quant::decode_row(info.type, blocks, values);
      const Moments found = moments_of(values);
      EXPECT_TRUE(found.finite);
      EXPECT_NEAR(found.deviation, deviation, 0.03 * deviation);
      EXPECT_NEAR(found.mean, 0, 0.03 * deviation);
    }
  }
}

TEST(SynthWeights, FloatsAreNormalAroundTheirMean) {
  constexpr int64_t kElements = 1 << 18;
  std::vector<std::byte> bytes(kElements * sizeof(float));
  Random random(3);
  WeightMaker(TensorType::kF32, 0.05f, 1).fill(bytes, random);
  std::vector<float> values(kElements);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const Moments found = moments_of(values);
  EXPECT_NEAR(found.mean, 1, 0.001);
  EXPECT_NEAR(found.deviation, 0.05, 0.001);
  const auto within = std::ranges::count_if(values, [](float value) { return std::fabs(value - 1) < 0.05f; });
  EXPECT_NEAR(static_cast<double>(within) / kElements, 0.6827, 0.005);
}

TEST(SynthWeights, ExpertIdsOfATokenDiffer) {
  constexpr int64_t kUsed = 6;
  constexpr int64_t kExperts = 8;
  std::vector<int32_t> ids(kUsed * 500);
  Random random(3);
  fill_expert_ids(std::as_writable_bytes(std::span(ids)), kUsed, kExperts, random);
  std::map<int32_t, int> times;
  for (size_t token = 0; token < 500; ++token) {
    const auto row = std::span(ids).subspan(token * kUsed, kUsed);
    EXPECT_EQ(std::set<int32_t>(row.begin(), row.end()).size(), static_cast<size_t>(kUsed));
    for (const int32_t id : row) ++times[id];
  }
  ASSERT_EQ(times.size(), static_cast<size_t>(kExperts));
  EXPECT_EQ(times.begin()->first, 0);
  EXPECT_EQ(times.rbegin()->first, kExperts - 1);
  for (const auto& [id, count] : times) EXPECT_NEAR(count, 375, 60) << id;
}

// Runs a text through the model and takes a few greedy steps; returns the tokens.
std::vector<int32_t> run(const gguf::Reader& file, std::string_view text) {
  const auto tokenizer = tokenizer::Tokenizer::load(file.metadata());
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
  std::vector<TokenId> tokens = (*tokenizer)->encode(text, {}).value();
  EXPECT_EQ((*tokenizer)->decode(tokens, false), text);
  const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
  const auto runner = model::load_model(file, *backend, {.context_tokens = 64, .batch_tokens_max = 32});
  EXPECT_TRUE(runner.has_value()) << runner.error().text();
  if (!runner.has_value()) return {};
  const std::vector<int32_t> pages_each((*runner)->kv_layout().groups.size(), 8);
  auto pool = cache::PagePool::create(*backend, (*runner)->kv_layout(), pages_each).value();
  cache::PageTable pages;
  std::vector<int32_t> chosen;
  int32_t position = 0;
  for (int i = 0; i < 4; ++i) {
    const auto rows = static_cast<int32_t>(tokens.size());
    EXPECT_TRUE(pool.extend(pages, position + rows));
    const model::BatchSlice slice{.sequence = SequenceId(1), .rows = rows, .position_begin = position, .pages = &pages};
    const auto logits = (*runner)->step({.tokens = tokens, .slices = std::span(&slice, 1), .pool = &pool});
    EXPECT_TRUE(logits.has_value()) << logits.error().text();
    if (!logits.has_value()) return {};
    const Moments found = moments_of(logits->values);
    EXPECT_TRUE(found.finite);
    EXPECT_GT(found.deviation, 0.1);
    EXPECT_LT(found.deviation, 10);
    const auto best = static_cast<int32_t>(std::ranges::max_element(logits->values) - logits->values.begin());
    chosen.push_back(best);
    tokens = {TokenId(best)};
    position += rows;
  }
  pool.release(pages);
  return chosen;
}

TEST_F(Synth, SyntheticModelsRun) {
  const std::vector<std::pair<Shape, std::string>> models = {
      {architecture("llama"), "F16"},
      {architecture("llama", {{"expert_count", "4"}, {"expert_used_count", "2"}}), "Q4_K_M"},
      {architecture("qwen3"), "Q8_0"},
      {architecture("moe"), "IQ2_XXS"},
      {architecture("deepseek2"), "Q4_K_M"},
      {architecture("deepseek4"), "Q8_0"},
      {architecture("deepseek4", {{"hash_layer_count", "1"}}), "IQ2_XXS"},
      {architecture("deepseek41"), "Q8_0"},
      {architecture("deepseek41", {{"block_count", "5"}, {"dspark.stage_count", "2"}}), "IQ2_XXS"},
      {architecture("deepseek41", {{"attention.compress_ratios", "0,2,2,1,1"},
                                   {"kv_source_layer_ids", "1,3"},
                                   {"index_source_layer_ids", "1,2,3,4"},
                                   {"engram.layer_ids", "4"}}),
       "F16"},
      {architecture("gpt-oss"), "MXFP4"},
      {architecture("gemma4"), "Q4_K_M"},
      {architecture(
           "gemma4",
           {{"block_count", "8"}, {"attention.shared_kv_layers", "2"}, {"embedding_length_per_layer_input", "256"}}),
       "Q6_K"},
      {architecture("gemma4", {{"expert_count", "4"},
                               {"expert_used_count", "2"},
                               {"expert_feed_forward_length", "256"},
                               {"attention.head_count_kv", "2,1"}}),
       "Q8_0"},
  };
  for (const auto& [shape, type] : models) {
    SCOPED_TRACE(shape.architecture() + " " + type);
    const gguf::Reader file = open(made(shape, {.type = type}));
    EXPECT_EQ(run(file, "Hello, 1 wörld!\n\tand \xf0\x9f\x98\x80").size(), 4u);
  }
}

TEST_F(Synth, EqualSeedsGiveEqualBytesForAnyNumberOfThreads) {
  // The vocabulary is large enough for several pieces of several slabs.
  const Shape shape = architecture("deepseek4", {{"vocab_size", "40000"}, {"hash_layer_count", "1"}});
  const std::string one = bytes_of(made(shape, {.type = "Q2_K", .seed = 5, .threads = 1}));
  EXPECT_GT(one.size(), 5u << 20);
  EXPECT_TRUE(one == bytes_of(made(shape, {.type = "Q2_K", .seed = 5, .threads = 3})));
  EXPECT_FALSE(one == bytes_of(made(shape, {.type = "Q2_K", .seed = 6, .threads = 1})));
}

TEST_F(Synth, ATensorDependsOnItsNameAndTheSeedAlone) {
  const gguf::Reader small = open(made(architecture("llama"), {}, "small.gguf"));
  const gguf::Reader deep = open(made(architecture("llama", {{"block_count", "3"}}), {}, "deep.gguf"));
  const auto bytes = [](const gguf::Reader& file, std::string_view name) { return file.find_tensor(name)->bytes; };
  EXPECT_TRUE(std::ranges::equal(bytes(small, "blk.1.ffn_up.weight"), bytes(deep, "blk.1.ffn_up.weight")));
  EXPECT_FALSE(std::ranges::equal(bytes(deep, "blk.1.ffn_up.weight"), bytes(deep, "blk.2.ffn_up.weight")));
  EXPECT_FALSE(std::ranges::equal(bytes(deep, "blk.1.ffn_up.weight"), bytes(deep, "blk.1.ffn_gate.weight")));
}

// Shapes read from the fixtures' metadata give the fixtures' tensors.
TEST_F(Synth, TensorsHaveTheNamesAndShapesOfTheFixtures) {
  for (const std::string name : {"deepseek4", "deepseek4-hash", "deepseek2", "deepseek2-lite", "llama", "llama-moe",
                                 "qwen3", "qwen3moe", "gpt-oss", "gemma4-dense", "gemma4-moe", "qwen35", "qwen35moe"}) {
    SCOPED_TRACE(name);
    const gguf::Reader fixture = open(std::filesystem::path(test_data()) / "models" / (name + ".gguf"));
    const std::string arch(fixture.metadata().string("general.architecture").value());
    Shape shape = architecture(arch);
    for (const Key& key : std::vector<Key>(shape.keys().begin(), shape.keys().end())) {
      const std::string full = arch + "." + key.name;
      if (!fixture.metadata().contains(full) || key.type != gguf::ValueType::kU32) continue;
      std::string value;
      if (key.is_array) {
        const std::vector<int64_t> numbers = fixture.metadata().integers(full).value();
        for (const int64_t number : numbers) value += fmt::format("{},", number);
        value.pop_back();
      } else {
        value = std::to_string(fixture.metadata().integer(full).value());
      }
      EXPECT_TRUE(shape.set(key.name, value).has_value()) << key.name << " " << value;
    }
    shape.tied_output = fixture.find_tensor("output.weight") == nullptr;
    const auto planned = plan(shape, {.type = "F32"});
    ASSERT_TRUE(planned.has_value()) << planned.error().text();
    EXPECT_EQ(shapes_of(planned->tensors), shapes_of(fixture));
    EXPECT_EQ(planned->misfits, 0);
    // Every key of the fixture that is about the shape is in the file, with its type.
    const gguf::Reader file = open(made(shape, {.type = "F32"}));
    for (const auto& [key, value] : fixture.metadata().values()) {
      if (!key.starts_with(arch) || key.contains("rope.scaling")) continue;
      ASSERT_TRUE(file.metadata().contains(key)) << key;
      EXPECT_EQ(file.metadata().find(key)->type, value.type) << key;
    }
  }
}

TEST_F(Synth, PresetsHaveTheRealSizes) {
  const std::map<std::string_view, double> billions = {
      {"llama-1b", 1.24},      {"llama-8b", 8.03},       {"qwen3-0.6b", 0.60},
      {"moe-0.8b", 0.80},      {"v2-lite", 15.7},        {"v3", 671},
      {"flash", 284},          {"pro", 1'600},           {"gpt-oss-20b", 20.9},
      {"gemma4-e4b", 7.5},     {"gemma4-26b-a4b", 25.2}, {"qwen3.5-9b", 9.0},
      {"qwen3.5-35b-a3b", 35}, {"lfm2-8b-a1b", 8.3},     {"nemotron-3-nano", 31.6},
      {"kimi-linear-48b", 49}, {"v4.1-flash", 748.5}};
  ASSERT_EQ(billions.size(), presets().size());
  for (const PresetInfo& info : presets()) {
    SCOPED_TRACE(info.name);
    const auto planned = plan(Shape::of_preset(info.name).value(), {});
    ASSERT_TRUE(planned.has_value()) << planned.error().text();
    EXPECT_EQ(planned->shape.architecture(), info.architecture);
    const double expected = billions.at(info.name);
    EXPECT_NEAR(static_cast<double>(planned->elements) / 1e9, expected, 0.02 * expected);
  }
}

TEST_F(Synth, TheFlashPresetHasTheTypesOfItsTwoBitFilesAndAnyNumberOfLayers) {
  Shape shape = Shape::of_preset("flash").value();
  ASSERT_TRUE(shape.set("attention.compress_ratios", "0,0,4,128,4,128").has_value());
  const auto planned = plan(shape, {});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  EXPECT_EQ(planned->shape.integer("block_count"), 6);
  EXPECT_EQ(planned->shape.integer("hash_layer_count"), 3);
  std::map<std::string, std::string_view> types;
  for (const TensorPlan& tensor : planned->tensors) types[tensor.name] = tensor_type_name(tensor.type);
  EXPECT_EQ(types.at("token_embd.weight"), "F16");
  EXPECT_EQ(types.at("output.weight"), "Q8_0");
  EXPECT_EQ(types.at("output_hc_fn.weight"), "F16");
  EXPECT_EQ(types.at("blk.0.ffn_gate_tid2eid.weight"), "I32");
  EXPECT_EQ(types.at("blk.3.exp_probs_b.bias"), "F32");
  EXPECT_EQ(types.at("blk.5.ffn_gate_exps.weight"), "IQ2_XXS");
  EXPECT_EQ(types.at("blk.5.ffn_down_exps.weight"), "Q2_K");
  EXPECT_EQ(types.at("blk.5.attn_q_b.weight"), "Q8_0");
  EXPECT_EQ(types.at("blk.4.indexer.proj.weight"), "F16");
  EXPECT_EQ(types.at("blk.4.indexer_compressor_ape.weight"), "F16");
  EXPECT_FALSE(types.contains("blk.5.indexer.proj.weight"));
  EXPECT_FALSE(types.contains("blk.1.attn_compressor_kv.weight"));
}

TEST_F(Synth, MtpModulesAreAdditionalToAPresetsLayers) {
  Shape shape = Shape::of_preset("flash").value();
  ASSERT_TRUE(shape.set("nextn_predict_layers", "1").has_value());
  const auto planned = plan(shape, {});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  EXPECT_EQ(planned->shape.integer("block_count"), 44);
  const std::vector<int64_t> ratios = planned->shape.integers("attention.compress_ratios");
  EXPECT_THAT(std::vector(ratios.end() - 3, ratios.end()), ElementsAre(128, 4, 0));
  const auto shapes = shapes_of(planned->tensors);
  EXPECT_THAT(shapes.at("blk.43.nextn.eh_proj.weight"), ElementsAre(8192, 4096));
  EXPECT_THAT(shapes.at("blk.43.nextn.hc_head_fn.weight"), ElementsAre(16384, 4));
  EXPECT_TRUE(shapes.contains("blk.43.exp_probs_b.bias"));
  EXPECT_FALSE(shapes.contains("blk.43.attn_compressor_kv.weight"));
  EXPECT_FALSE(shapes.contains("blk.42.nextn.enorm.weight"));
  const gguf::Reader file = open(made(architecture("deepseek4", {{"nextn_predict_layers", "1"}}), {}));
  EXPECT_EQ(run(file, "Hello").size(), 4u);
}

TEST_F(Synth, TheV41FlashPresetHasTheLayersAndTablesOfTheRealModel) {
  const auto planned = plan(Shape::of_preset("v4.1-flash").value(), {});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  const Shape& shape = planned->shape;
  EXPECT_THAT(shape.integers("kv_source_layer_ids"), ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(shape.integers("index_source_layer_ids"), ElementsAre(2, 8, 14, 20, 24, 28, 32, 36));
  EXPECT_THAT(shape.integers("engram.layer_ids"), ElementsAre(1, 14));
  EXPECT_EQ(shape.integer("engram.compressed_vocab_size"), 99'092);
  const std::vector<int64_t> primes = shape.integers("engram.primes"), ratios = shape.integers(kRatiosKey);
  ASSERT_EQ(primes.size(), 48u);
  EXPECT_EQ(primes.front(), 16'000'057);
  EXPECT_EQ(primes.back(), 16'000'889);
  EXPECT_EQ(std::ranges::count(ratios, 0), 2);
  EXPECT_EQ(std::ranges::count(ratios, 2), 18);
  EXPECT_EQ(std::ranges::count(ratios, 1), 20);
  const auto shapes = shapes_of(planned->tensors);
  EXPECT_THAT(shapes.at("blk.1.engram_embd.weight"), ElementsAre(256, 384'006'168));
  EXPECT_THAT(shapes.at("blk.14.engram_embd.weight"), ElementsAre(256, 384'016'682));
  EXPECT_THAT(shapes.at("blk.14.engram_wkv.weight"), ElementsAre(6144, 25'600));
  EXPECT_TRUE(shapes.contains("blk.14.attn_compressor_gate.weight"));
  EXPECT_TRUE(shapes.contains("blk.20.attn_compressor_kv.weight"));
  EXPECT_FALSE(shapes.contains("blk.20.attn_compressor_gate.weight")) << "its rows are of one position";
  EXPECT_FALSE(shapes.contains("blk.24.attn_compressor_kv.weight"));
  EXPECT_TRUE(shapes.contains("blk.24.indexer.attn_q_b.weight"));
  EXPECT_FALSE(shapes.contains("blk.25.indexer.attn_q_b.weight"));
  int64_t in_tables = 0;
  for (const TensorPlan& tensor : planned->tensors) {
    if (!tensor.name.contains("engram_embd")) continue;
    in_tables += tensor.elements();
    EXPECT_EQ(tensor.type, TensorType::kQ8_0);
  }
  EXPECT_NEAR(static_cast<double>(in_tables) / 1e9, 196.6, 0.1);
  EXPECT_NEAR(static_cast<double>(planned->elements - in_tables) / 1e9, 552, 1);
}

// A row of a table is 256 numbers and 8 scales, a byte each, as in antirez' files.
TEST_F(Synth, TablesOfV41MayBeRowsOfBytesWithScales) {
  const Options options{.type = "Q8_0", .type_rules = {{"engram_embd", "I8"}}};
  const gguf::Reader file = open(made(architecture("deepseek41"), options));
  const gguf::Tensor* table = file.find_tensor("blk.2.engram_embd.weight");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->type, TensorType::kI8);
  EXPECT_THAT(table->shape, ElementsAre(264, 1824));
  std::vector<int64_t> rows(1824);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> values(rows.size() * 256);
  model::read_engram_rows(*table, 256, rows, values);
  const Moments found = moments_of(values);
  EXPECT_NEAR(found.mean, 0, 0.001);
  EXPECT_NEAR(found.deviation, 1 / 16.0, 0.002);
  EXPECT_EQ(run(file, "Hello").size(), 4u);
  EXPECT_THAT(error_of(architecture("deepseek41"), {.type_rules = {{"ffn_gate_inp", "I8"}}}).text(), HasSubstr("'I8'"));
}

// Products are taken in 64 bits with a sign.
TEST_F(Synth, ProductsOfAnEngramsMultipliersAndClassesStayBelowTwoToThe63) {
  for (const char* vocabulary : {"512", "129280", "300000"}) {
    const auto planned = plan(architecture("deepseek41", {{"vocab_size", vocabulary}}), {});
    ASSERT_TRUE(planned.has_value()) << planned.error().text();
    const std::vector<int64_t> classes = planned->shape.integers("engram.token_map");
    const int64_t last = std::ranges::max(classes);
    EXPECT_EQ(std::to_string(classes.size()), vocabulary);
    EXPECT_LT(last, planned->shape.integer("engram.compressed_vocab_size"));
    const std::vector<int64_t> multipliers = planned->shape.integers("engram.multipliers");
    EXPECT_EQ(std::set<int64_t>(multipliers.begin(), multipliers.end()).size(), 2u * 4);
    for (const int64_t multiplier : multipliers) {
      int64_t product = 0;
      EXPECT_FALSE(__builtin_mul_overflow(multiplier, last, &product)) << multiplier;
      EXPECT_EQ(multiplier % 2, 1);
      EXPECT_LT(multiplier, int64_t{1} << 47);
    }
  }
}

TEST_F(Synth, FewLayersOfV41StillMakeChooseAndFindRows) {
  const std::map<std::string, std::vector<std::vector<int64_t>>> expected = {
      {"1", {{0}, {}, {}, {}}},
      {"2", {{0, 0}, {}, {}, {1}}},
      {"4", {{0, 0, 1, 1}, {2}, {2, 3}, {1}}},
      {"6", {{0, 0, 2, 1, 1, 1}, {2, 3}, {2, 3, 4, 5}, {1, 2}}},
      {"8", {{0, 0, 2, 2, 1, 1, 1, 1}, {2, 3, 4}, {2, 3, 4, 5, 6, 7}, {1, 2}}},
  };
  for (const auto& [layers, lists] : expected) {
    SCOPED_TRACE(layers);
    Shape shape = Shape::of_preset("v4.1-flash").value();
    ASSERT_TRUE(shape.set("block_count", layers).has_value());
    const auto planned = plan(shape, {});
    ASSERT_TRUE(planned.has_value()) << planned.error().text();
    size_t i = 0;
    for (const char* key : {kRatiosKey, "kv_source_layer_ids", "index_source_layer_ids", "engram.layer_ids"}) {
      EXPECT_EQ(planned->shape.integers(key), lists[i++]) << key;
    }
    EXPECT_EQ(planned->shape.integers("engram.primes").size(), 24 * lists[3].size());
  }
}

TEST_F(Synth, TheDraftingHeadOfV41IsLayersBesideTheModel) {
  Shape shape = Shape::of_preset("v4.1-flash").value();
  ASSERT_TRUE(shape.set("dspark.stage_count", "3").has_value());
  const auto planned = plan(shape, {});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  EXPECT_EQ(planned->shape.integer("block_count"), 40);
  EXPECT_EQ(planned->shape.integer("dspark.block_size"), 5);
  EXPECT_EQ(planned->shape.integer("dspark.noise_token_id"), 128'799);
  EXPECT_EQ(planned->shape.integer("dspark.num_experts_per_tok"), 3);
  EXPECT_THAT(planned->shape.integers("dspark.target_layer_ids"), ElementsAre(37, 38, 39));
  const auto shapes = shapes_of(planned->tensors);
  EXPECT_THAT(shapes.at("mtp.0.main_proj.weight"), ElementsAre(15'360, 5120));
  EXPECT_THAT(shapes.at("mtp.1.ffn_up_exps.weight"), ElementsAre(5120, 2304, 128));
  EXPECT_THAT(shapes.at("mtp.2.exp_probs_b.bias"), ElementsAre(128));
  EXPECT_THAT(shapes.at("mtp.2.markov_head.markov_w2.weight"), ElementsAre(256, 129'280));
  EXPECT_THAT(shapes.at("mtp.2.confidence_head.proj.weight"), ElementsAre(5376, 1));
  EXPECT_FALSE(shapes.contains("mtp.1.main_proj.weight"));
  EXPECT_FALSE(shapes.contains("mtp.0.norm.weight"));
  EXPECT_FALSE(shapes.contains("mtp.0.attn_compressor_kv.weight"));
  EXPECT_FALSE(shapes_of(plan(Shape::of_preset("v4.1-flash").value(), {})->tensors).contains("mtp.0.main_norm.weight"));
}

// The pairs of a head that sees everything: the first quarter turns. Without weights they are there as well, since
// zeros would divide the frequencies.
TEST_F(Synth, Gemma4HasTheFactorsOfItsRope) {
  for (const bool hollow : {false, true}) {
    SCOPED_TRACE(hollow);
    const gguf::Reader file = open(made(architecture("gemma4"), {.hollow = hollow}));
    const gguf::Tensor* tensor = file.find_tensor("rope_freqs.weight");
    ASSERT_NE(tensor, nullptr);
    std::vector<float> factors(static_cast<size_t>(tensor->elements()));
    ASSERT_EQ(tensor->bytes.size(), factors.size() * sizeof(float));
    std::memcpy(factors.data(), tensor->bytes.data(), tensor->bytes.size());
    EXPECT_EQ(std::ssize(factors), file.metadata().integer("gemma4.rope.dimension_count").value() / 2);
    const auto turning = std::span(factors).first(factors.size() / 4),
               still = std::span(factors).subspan(turning.size());
    EXPECT_THAT(turning, Each(1.0f));
    EXPECT_THAT(still, Each(1e30f));
  }
}

TEST_F(Synth, TheLastMatchingTypeRuleWins) {
  const auto planned =
      plan(architecture("llama"), {.type = "Q4_0", .type_rules = {{"ffn_", "Q5_K"}, {"blk\\.1\\.ffn_down", "MXFP4"}}});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  std::map<std::string, std::string_view> types;
  for (const TensorPlan& tensor : planned->tensors) types[tensor.name] = tensor_type_name(tensor.type);
  EXPECT_EQ(types.at("blk.0.attn_q.weight"), "Q4_0");
  EXPECT_EQ(types.at("output.weight"), "Q6_K") << "as cairn quantize does";
  EXPECT_EQ(types.at("blk.0.ffn_down.weight"), "Q5_K");
  EXPECT_EQ(types.at("blk.1.ffn_down.weight"), "MXFP4");
  EXPECT_EQ(types.at("blk.1.ffn_norm.weight"), "F32");
}

TEST_F(Synth, InvalidOptionsAreErrorsThatNameThem) {
  EXPECT_THAT(Shape::of_architecture("gpt5").error().text(), HasSubstr("llama, qwen3"));
  EXPECT_THAT(Shape::of_preset("huge").error().text(), HasSubstr("flash"));
  Shape shape = architecture("qwen3");
  EXPECT_THAT(shape.set("expert_count", "4").error().text(), HasSubstr("block_count"));
  EXPECT_THAT(shape.set("block_count", "two").error().text(), HasSubstr("whole number"));
  EXPECT_THAT(shape.set("block_count", "1,2").error().text(), HasSubstr("1,2"));
  EXPECT_THAT(shape.set("block_count", "").error().text(), HasSubstr("block_count"));
  EXPECT_THAT(error_of(architecture("qwen3", {{"block_count", "0"}})).text(), HasSubstr("block_count"));
  EXPECT_THAT(error_of(architecture("qwen3", {{"attention.head_count_kv", "3"}})).text(), HasSubstr("does not divide"));
  EXPECT_THAT(error_of(architecture("qwen3", {{"vocab_size", "100"}})).text(), HasSubstr("259 .. 450000"));
  EXPECT_THAT(error_of(architecture("moe", {{"expert_used_count", "9"}})).text(), HasSubstr("8 experts"));
  EXPECT_THAT(error_of(architecture("deepseek4", {{"attention.compress_ratios", "0,3"}})).text(),
              HasSubstr("3 is none"));
  EXPECT_THAT(error_of(architecture("deepseek4", {{"attention.compress_ratios", "0,4"}, {"block_count", "3"}})).text(),
              HasSubstr("2 values for 3 layers"));
  EXPECT_THAT(error_of(architecture("deepseek4", {{"block_count", "2"}, {"nextn_predict_layers", "2"}})).text(),
              AllOf(HasSubstr("nextn_predict_layers"), HasSubstr("2 blocks")));
  EXPECT_THAT(
      error_of(architecture("deepseek4", {{"attention.compress_ratios", "0,4"}, {"nextn_predict_layers", "1"}})).text(),
      HasSubstr("their ratio is 0"));
  const auto error_of_v41 = [](const Settings& settings) {
    return error_of(architecture("deepseek41", settings)).text();
  };
  EXPECT_THAT(error_of_v41({{kRatiosKey, "0,4"}}), HasSubstr("4 is none of 0, 1 and 2"));
  EXPECT_THAT(error_of_v41({{kRatiosKey, "0,2,1"}, {"kv_source_layer_ids", "1"}}),
              AllOf(HasSubstr("kv_source_layer_ids"), HasSubstr("up to 2")));
  EXPECT_THAT(error_of_v41({{"index_source_layer_ids", "4,2"}}), HasSubstr("must ascend"));
  EXPECT_THAT(error_of_v41({{"engram.layer_ids", "8"}}), HasSubstr("layer 8, but there are 8"));
  EXPECT_THAT(error_of_v41({{"engram.primes", "101,103"}}), HasSubstr("2 values, but 12 are needed"));
  EXPECT_THAT(error_of_v41({{"engram.primes", "18446744073709551615"}}), HasSubstr("engram.primes"));
  EXPECT_THAT(error_of_v41({{"engram.key_length", "40"}}), HasSubstr("multiple of 32"));
  EXPECT_THAT(error_of_v41({{"attention.indexer.top_k", "64"}}), HasSubstr("candidate_blocks"));
  EXPECT_THAT(error_of_v41({{"dspark.stage_count", "1"}, {"dspark.num_experts_per_tok", "3"}}),
              HasSubstr("there are 2 experts"));
  EXPECT_THAT(error_of(shape, {.type = "Q9"}).text(), HasSubstr("IQ2_XXS"));
  EXPECT_THAT(error_of(shape, {.type_rules = {{"ffn_(", "Q8_0"}}}).text(), HasSubstr("regular expression"));
  EXPECT_THAT(error_of(shape, {.type_rules = {{"exps", "Q8_0"}}}).text(), HasSubstr("'exps'"));
  const Shape narrow = architecture("qwen3", {{"embedding_length", "96"}});
  EXPECT_THAT(error_of(narrow, {.type_rules = {{"attn_q", "Q4_K"}}}).text(),
              AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("96"), HasSubstr("256")));
  const auto planned = plan(narrow, {.type = "Q4_K"});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  EXPECT_EQ(planned->misfits, 2 * 5 + 1) << "all that read 96 numbers: token_embd, q, k, v, gate and up";
}

TEST_F(Synth, AFileThatDoesNotFitOnTheDiskIsNotStarted) {
  Shape shape = Shape::of_preset("pro").value();
  ASSERT_TRUE(shape.set("block_count", "1000").has_value());
  const Options options{.type = "F32"};
  const auto planned = plan(shape, options);
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  const auto written = write(*planned, options, path("huge.gguf"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kIo);
  EXPECT_THAT(written.error().text(), HasSubstr(std::to_string(planned->bytes)));
  EXPECT_TRUE(std::filesystem::is_empty(path("")));
}

}  // namespace
}  // namespace cairn::synth
