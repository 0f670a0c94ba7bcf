#include "convert/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>

#include <fmt/format.h>

#include "base/testing/test_data.h"
#include "gguf/walk.h"
#include "gguf/writer.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path model(const std::string& name) {
  return std::filesystem::path(test_data()) / "models" / (name + ".gguf");
}

// A test with a folder of its own, which is removed afterwards.
class Quantize : public ::testing::Test {
 protected:
  Quantize() : folder_(std::filesystem::path(::testing::TempDir()) / ("cairn_quantize_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Quantize() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  // The output of quantize_file, opened.
  gguf::Reader quantized(const std::filesystem::path& in, QuantizeMix mix,
                         const ImportanceMatrix* importance = nullptr) {
    const auto out = path("out.gguf");
    const auto report = quantize_file(in, out, {.mix = mix, .threads = 2, .importance = importance});
    EXPECT_TRUE(report.has_value()) << report.error().text();
    auto reader = gguf::Reader::open(out);
    EXPECT_TRUE(reader.has_value()) << reader.error().text();
    return std::move(reader).value();
  }

  std::filesystem::path folder_;
};

gguf::Reader open(const std::filesystem::path& file) {
  auto reader = gguf::Reader::open(file);
  EXPECT_TRUE(reader.has_value()) << reader.error().text();
  return std::move(reader).value();
}

std::vector<float> values(const gguf::Tensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.elements()));
  quant::decode_row(tensor.type, tensor.bytes, out);
  return out;
}

double nmse(const gguf::Tensor& exact, const gguf::Tensor& rounded) {
  const std::vector<float> a = values(exact);
  const std::vector<float> b = values(rounded);
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return norm > 0 ? error / norm : error;
}

double nmse_allowed(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 0;
    case TensorType::kF16:
      return 1e-7;
    case TensorType::kBF16:
      return 5e-6;
    case TensorType::kQ8_0:
      return 5e-5;
    case TensorType::kQ6_K:
      return 5e-4;
    case TensorType::kQ5_K:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
      return 2.5e-3;
    case TensorType::kQ4_K:
      return 8e-3;
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0:
      return 0.7;  // of weights that were not trained for three values
    default:
      break;
  }
  const TensorTypeInfo& info = tensor_type_info(type);
  const double bits = 8.0 * info.block_bytes / info.block_elements;
  return bits > 4 ? 1.2e-2 : bits > 3 ? 6e-2 : bits > 2.3 ? 0.15 : bits > 2 ? 0.2 : 0.35;
}

// Importance for every matrix, larger in some columns than in others.
ImportanceMatrix some_importance(const gguf::Reader& file) {
  ImportanceMatrix matrix{.datasets = {"text.txt"}, .chunks = 4, .chunk_tokens = 512, .entries = {}};
  for (const gguf::Tensor& tensor : file.tensors()) {
    ImportanceEntry& entry = matrix.entries[std::string(tensor.name)];
    const int64_t matrices = tensor.shape.size() > 2 ? tensor.shape[2] : 1;
    for (int64_t i = 0; i < matrices * tensor.shape[0]; ++i) entry.sums.push_back(i % 7 == 0 ? 200.0F : 2.0F);
    entry.counts.assign(static_cast<size_t>(matrices), 2.0F);
  }
  return matrix;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text_of(const gguf::Metadata& metadata, std::string_view key) {
  return std::string(metadata.string(key).value_or("(none)"));
}

TEST_F(Quantize, EveryMixOfBothModelsKeepsNamesShapesMetadataAndValues) {
  for (const std::string name : {"llama", "quant-llama-f16"}) {
    const gguf::Reader in = open(model(name));
    const ImportanceMatrix importance = some_importance(in);
    for (const QuantizeMixInfo& mix : quantize_mixes()) {
      SCOPED_TRACE(name + " to " + std::string(mix.name));
      const gguf::Reader out = quantized(model(name), mix.mix, mix.needs_importance ? &importance : nullptr);
      const std::vector<TensorType> types = plan_types(in.tensors(), ModelTraits::of(in.metadata()),
                                                       {.mix = mix.mix, .has_importance = mix.needs_importance})
                                                .value()
                                                .types;
      ASSERT_EQ(out.tensors().size(), in.tensors().size());
      for (size_t i = 0; i < types.size(); ++i) {
        const gguf::Tensor& before = in.tensors()[i];
        const gguf::Tensor& after = out.tensors()[i];
        EXPECT_EQ(after.name, before.name);
        EXPECT_EQ(after.shape, before.shape);
        EXPECT_EQ(after.type, types[i]);
        EXPECT_LE(nmse(before, after), nmse_allowed(after.type)) << after.name << tensor_type_name(after.type);
      }
      if (mix.mix != QuantizeMix::kCopy) {
        EXPECT_EQ(out.metadata().integer("general.file_type").value_or(-1), file_type_id(mix.name));
        EXPECT_EQ(out.metadata().integer("general.quantization_version").value_or(-1), 2);
      }
      for (const auto& [key, value] : in.metadata().values()) {
        ASSERT_TRUE(out.metadata().contains(key)) << key;
        EXPECT_EQ(out.metadata().find(key)->type, value.type) << key;
        EXPECT_EQ(gguf::walk(*out.metadata().find(key), 0), gguf::walk(value, 0)) << key;
      }
      EXPECT_EQ(text_of(out.metadata(), "general.name"), text_of(in.metadata(), "general.name"));
      EXPECT_EQ(out.metadata().integer("llama.embedding_length").value_or(-1),
                in.metadata().integer("llama.embedding_length").value_or(-2));
    }
  }
}

// Compared with llama.cpp's own files of the same model: the same types, and no larger error.
TEST_F(Quantize, ChoosesTheTypesOfLlamaCppAndHasNoLargerError) {
  const gguf::Reader exact = open(model("quant-llama-f16"));
  const std::map<std::string, QuantizeMix> files = {{"quant-llama-q4_k_m", QuantizeMix::kQ4_K_M},
                                                    {"quant-llama-q4_0", QuantizeMix::kQ4_0},
                                                    {"quant-llama-q8_0", QuantizeMix::kQ8_0},
                                                    {"quant-llama-q6_k", QuantizeMix::kQ6_K}};
  for (const auto& [name, mix] : files) {
    const gguf::Reader reference = open(model(name));
    const gguf::Reader out = quantized(model("quant-llama-f16"), mix);
    for (const gguf::Tensor& tensor : exact.tensors()) {
      const gguf::Tensor* theirs = reference.find_tensor(tensor.name);
      const gguf::Tensor* ours = out.find_tensor(tensor.name);
      ASSERT_TRUE(theirs != nullptr && ours != nullptr);
      EXPECT_EQ(tensor_type_name(ours->type), tensor_type_name(theirs->type)) << name << " " << tensor.name;
      EXPECT_LE(nmse(tensor, *ours), 1.02 * nmse(tensor, *theirs)) << name << " " << tensor.name;
    }
  }
  // In a mixture of experts the router is not quantised, and the experts' down projections get wider types like others.
  const gguf::Reader experts = open(model("quant-qwen3moe-q4_k_m"));
  const std::vector<TensorType> types = choose_types(experts, QuantizeMix::kQ4_K_M);
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(tensor_type_name(types[i]), tensor_type_name(experts.tensors()[i].type)) << experts.tensors()[i].name;
  }
}

// Writes a model of `layers` layers with small tensors of F32 zeros and opens it.
class MadeModel {
 public:
  explicit MadeModel(const std::filesystem::path& path) : writer_(gguf::Writer::create(path).value()) {
    writer_.set("general.architecture", "llama");
  }
  void add(std::string_view name, std::vector<int64_t> shape, std::vector<float> data = {}) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    data.resize(static_cast<size_t>(elements));
    writer_.declare(name, TensorType::kF32, shape);
    data_.insert(data_.end(), data.begin(), data.end());
    // The writer pads each tensor, so sizes are kept to multiples of the alignment.
    ASSERT_EQ(elements % 8, 0);
  }
  gguf::Writer& writer() { return writer_; }
  void finish() {
    ASSERT_TRUE(writer_.write(std::as_bytes(std::span(data_))).has_value());
    ASSERT_TRUE(writer_.finish().has_value());
  }

 private:
  gguf::Writer writer_;
  std::vector<float> data_;
};

TEST_F(Quantize, Q4KMUsesWiderTypesInOuterLayersAndEveryThirdBetween) {
  constexpr int kLayers = 16;
  {
    MadeModel made(path("deep.gguf"));
    made.add("token_embd.weight", {256, 2});
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const char* kind : {"attn_v", "attn_q", "ffn_down"}) {
        made.add("blk." + std::to_string(layer) + "." + kind + ".weight", {256, 2});
      }
    }
    made.finish();
  }
  const gguf::Reader in = open(path("deep.gguf"));
  const std::vector<TensorType> types = choose_types(in, QuantizeMix::kQ4_K_M);
  std::map<std::string, TensorType> by_name;
  for (size_t i = 0; i < types.size(); ++i) by_name[std::string(in.tensors()[i].name)] = types[i];
  EXPECT_EQ(by_name["token_embd.weight"], TensorType::kQ6_K) << "tied to the output";
  for (int layer = 0; layer < kLayers; ++layer) {
    const bool wide = layer < 2 || layer >= 14 || layer == 4 || layer == 7 || layer == 10 || layer == 13;
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const TensorType expected = wide ? TensorType::kQ6_K : TensorType::kQ4_K;
    EXPECT_EQ(by_name[prefix + "attn_v.weight"], expected) << layer;
    EXPECT_EQ(by_name[prefix + "ffn_down.weight"], expected) << layer;
    EXPECT_EQ(by_name[prefix + "attn_q.weight"], TensorType::kQ4_K) << layer;
  }
  const std::vector<TensorType> plain = choose_types(in, QuantizeMix::kQ4_K_S);
  EXPECT_EQ(std::ranges::count(plain, TensorType::kQ4_K), 3 * kLayers - 6);
  EXPECT_EQ(std::ranges::count(plain, TensorType::kQ5_K), 6) << "four layers' values, two layers' down projections";
  EXPECT_EQ(std::ranges::count(plain, TensorType::kQ6_K), 1);
}

// What a model's metadata says decides types, too: shared keys, experts, and whether there is an importance matrix.
TEST_F(Quantize, SharedKeysExpertsAndImportanceDecideTypes) {
  {
    MadeModel made(path("small.gguf"));
    for (const char* kind : {"attn_v", "attn_k", "attn_q", "attn_output", "ffn_down", "ffn_up"}) {
      made.add("blk.0." + std::string(kind) + ".weight", {256, 2});
    }
    made.finish();
  }
  const gguf::Reader in = open(path("small.gguf"));
  const auto types = [&](QuantizeMix mix, const ModelTraits& traits, bool importance) {
    return plan_types(in.tensors(), traits, {.mix = mix, .has_importance = importance}).value().types;
  };
  using enum TensorType;
  using ::testing::ElementsAre;
  EXPECT_THAT(types(QuantizeMix::kIQ3_XXS, {}, false), ElementsAre(kIQ3_S, kIQ2_S, kIQ2_S, kIQ3_S, kQ3_K, kIQ3_XXS));
  EXPECT_THAT(types(QuantizeMix::kIQ3_XXS, {}, true),
              ElementsAre(kIQ3_XXS, kIQ2_S, kIQ2_S, kIQ3_S, kIQ3_XXS, kIQ3_XXS));
  EXPECT_THAT(types(QuantizeMix::kQ2_K, {.queries_per_key = 4}, false),
              ElementsAre(kQ4_K, kQ2_K, kQ2_K, kQ3_K, kQ3_K, kQ2_K));
  EXPECT_THAT(types(QuantizeMix::kQ2_K, {}, false), ElementsAre(kQ3_K, kQ2_K, kQ2_K, kQ3_K, kQ3_K, kQ2_K));
  EXPECT_THAT(types(QuantizeMix::kQ3_K_M, {.experts = 8}, false),
              ElementsAre(kQ8_0, kQ8_0, kQ3_K, kQ5_K, kQ4_K, kQ3_K));
  EXPECT_THAT(types(QuantizeMix::kIQ1_S, {.experts = 64}, true),
              ElementsAre(kQ4_K, kIQ1_S, kIQ1_S, kIQ2_XXS, kIQ1_S, kIQ1_S));
  EXPECT_THAT(plan_types(in.tensors(), {}, {.mix = QuantizeMix::kQ3_K_M, .pure = true})->types, ::testing::Each(kQ3_K));
}

TEST_F(Quantize, RulesByNameComeBeforeAllElse) {
  const gguf::Reader in = open(model("quant-llama-f16"));
  TypeRequest request{.mix = QuantizeMix::kQ4_K_S, .output = TensorType::kQ8_0, .embedding = TensorType::kQ5_K};
  for (const char* rule : {"blk.0.*ffn_down=q2_k", "ffn_down=Q3_K", "attn_[qk].weight=IQ4_XS"}) {
    request.rules.push_back(type_rule_of(rule).value());
  }
  const auto plan = plan_types(in.tensors(), {}, request);
  ASSERT_TRUE(plan.has_value()) << plan.error().text();
  std::map<std::string, TensorType> by_name;
  for (size_t i = 0; i < plan->types.size(); ++i) by_name[std::string(in.tensors()[i].name)] = plan->types[i];
  EXPECT_EQ(by_name["blk.0.ffn_down.weight"], TensorType::kQ2_K);
  EXPECT_EQ(by_name["blk.1.ffn_down.weight"], TensorType::kQ3_K);
  EXPECT_EQ(by_name["blk.1.attn_k.weight"], TensorType::kIQ4_XS);
  EXPECT_EQ(by_name["blk.1.ffn_up.weight"], TensorType::kQ4_K);
  EXPECT_EQ(by_name["token_embd.weight"], TensorType::kQ5_K);
  if (in.find_tensor("output.weight") != nullptr) {
    EXPECT_EQ(by_name["output.weight"], TensorType::kQ8_0);
  }
  request.rules.push_back(type_rule_of("no_such_matrix=Q8_0").value());
  EXPECT_THAT(plan_types(in.tensors(), {}, request).error().text(), HasSubstr("no_such_matrix"));
  for (const char* bad : {"ffn_down", "=Q8_0", "ffn_down=Q9", "ffn_(=Q8_0", "ffn_down=I32"}) {
    EXPECT_FALSE(type_rule_of(bad).has_value()) << bad;
  }
}

TEST_F(Quantize, ImportanceMakesImportantColumnsMoreExactAndIsRecorded) {
  const gguf::Reader in = open(model("quant-llama-f16"));
  const ImportanceMatrix importance = some_importance(in);
  const auto weighted_error = [&](const gguf::Reader& out) {
    double error = 0;
    for (const gguf::Tensor& tensor : in.tensors()) {
      if (keeps_type(tensor)) continue;
      const std::vector<float> means = importance.of(tensor)->means;
      const std::vector<float> a = values(tensor), b = values(*out.find_tensor(tensor.name));
      for (size_t i = 0; i < a.size(); ++i) error += means[i % means.size()] * std::pow(a[i] - b[i], 2.0);
    }
    return error;
  };
  const double without = weighted_error(quantized(model("quant-llama-f16"), QuantizeMix::kQ3_K_S));
  const gguf::Reader out = quantized(model("quant-llama-f16"), QuantizeMix::kQ3_K_S, &importance);
  EXPECT_LT(weighted_error(out), 0.8 * without);
  EXPECT_EQ(text_of(out.metadata(), "quantize.imatrix.dataset"), "text.txt");
  EXPECT_EQ(out.metadata().integer("quantize.imatrix.chunks_count").value_or(-1), 4);
  EXPECT_EQ(out.metadata().integer("quantize.imatrix.entries_count").value_or(-1), std::ssize(importance.entries));
}

TEST_F(Quantize, TypesOfFewBitsAreRefusedWithoutImportance) {
  for (const QuantizeMixInfo& mix : quantize_mixes()) {
    const auto report = plan_quantize(open(model("quant-llama-f16")), {.mix = mix.mix});
    ASSERT_EQ(report.has_value(), !mix.needs_importance) << mix.name;
    if (!report) {
      EXPECT_THAT(report.error().text(), HasSubstr("--imatrix"));
    }
  }
  QuantizeOptions options{.mix = QuantizeMix::kQ8_0};
  options.types.rules = {type_rule_of("ffn_up=IQ2_XXS").value()};
  const auto report = plan_quantize(open(model("quant-llama-f16")), options);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().text(), AllOf(HasSubstr("ffn_up"), HasSubstr("IQ2_XXS")));
}

TEST_F(Quantize, ADryRunSaysWhatIsWritten) {
  const gguf::Reader in = open(model("quant-llama-f16"));
  const QuantizeOptions options{.mix = QuantizeMix::kQ4_K_M, .threads = 2};
  const auto planned = plan_quantize(in, options);
  const auto done = quantize_file(model("quant-llama-f16"), path("out.gguf"), options);
  ASSERT_TRUE(planned.has_value() && done.has_value());
  EXPECT_EQ(planned->bytes_out, done->bytes_out);
  int64_t bytes = 0;
  for (const auto& [type, size] : planned->sizes) bytes += size.bytes;
  EXPECT_EQ(bytes, planned->bytes_out);
}

TEST_F(Quantize, WritesSplitFilesThatAreTheSameModel) {
  const auto whole =
      quantize_file(model("quant-llama-f16"), path("whole.gguf"), {.mix = QuantizeMix::kQ8_0, .threads = 2});
  ASSERT_TRUE(whole.has_value());
  const int64_t most = whole->bytes_out / 3;
  const auto report = quantize_file(model("quant-llama-f16"), path("parts.gguf"),
                                    {.mix = QuantizeMix::kQ8_0, .threads = 2, .split_bytes_max = most});
  ASSERT_TRUE(report.has_value()) << report.error().text();
  EXPECT_GE(report->files, 3);
  EXPECT_FALSE(std::filesystem::exists(path("parts.gguf")));
  const auto first = path(fmt::format("parts-00001-of-{:05}.gguf", report->files));
  const gguf::Reader one = open(path("whole.gguf")), parts = open(first);
  ASSERT_EQ(parts.tensors().size(), one.tensors().size());
  for (const gguf::Tensor& tensor : one.tensors()) {
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, parts.find_tensor(tensor.name)->bytes)) << tensor.name;
  }
  // The parts again, once kept and once joined.
  const auto kept = quantize_file(first, path("kept.gguf"), {.mix = QuantizeMix::kCopy, .keep_split = true});
  ASSERT_TRUE(kept.has_value()) << kept.error().text();
  EXPECT_EQ(kept->files, report->files);
  for (int64_t part = 1; part <= report->files; ++part) {
    const std::string name = fmt::format("-{:05}-of-{:05}.gguf", part, report->files);
    const auto info = [](const std::filesystem::path& file) { return std::filesystem::file_size(file); };
    EXPECT_EQ(info(path("kept" + name)), info(path("parts" + name)));
  }
  ASSERT_TRUE(quantize_file(first, path("joined.gguf"), {.mix = QuantizeMix::kCopy}).has_value());
  EXPECT_EQ(bytes_of(path("joined.gguf")), bytes_of(path("whole.gguf")));
}

TEST_F(Quantize, SmallTensorsAreKeptAndOddRowsGetAFallbackType) {
  {
    MadeModel made(path("odd.gguf"));
    made.add("output.weight", {256, 2});
    made.add("token_embd.weight", {256, 2});
    made.add("blk.0.attn_norm.weight", {256});
    made.add("blk.0.attn_q.bias", {256, 2});
    made.add("blk.0.ffn_gate_inp.weight", {256, 4});
    made.add("blk.0.ssm_conv1d.weight", {4, 256});
    made.add("blk.0.attn_q.weight", {96, 4});
    made.add("blk.0.attn_k.weight", {40, 4});
    made.add("blk.0.ffn_up.weight", {512, 2});
    made.finish();
  }
  const gguf::Reader in = open(path("odd.gguf"));
  using enum TensorType;
  EXPECT_THAT(choose_types(in, QuantizeMix::kQ4_K_S),
              ::testing::ElementsAre(kQ6_K, kQ4_K, kF32, kF32, kF32, kF32, kQ5_0, kF16, kQ4_K));
  EXPECT_THAT(choose_types(in, QuantizeMix::kQ4_0),
              ::testing::ElementsAre(kQ6_K, kQ4_0, kF32, kF32, kF32, kF32, kQ4_0, kF16, kQ4_0));
  EXPECT_THAT(choose_types(in, QuantizeMix::kBF16),
              ::testing::ElementsAre(kBF16, kBF16, kF32, kF32, kF32, kF32, kBF16, kBF16, kBF16));
  const auto report = quantize_file(path("odd.gguf"), path("out.gguf"), {.mix = QuantizeMix::kQ4_K_S, .threads = 1});
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->fallbacks, 2);
  EXPECT_EQ(report->tensors, 9);
  int64_t bytes = 0;
  const gguf::Reader out = open(path("out.gguf"));
  for (const gguf::Tensor& tensor : out.tensors()) bytes += static_cast<int64_t>(tensor.bytes.size());
  EXPECT_EQ(report->bytes_out, bytes);
  EXPECT_NEAR(report->bits_per_weight(), 8.0 * static_cast<double>(bytes) / static_cast<double>(report->elements),
              1e-9);
}

// Every block format can be the input, the narrowest included.
TEST_F(Quantize, AcceptsEveryBlockTypeAsInput) {
  for (const std::string name : {"quant-llama-q2_k", "quant-llama-iq4_xs", "quant-gpt-oss-mxfp4", "quant-llama-bf16"}) {
    SCOPED_TRACE(name);
    const gguf::Reader in = open(model(name));
    const gguf::Reader wide = quantized(model(name), QuantizeMix::kF32);
    for (const gguf::Tensor& tensor : in.tensors()) {
      const gguf::Tensor* after = wide.find_tensor(tensor.name);
      ASSERT_NE(after, nullptr);
      EXPECT_EQ(after->type, TensorType::kF32);
      EXPECT_EQ(values(tensor), values(*after)) << tensor.name;
    }
    const gguf::Reader narrow = quantized(model(name), QuantizeMix::kQ8_0);
    for (const gguf::Tensor& tensor : in.tensors()) {
      const gguf::Tensor* after = narrow.find_tensor(tensor.name);
      ASSERT_NE(after, nullptr);
      EXPECT_LE(nmse(tensor, *after), nmse_allowed(after->type)) << tensor.name;
    }
  }
}

TEST_F(Quantize, ATensorThatHasTheTypeAlreadyIsCopied) {
  const gguf::Reader in = open(model("quant-llama-q4_k_m"));
  const gguf::Reader out = quantized(model("quant-llama-q4_k_m"), QuantizeMix::kQ4_K_M);
  for (const gguf::Tensor& tensor : in.tensors()) {
    const gguf::Tensor* after = out.find_tensor(tensor.name);
    ASSERT_NE(after, nullptr);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, after->bytes)) << tensor.name;
  }
}

TEST_F(Quantize, GivesTheSameBytesForAnyNumberOfThreads) {
  for (int threads : {1, 3}) {
    ASSERT_TRUE(quantize_file(model("quant-llama-f16"), path(std::to_string(threads)),
                              {.mix = QuantizeMix::kQ4_K_M, .threads = threads})
                    .has_value());
  }
  EXPECT_EQ(bytes_of(path("1")), bytes_of(path("3")));
  EXPECT_GT(bytes_of(path("1")).size(), 500'000u);
}

TEST_F(Quantize, ProgressReachesTheEnd) {
  std::vector<QuantizeProgress> seen;
  const auto report = quantize_file(
      model("llama"), path("out.gguf"),
      {.mix = QuantizeMix::kQ8_0, .threads = 2, .progress = [&](const QuantizeProgress& p) { seen.push_back(p); }});
  ASSERT_TRUE(report.has_value());
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::ranges::is_sorted(seen, {}, &QuantizeProgress::bytes_done));
  EXPECT_EQ(seen.back().bytes_done, report->bytes_in);
  EXPECT_EQ(seen.back().bytes_total, report->bytes_in);
  EXPECT_EQ(seen.back().tensor_index + 1, report->tensors);
}

TEST_F(Quantize, AnErrorNamesTheFirstNanOrInfinity) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> data(size_t{256} * 400, 0.5f);
    data[256 * 123 + 7] = bad;
    data[256 * 390 + 1] = bad;
    {
      MadeModel made(path("bad.gguf"));
      made.add("token_embd.weight", {256, 2});
      made.add("blk.0.attn_q.weight", {256, 400}, data);
      made.finish();
    }
    for (const QuantizeMixInfo& mix : quantize_mixes()) {
      if (mix.needs_importance || mix.mix == QuantizeMix::kCopy) continue;
      const auto report = quantize_file(path("bad.gguf"), path("out.gguf"), {.mix = mix.mix, .threads = 2});
      ASSERT_FALSE(report.has_value());
      EXPECT_EQ(report.error().code, Code::kCorruptFile);
      EXPECT_EQ(report.error().at, "tensor blk.0.attn_q.weight, row 123, column 7");
      EXPECT_FALSE(std::filesystem::exists(path("out.gguf")));
    }
  }
  // No half-written file is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Quantize, RefusesNumbersThatTheTypeCannotHold) {
  {
    MadeModel made(path("large.gguf"));
    made.add("blk.0.attn_q.weight", {256, 2}, {70'000.0f});
    made.finish();
  }
  const auto report = quantize_file(path("large.gguf"), path("out.gguf"), {.mix = QuantizeMix::kF16});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::kUnsupported);
  EXPECT_THAT(report.error().text(), AllOf(HasSubstr("70000"), HasSubstr("F16"), HasSubstr("row 0, column 0")));
  EXPECT_TRUE(quantize_file(path("large.gguf"), path("out.gguf"), {.mix = QuantizeMix::kBF16}).has_value());
}

TEST_F(Quantize, RefusesToReplaceItsInput) {
  const auto in = path("in.gguf");
  std::filesystem::copy_file(model("llama"), in);
  const std::string before = bytes_of(in);
  std::filesystem::create_symlink(in, path("link.gguf"));
  for (const auto& out : {in, path("link.gguf"), folder_ / "." / "in.gguf"}) {
    const auto report = quantize_file(in, out, {.mix = QuantizeMix::kQ8_0});
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(bytes_of(in), before);
}

TEST_F(Quantize, ReadsAllPartsOfASplitModel) {
  const auto part = [&](int number) { return path("m-0000" + std::to_string(number) + "-of-00002.gguf"); };
  for (int number : {1, 2}) {
    MadeModel made(part(number));
    made.writer().set_integer("split.no", gguf::ValueType::kU16, number - 1);
    made.writer().set_integer("split.count", gguf::ValueType::kU16, 2);
    made.writer().set_integer("split.tensors.count", gguf::ValueType::kI32, 2);
    made.add("blk." + std::to_string(number - 1) + ".attn_q.weight", {256, 2}, {1.0f, static_cast<float>(number)});
    made.finish();
  }
  const gguf::Reader out = quantized(part(2), QuantizeMix::kF16);
  EXPECT_EQ(out.tensors().size(), 2u);
  ASSERT_NE(out.find_tensor("blk.1.attn_q.weight"), nullptr);
  EXPECT_EQ(values(*out.find_tensor("blk.1.attn_q.weight"))[1], 2.0f);
  EXPECT_FALSE(out.metadata().contains("split.count"));
  for (int number : {1, 2}) {
    const auto report = quantize_file(part(1), part(number), {.mix = QuantizeMix::kF16});
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  }
}

TEST_F(Quantize, RefusesBadThreadCountsAndMissingFiles) {
  for (int threads : {-1, kQuantizeThreadsMax + 1}) {
    const auto report = quantize_file(model("llama"), path("out.gguf"), {.threads = threads});
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  }
  const auto missing = quantize_file(path("none.gguf"), path("out.gguf"), {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_FALSE(quantize_file(model("llama"), path("no/such/folder.gguf"), {}).has_value());
}

TEST(QuantizeMixes, AreFoundByTheirNamesIgnoringCase) {
  for (const QuantizeMixInfo& info : quantize_mixes()) {
    EXPECT_EQ(quantize_mix_named(info.name), info.mix);
    EXPECT_EQ(&quantize_mix_info(info.mix), &info);
  }
  EXPECT_EQ(quantize_mix_named("q4_k"), QuantizeMix::kQ4_K_M);
  EXPECT_EQ(quantize_mix_named("bf16"), QuantizeMix::kBF16);
  EXPECT_EQ(quantize_mix_named("q3_k"), QuantizeMix::kQ3_K_M);
  EXPECT_EQ(quantize_mix_named("Q7_K_M"), std::nullopt);
  EXPECT_EQ(quantize_mix_named(""), std::nullopt);
}

}  // namespace
}  // namespace cairn::convert
