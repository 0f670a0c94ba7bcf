// Files that are well-formed GGUF and still no model: made by changing bytes of a good one.
#include "model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include "base/testing/test_data.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/arch/table.h"
#include "model/embedder.h"
#include "model/testing/broken_backend.h"

namespace cairn::model {
namespace {

class EditedFile {
 public:
  explicit EditedFile(std::string_view fixture) {
    std::ifstream stream(std::filesystem::path(test_data()) / "models" / fixture, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    bytes_.resize(text.size());
    std::memcpy(bytes_.data(), text.data(), text.size());
  }

  /// The metadata value of a key, which must be of the size of T.
  template <class T>
  EditedFile& set(std::string_view key, T value) {
    std::memcpy(after(key) + sizeof(uint32_t), &value, sizeof(value));
    return *this;
  }
  /// A number of an array.
  template <class T>
  EditedFile& set_element(std::string_view key, size_t element, T value) {
    constexpr size_t kArrayHead = 2 * sizeof(uint32_t) + sizeof(uint64_t);  // both types, and the count
    std::memcpy(after(key) + kArrayHead + element * sizeof(value), &value, sizeof(value));
    return *this;
  }
  /// A string value, or a name, by one of the same length.
  EditedFile& replace(std::string_view text, std::string_view with) {
    EXPECT_EQ(text.size(), with.size());
    std::memcpy(after(text) - text.size(), with.data(), with.size());
    return *this;
  }
  EditedFile& swap_dimensions(std::string_view tensor) {
    std::byte* shape = after(tensor) + sizeof(uint32_t);
    std::swap_ranges(shape, shape + sizeof(uint64_t), shape + sizeof(uint64_t));
    return *this;
  }
  /// Dimensions stay, so the type must be of the same size as the one before.
  EditedFile& set_type(std::string_view tensor, TensorType type) {
    std::byte* place = after(tensor);
    uint32_t dimensions = 0;
    std::memcpy(&dimensions, place, sizeof(dimensions));
    std::memcpy(place + sizeof(uint32_t) + dimensions * sizeof(uint64_t), &type, sizeof(type));
    return *this;
  }
  /// The first float of a tensor.
  EditedFile& set_first(std::string_view tensor, float value) {
    const auto reader = gguf::Reader::from_bytes(bytes_);
    EXPECT_TRUE(reader.has_value());
    const size_t offset = reader->find_tensor(tensor)->bytes.data() - bytes_.data();
    std::memcpy(bytes_.data() + offset, &value, sizeof(value));
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  /// What follows a length-prefixed string.
  std::byte* after(std::string_view text) {
    std::string pattern(sizeof(uint64_t), '\0');
    const uint64_t length = text.size();
    std::memcpy(pattern.data(), &length, sizeof(length));
    pattern += text;
    const auto* begin = reinterpret_cast<const std::byte*>(pattern.data());
    const auto at = std::search(bytes_.begin(), bytes_.end(), begin, begin + pattern.size());
    EXPECT_NE(at, bytes_.end()) << text;
    return &*at + pattern.size();
  }

  std::vector<std::byte> bytes_;
};

std::vector<int32_t> pages_of_each(const Runner& runner, int32_t pages) {
  return std::vector<int32_t>(runner.kv_layout().groups.size(), pages);
}

class ModelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { backend_ = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value().release(); }
  static void TearDownTestSuite() { delete backend_; }

  /// Loads and drops the model; what is left is the error.
  static Error load(const EditedFile& file, const ModelOptions& options = {}) {
    const auto reader = gguf::Reader::from_bytes(file.bytes());
    EXPECT_TRUE(reader.has_value()) << reader.error().text();
    if (!reader.has_value()) return {};
    const auto runner = load_model(*reader, *backend_, options);
    return runner.has_value() ? Error{Code::kInternal, "it loaded", {}} : runner.error();
  }
  static void expect_error(const EditedFile& file, Code code, std::initializer_list<std::string_view> parts,
                           const ModelOptions& options = {}) {
    const Error error = load(file, options);
    EXPECT_EQ(error.code, code) << error.text();
    for (const std::string_view part : parts) {
      EXPECT_NE(error.text().find(part), std::string::npos) << "no \"" << part << "\" in: " << error.text();
    }
  }

  static kernels::Backend* backend_;
};
kernels::Backend* ModelTest::backend_ = nullptr;

TEST_F(ModelTest, ArchitecturesAreSortedAndTheGoodFileLoads) {
  const auto all = architectures();
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &Architecture::name));
  for (const Architecture& each : all) {
    EXPECT_EQ(each.read_decoder != nullptr || each.read_whole != nullptr,
              each.kind == ArchitectureKind::kDecoder || each.kind == ArchitectureKind::kAssistant)
        << each.name;
    EXPECT_EQ(each.read_encoder != nullptr, each.kind == ArchitectureKind::kEncoder) << each.name;
  }
  EXPECT_EQ(load(EditedFile("llama.gguf")).message, "it loaded");
}

TEST_F(ModelTest, UnknownArchitectureListsTheKnown) {
  expect_error(EditedFile("llama.gguf").replace("llama", "lhama"), Code::kUnsupported,
               {"lhama", "llama", "qwen3moe", "bert", "deepseek4"});
}

TEST_F(ModelTest, NumbersOutOfRangeNameTheirKey) {
  const auto expect_u32 = [](const char* key, uint32_t value, const char* said) {
    const std::string name = std::string("llama.") + key;
    expect_error(EditedFile("llama.gguf").set(name, value), Code::kCorruptFile, {name, said});
  };
  expect_u32("attention.head_count", 0, "is 0");
  expect_u32("attention.head_count", 0xffffffff, "4294967295");
  expect_u32("attention.head_count_kv", 0, "is 0");
  expect_u32("attention.head_count_kv", 3, "does not divide");
  expect_u32("attention.head_count_kv", 5, "must be in 1 .. 4");
  expect_u32("attention.key_length", 0, "is 0");
  expect_u32("attention.value_length", 1 << 30, "1073741824");
  expect_u32("block_count", 0, "is 0");
  expect_u32("block_count", 0xffffffff, "4294967295");
  expect_u32("embedding_length", 0, "is 0");
  expect_u32("embedding_length", 0x7fffffff, "2147483647");
  expect_u32("feed_forward_length", 0, "is 0");
  expect_u32("context_length", 0, "is 0");
  expect_u32("rope.dimension_count", 0, "is 0");
  expect_u32("rope.dimension_count", 34, "must be in 2 .. 32");
  expect_u32("rope.dimension_count", 31, "pairs");
}

TEST_F(ModelTest, AValueThatIsNoUsableNumberIsRefusedNamingItsKey) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const char* epsilon = "llama.attention.layer_norm_rms_epsilon";
  expect_error(EditedFile("llama.gguf").set(epsilon, nan), Code::kCorruptFile, {epsilon});
  expect_error(EditedFile("llama.gguf").set(epsilon, -1.0f), Code::kCorruptFile, {epsilon, "negative"});
  expect_error(EditedFile("llama.gguf").set("llama.rope.freq_base", infinity), Code::kCorruptFile, {"freq_base"});
  expect_error(EditedFile("llama.gguf").set("llama.rope.freq_base", 0.0f), Code::kCorruptFile, {"freq_base"});
  expect_error(EditedFile("llama-rope-yarn.gguf").set("llama.rope.freq_base", 1.0f), Code::kCorruptFile, {"freq_base"});
  expect_error(EditedFile("llama-rope-linear.gguf").set("llama.rope.scaling.factor", -2.0f), Code::kCorruptFile,
               {"rope.scaling.factor"});
  expect_error(EditedFile("granite.gguf").set("granite.logit_scale", 0.0f), Code::kCorruptFile, {"logit_scale"});
  expect_error(EditedFile("granite.gguf").set("granite.attention.scale", -1.0f), Code::kCorruptFile,
               {"attention.scale", "-1"});
}

TEST_F(ModelTest, MissingKeysAndWrongTypesNameTheKey) {
  expect_error(EditedFile("llama.gguf").replace("llama.block_count", "llama.block_c0unt"), Code::kCorruptFile,
               {"llama.block_count"});
  expect_error(EditedFile("llama.gguf").replace("general.architecture", "general.architectur3"), Code::kCorruptFile,
               {"general.architecture"});
  expect_error(EditedFile("llama-rope-yarn.gguf").replace("yarn", "warp"), Code::kUnsupported,
               {"llama.rope.scaling.type", "warp", "longrope"});
}

TEST_F(ModelTest, ExpertsOutOfRange) {
  EditedFile none("qwen3moe.gguf");
  expect_error(none.set("qwen3moe.expert_count", 0u), Code::kCorruptFile, {"qwen3moe.expert_count"});
  EditedFile more("qwen3moe.gguf");
  expect_error(more.set("qwen3moe.expert_used_count", 9u), Code::kCorruptFile,
               {"qwen3moe.expert_used_count", "1 .. 8"});
  EditedFile width("qwen3moe.gguf");
  expect_error(width.set("qwen3moe.expert_feed_forward_length", 64u), Code::kCorruptFile,
               {"blk.0.ffn_gate_exps.weight", "[64, 32, 8]", "[64, 64, 8]"});
}

TEST_F(ModelTest, TensorsMissingOrOfTheWrongShapeAreNamed) {
  expect_error(EditedFile("llama.gguf").replace("blk.1.attn_k.weight", "blk.1.attn_k.w3ight"), Code::kCorruptFile,
               {"blk.1.attn_k.weight", "missing", "[64, 64]"});
  expect_error(EditedFile("llama.gguf").swap_dimensions("blk.1.ffn_down.weight"), Code::kCorruptFile,
               {"blk.1.ffn_down.weight", "[64, 96]", "[96, 64]"});
  expect_error(EditedFile("llama.gguf").replace("output_norm.weight", "output_n0rm.weight"), Code::kCorruptFile,
               {"output_norm.weight"});
  expect_error(EditedFile("llama.gguf").replace("token_embd.weight", "token_embb.weight"), Code::kCorruptFile,
               {"token_embd.weight", "missing"});
  expect_error(EditedFile("llama.gguf").set("llama.feed_forward_length", 97u), Code::kCorruptFile,
               {"blk.0.ffn_gate.weight", "[64, 97]"});
  expect_error(EditedFile("phi3.gguf").set("phi3.attention.head_count_kv", 4u), Code::kCorruptFile,
               {"blk.0.attn_qkv.weight", "[64, 192]"});
  expect_error(EditedFile("llama.gguf").set("llama.block_count", 3u), Code::kCorruptFile, {"blk.2."});
}

TEST_F(ModelTest, SinksAndBiasesOfGptOssThatAreMissingOrMisshapenAreNamed) {
  expect_error(EditedFile("gpt-oss.gguf").replace("blk.1.attn_sinks.weight", "blk.1.attn_s1nks.weight"),
               Code::kCorruptFile, {"blk.1.attn_sinks.weight", "missing", "[4]"});
  expect_error(
      EditedFile("gpt-oss.gguf").replace("blk.0.post_attention_norm.weight", "blk.0.post_attention_n0rm.weight"),
      Code::kCorruptFile, {"blk.0.post_attention_norm.weight", "missing"});
  expect_error(EditedFile("gpt-oss.gguf").swap_dimensions("blk.0.ffn_down_exps.bias"), Code::kCorruptFile,
               {"blk.0.ffn_down_exps.bias", "[8, 64]", "[64, 8]"});
  expect_error(EditedFile("gpt-oss.gguf").set("gpt-oss.attention.sliding_window", 0u), Code::kCorruptFile,
               {"gpt-oss.attention.sliding_window", "is 0"});
  expect_error(EditedFile("gpt-oss.gguf").set("gpt-oss.expert_used_count", 9u), Code::kCorruptFile,
               {"gpt-oss.expert_used_count", "1 .. 8"});
}

TEST_F(ModelTest, LayersOfGemma4ThatDoNotFitAreNamed) {
  const auto corrupt = [](const EditedFile& file, std::initializer_list<std::string_view> parts) {
    expect_error(file, Code::kCorruptFile, parts);
  };
  const auto e = [] { return EditedFile("gemma4.gguf"); };
  corrupt(e().replace("gemma4.attention.sliding_window_pattern", "gemma4.attention.sliding_window_p4ttern"),
          {"gemma4.attention.sliding_window_pattern", "missing"});
  corrupt(e().set("gemma4.attention.shared_kv_layers", 6u), {"gemma4.attention.shared_kv_layers", "0 .. 5"});
  corrupt(e().set("gemma4.attention.shared_kv_layers", 3u), {"gemma4.attention.shared_kv_layers", "layer 3"});
  corrupt(e().set("gemma4.attention.key_length_swa", 16u), {"gemma4.rope.dimension_count_swa", "2 .. 16"});
  corrupt(e().set("gemma4.rope.dimension_count_swa", 31u), {"gemma4.rope.dimension_count_swa", "pairs"});
  corrupt(e().set("gemma4.attention.value_length_swa", 16u), {"blk.0.attn_v.weight", "[64, 64]", "[64, 32]"});
  corrupt(e().set("gemma4.embedding_length_per_layer_input", 17u),
          {"per_layer_token_embd.weight", "[96, 316]", "[102, 316]"});
  corrupt(e().set_element("gemma4.feed_forward_length", 4, 0u), {"gemma4.feed_forward_length", "an entry 0"});
  corrupt(e().set_element("gemma4.feed_forward_length", 4, 96u), {"blk.4.ffn_gate.weight", "[64, 192]", "[64, 96]"});
  const auto dense = [] { return EditedFile("gemma4-dense.gguf"); };
  corrupt(dense().set_element("gemma4.attention.head_count_kv", 3, 3u),
          {"gemma4.attention.head_count_kv is 3", "does not divide"});
  corrupt(dense().set_element("gemma4.attention.head_count_kv", 3, 2u), {"blk.3.attn_k.weight", "[64, 128]"});
  corrupt(dense().set("gemma4.attention.value_length", 32u), {"layer 3", "attn_v", "64", "32"});
}

TEST_F(ModelTest, TensorsOfGemma4ThatAreMissingAreNamed) {
  const auto expect_missing = [](std::string_view model, std::string_view tensor) {
    SCOPED_TRACE(tensor);
    std::string other(tensor);
    other[other.size() - 2] = 'x';
    expect_error(EditedFile(model).replace(tensor, other), Code::kCorruptFile, {tensor, "missing"});
  };
  for (const char* tensor :
       {"per_layer_token_embd.weight", "per_layer_model_proj.weight", "per_layer_proj_norm.weight",
        "blk.5.inp_gate.weight", "blk.5.proj.weight", "blk.5.post_norm.weight", "blk.5.layer_output_scale.weight",
        "blk.0.attn_v.weight", "blk.0.attn_k.weight", "blk.5.attn_q_norm.weight", "blk.5.post_ffw_norm.weight"}) {
    expect_missing("gemma4.gguf", tensor);
  }
  for (const char* tensor : {"blk.0.post_ffw_norm_1.weight", "blk.0.post_ffw_norm_2.weight",
                             "blk.0.pre_ffw_norm_2.weight", "blk.0.ffn_gate_inp.scale", "blk.0.ffn_up.weight"}) {
    expect_missing("gemma4-moe.gguf", tensor);
  }
}

TEST_F(ModelTest, LatentAttentionThatDoesNotFitIsNamed) {
  const auto expect_u32 = [](std::string_view model, std::string_view key, uint32_t value,
                             std::initializer_list<std::string_view> parts, Code code = Code::kCorruptFile) {
    SCOPED_TRACE(key);
    EditedFile file(fmt::format("{}.gguf", model));
    expect_error(file.set(fmt::format("{}.{}", model, key), value), code, parts);
  };
  expect_u32("deepseek2", "attention.kv_lora_rank", 0, {"deepseek2.attention.kv_lora_rank", "is 0"});
  expect_u32("deepseek2", "attention.kv_lora_rank", 33, {"blk.0.attn_kv_a_mqa.weight", "[64, 48]", "[64, 49]"});
  expect_u32("deepseek2", "attention.q_lora_rank", 0, {"blk.0.attn_q.weight", "[64, 128]", "missing"});
  expect_u32("deepseek2", "attention.key_length_mla", 16, {"deepseek2.attention.key_length_mla", "16"});
  expect_u32("deepseek2", "attention.key_length_mla", 40, {"blk.0.attn_q_b.weight", "[48, 160]"});
  expect_u32("deepseek2", "attention.value_length_mla", 25, {"blk.0.attn_v_b.weight", "[32, 25, 4]"});
  expect_u32("deepseek32", "attention.indexer.key_length", 8, {"deepseek32.attention.indexer.key_length", "16 .."});
  expect_u32("deepseek32", "attention.indexer.top_k", 0, {"deepseek32.attention.indexer.top_k", "is 0"});
  expect_u32("deepseek32", "attention.indexer.head_count", 5, {"blk.0.indexer.attn_q_b.weight", "[48, 320]"});
  expect_error(EditedFile("deepseek32.gguf").replace("blk.1.indexer.k_norm.bias", "blk.1.indexer.k_n0rm.bias"),
               Code::kCorruptFile, {"blk.1.indexer.k_norm.bias", "missing"});
  expect_error(EditedFile("deepseek2-nomla.gguf").set("deepseek2.attention.value_length", 23u), Code::kCorruptFile,
               {"blk.0.attn_kv_b.weight", "[32, 160]", "[32, 156]"});
}

TEST_F(ModelTest, RoutingThatDoesNotFitIsNamed) {
  const auto expect_u32 = [](std::string_view key, uint32_t value, std::initializer_list<std::string_view> parts,
                             Code code = Code::kCorruptFile) {
    SCOPED_TRACE(key);
    expect_error(EditedFile("deepseek2.gguf").set(fmt::format("deepseek2.{}", key), value), code, parts);
  };
  expect_u32("expert_group_count", 3, {"deepseek2.expert_group_count", "does not divide", "8 experts"});
  expect_u32("expert_group_used_count", 5, {"deepseek2.expert_group_used_count", "1 .. 4"});
  expect_u32("expert_group_used_count", 1, {"deepseek2.expert_group_used_count", "2 experts"});
  expect_u32("expert_gating_func", 7, {"deepseek2.expert_gating_func", "is 7", "sigmoid"}, Code::kUnsupported);
  expect_u32("leading_dense_block_count", 4, {"deepseek2.leading_dense_block_count", "0 .. 3"});
  expect_u32("leading_dense_block_count", 2, {"blk.1.ffn_gate.weight", "missing"});
  expect_u32("expert_shared_count", 2, {"blk.1.ffn_gate_shexp.weight", "[64, 64]"});
}

// Layer norms and their biases, norms by other names, positions, norms of queries: each in a model that has it.
TEST_F(ModelTest, TensorsOfOtherLayersMissingOrOfTheWrongShapeAreNamed) {
  const auto expect_missing = [](std::string_view model, std::string tensor, std::string_view shape) {
    SCOPED_TRACE(model);
    std::string other = tensor;
    other.back() = '_';
    expect_error(EditedFile(fmt::format("{}.gguf", model)).replace(tensor, other), Code::kCorruptFile,
                 {tensor, "missing", shape});
  };
  expect_missing("command-r", "blk.1.attn_norm.weight", "[64]");
  expect_missing("ernie4_5-moe", "blk.1.ffn_up_shexp.weight", "[64, 32]");
  expect_missing("exaone4", "blk.1.post_ffw_norm.weight", "[64]");
  expect_missing("falcon", "output_norm.bias", "[64]");
  expect_missing("falcon", "blk.1.ffn_up.weight", "[64, 96]");
  expect_missing("falcon-40b", "blk.0.attn_norm_2.bias", "[64]");
  expect_missing("falcon-40b", "blk.1.attn_norm_2.weight", "[64]");
  expect_missing("glm4", "blk.0.ffn_up.weight", "[64, 192]");
  expect_missing("glm4moe", "blk.1.post_attention_norm.weight", "[64]");
  expect_missing("glm4moe", "blk.1.attn_k_norm.weight", "[32]");
  expect_missing("gpt2", "position_embd.weight", "[64, 1024]");
  expect_missing("hunyuan-dense", "blk.1.attn_q_norm.weight", "[32]");
  expect_missing("minimax-m2", "blk.0.attn_q_norm.weight", "[128]");
  expect_missing("nemotron", "blk.1.ffn_norm.bias", "[64]");
  expect_missing("stablelm", "blk.1.ffn_norm.weight", "[64]");
  expect_missing("stablelm-parallel", "blk.0.attn_k_norm.weight", "[16, 2]");
  expect_missing("starcoder2", "blk.0.attn_norm.bias", "[64]");
  expect_error(EditedFile("stablelm-parallel.gguf").swap_dimensions("blk.0.attn_q_norm.weight"), Code::kCorruptFile,
               {"blk.0.attn_q_norm.weight", "[4, 16]", "[16, 4]"});
  expect_error(EditedFile("gpt2.gguf").set("gpt2.context_length", 1'000u), Code::kCorruptFile,
               {"position_embd.weight", "[64, 1024]", "[64, 1000]"});
}

TEST_F(ModelTest, KeysOfOtherLayersMissingOrOutOfRangeAreNamed) {
  const auto expect_missing = [](std::string_view model, std::string key) {
    std::string other = key;
    other.back() = '_';
    expect_error(EditedFile(fmt::format("{}.gguf", model)).replace(key, other), Code::kCorruptFile, {key});
  };
  expect_missing("command-r", "command-r.logit_scale");
  expect_missing("command-r", "command-r.attention.layer_norm_epsilon");
  expect_missing("gpt2", "gpt2.attention.layer_norm_epsilon");
  expect_missing("minimax-m2", "minimax-m2.expert_used_count");
  expect_error(EditedFile("nemotron.gguf").set("nemotron.attention.layer_norm_epsilon", -1.0f), Code::kCorruptFile,
               {"nemotron.attention.layer_norm_epsilon", "negative"});
  expect_error(EditedFile("cohere2.gguf").set("cohere2.logit_scale", 0.0f), Code::kCorruptFile,
               {"cohere2.logit_scale", "above zero"});
  expect_error(EditedFile("cohere2.gguf").set("cohere2.attention.sliding_window", 0u), Code::kCorruptFile,
               {"cohere2.attention.sliding_window", "is 0"});
  expect_error(EditedFile("ernie4_5-moe.gguf").set("ernie4_5-moe.interleave_moe_layer_step", 3u), Code::kCorruptFile,
               {"ernie4_5-moe.interleave_moe_layer_step", "1 .. 2"});
  expect_error(EditedFile("glm4moe-mtp.gguf").set("glm4moe.nextn_predict_layers", 3u), Code::kCorruptFile,
               {"glm4moe.nextn_predict_layers", "0 .. 2"});
  expect_error(EditedFile("minimax-m2.gguf").set("minimax-m2.expert_gating_func", 7u), Code::kUnsupported,
               {"minimax-m2.expert_gating_func", "is 7"});
}

TEST_F(ModelTest, TensorTypesWithoutAProductAreUnsupported) {
  expect_error(EditedFile("llama.gguf").set_type("blk.0.attn_q.weight", TensorType::kI32), Code::kUnsupported,
               {"blk.0.attn_q.weight", "I32", "Q4_K"});
  expect_error(EditedFile("llama.gguf").set_type("blk.0.attn_norm.weight", TensorType::kI32), Code::kUnsupported,
               {"blk.0.attn_norm.weight", "I32"});
}

TEST_F(ModelTest, VocabularyMustAgree) {
  expect_error(EditedFile("llama.gguf").swap_dimensions("token_embd.weight"), Code::kCorruptFile,
               {"token_embd.weight", "64 rows", "tokenizer.ggml.tokens", "316"});
  EditedFile without_list("llama.gguf");
  without_list.replace("tokenizer.ggml.tokens", "tokenizer.ggml.t0kens").set("llama.vocab_size", 317u);
  expect_error(without_list, Code::kCorruptFile, {"llama.vocab_size", "317"});
}

TEST_F(ModelTest, RopeFactorsMustBeAboveZeroAndOnePerPair) {
  expect_error(EditedFile("llama-tied-llama3rope.gguf").set_first("rope_freqs.weight", 0), Code::kCorruptFile,
               {"rope_freqs.weight"});
  expect_error(EditedFile("phi3-longrope.gguf").set("phi3.rope.dimension_count", 14u), Code::kCorruptFile,
               {"rope_factors_long.weight", "6", "7"});
}

TEST_F(ModelTest, ContextBeyondTheTrainedOneIsRefusedWithBothCounts) {
  const EditedFile file("llama.gguf");
  expect_error(file, Code::kInvalidArgument, {"2049", "2048"}, {.context_tokens = 2'049});
  expect_error(file, Code::kInvalidArgument, {"-1"}, {.context_tokens = -1});
  EXPECT_EQ(load(file, {.context_tokens = 2'048}).message, "it loaded");
}

TEST_F(ModelTest, WhatDoesNotFitIsOutOfMemoryWithBothCounts) {
  const EditedFile file("llama.gguf");
  expect_error(file, Code::kOutOfMemory, {"MiB are available", "scratch"}, {.batch_tokens_max = 1'000'000'000});
}

TEST_F(ModelTest, AValueThatDeepSeekV4DoesNotHaveIsRefusedNamingItsKey) {
  const auto expect_u32 = [](const char* key, uint32_t value, const char* said) {
    const std::string name = std::string("deepseek4.") + key;
    expect_error(EditedFile("deepseek4.gguf").set(name, value), Code::kCorruptFile, {name, said});
  };
  EXPECT_EQ(load(EditedFile("deepseek4.gguf")).message, "it loaded");
  expect_u32("attention.head_count_kv", 2, "one row is key and value");
  expect_u32("attention.value_length", 32, "values are the keys");
  expect_u32("attention.output_group_count", 3, "divide the 4 heads");
  expect_u32("attention.indexer.key_length", 48, "power of two");
  expect_u32("attention.indexer.top_k", 0, "is 0");
  expect_u32("attention.sliding_window", 0, "is 0");
  expect_u32("expert_gating_func", 2, "square root of softplus");
  expect_u32("expert_used_count", 9, "1 .. 8");
  expect_u32("hash_layer_count", 5, "0 .. 4");
  expect_u32("hyper_connection.count", 9, "1 .. 8");
  expect_u32("hyper_connection.sinkhorn_iterations", 0, "is 0");
  expect_u32("rope.dimension_count", 31, "pairs");
  const std::string ratios = "deepseek4.attention.compress_ratios";
  expect_error(EditedFile("deepseek4.gguf").set("deepseek4.block_count", 5u), Code::kCorruptFile,
               {ratios, "4 entries", "5 layers"});
  // An array: type, count, then the numbers.
  expect_error(EditedFile("deepseek4.gguf").set_element(ratios, 3, 48u), Code::kCorruptFile, {ratios, "48", "layer 3"});
  expect_error(
      EditedFile("deepseek4.gguf").replace("blk.2.attn_compressor_kv.weight", "blk.2.attn_compressor_kw.weight"),
      Code::kCorruptFile, {"blk.2.attn_compressor_kv.weight", "missing", "[64, 128]"});
  expect_error(EditedFile("deepseek4.gguf").swap_dimensions("blk.2.indexer.proj.weight"), Code::kCorruptFile,
               {"blk.2.indexer.proj.weight", "[4, 64]", "[64, 4]"});
  expect_error(EditedFile("deepseek4.gguf").set_element(ratios, 3, 4u), Code::kCorruptFile,
               {"blk.3.attn_compressor_kv.weight", "[64, 64]", "[64, 128]"});
  const float expert = std::bit_cast<float>(8);
  expect_error(EditedFile("deepseek4-hash.gguf").set_first("blk.0.ffn_gate_tid2eid.weight", expert), Code::kCorruptFile,
               {"blk.0.ffn_gate_tid2eid.weight", "expert 8", "token 0", "there are 8"});
  expect_error(EditedFile("deepseek4.gguf").set("deepseek4.hash_layer_count", 1u), Code::kCorruptFile,
               {"blk.0.ffn_gate_tid2eid.weight", "missing"});
}

// Weights that are no numbers must give logits that are none, not a crash: routing among them included.
TEST_F(ModelTest, NanWeightsGiveNanLogits) {
  EditedFile file("qwen2moe.gguf");
  file.set_first("blk.0.attn_norm.weight", std::numeric_limits<float>::quiet_NaN());
  const auto reader = gguf::Reader::from_bytes(file.bytes());
  ASSERT_TRUE(reader.has_value());
  const auto runner = load_model(*reader, *backend_, {.context_tokens = 64});
  ASSERT_TRUE(runner.has_value());
  auto pool = cache::PagePool::create(*backend_, (*runner)->kv_layout(), pages_of_each(**runner, 2));
  ASSERT_TRUE(pool.has_value());
  cache::PageTable pages;
  ASSERT_TRUE(pool->extend(pages, 5));
  const std::vector<TokenId> tokens(5, TokenId{7});
  const BatchSlice slice{SequenceId{}, 0, 5, 0, &pages, LogitsWanted::kLast};
  const auto logits = (*runner)->step({tokens, std::span(&slice, 1), &*pool});
  ASSERT_TRUE(logits.has_value());
  ASSERT_EQ(logits->rows(), 1);
  EXPECT_TRUE(std::isnan(logits->row(0)[0]));
}

TEST_F(ModelTest, BatchesBeyondTheLimitsAreProgrammerErrors) {
  const EditedFile file("llama.gguf");
  const auto reader = gguf::Reader::from_bytes(file.bytes());
  const auto runner = load_model(*reader, *backend_, {.context_tokens = 40, .batch_tokens_max = 4, .logits_max = 2});
  ASSERT_TRUE(runner.has_value());
  auto pool = cache::PagePool::create(*backend_, (*runner)->kv_layout(), pages_of_each(**runner, 2));
  ASSERT_TRUE(pool.has_value());
  cache::PageTable pages;
  ASSERT_TRUE(pool->extend(pages, 32));
  const auto step = [&](std::vector<TokenId> tokens, BatchSlice slice) {
    slice.pages = &pages;
    return (*runner)->step({tokens, std::span(&slice, 1), &*pool})->rows();
  };
  const TokenId token{1};
  EXPECT_EQ(step({token}, {.rows = 1, .position_begin = 31}), 1);
  EXPECT_EQ(step({token}, {.rows = 1, .logits = LogitsWanted::kNone}), 0);
  EXPECT_DEATH(step({TokenId{316}}, {.rows = 1}), "vocabulary");
  EXPECT_DEATH(step({kNoToken}, {.rows = 1}), "vocabulary");
  EXPECT_DEATH(step({token}, {.rows = 1, .position_begin = 32}), "kPageTokens");
  EXPECT_DEATH(step({token}, {.rows = 1, .position_begin = 40}), "context_tokens");
  EXPECT_DEATH(step({token}, {.rows = 2}), "slice.rows");
  EXPECT_DEATH(step({token, token}, {.row_begin = 1, .rows = 1}), "row_begin");
  EXPECT_DEATH(step({token, token}, {.rows = 1}), "rows\\(\\)");
  EXPECT_DEATH(step(std::vector(5, token), {.rows = 5}), "limits_.rows");
  EXPECT_DEATH(step(std::vector(3, token), {.rows = 3, .logits = LogitsWanted::kAll}), "limits_.logit_rows");
}

TEST_F(ModelTest, MemoryPlanCountsWeightsScratchAndKv) {
  const EditedFile file("gemma2.gguf");
  const auto reader = gguf::Reader::from_bytes(file.bytes());
  ASSERT_TRUE(reader.has_value());
  const auto plan = model_memory(*reader, *backend_,
                                 {.context_tokens = 100, .kv_type = kernels::KvType::kF16, .batch_tokens_max = 8});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->context_tokens, 100);
  // 4 layers, 2 heads of 32 + 32, 2 bytes; where they are int16, scales besides.
  const bool int16 = backend_->stored_kv_type(kernels::KvType::kF16) == kernels::KvType::kI16;
  EXPECT_EQ(plan->kv_layout.token_bytes(), 4 * 2 * 2 * (32 * 2 + (int16 ? 4 : 0)));
  ASSERT_EQ(plan->kv_layout.groups.size(), 2u);
  EXPECT_EQ(plan->kv_layout.groups[0].kind, cache::KvKind::kWindow);
  EXPECT_EQ(plan->kv_layout.groups[0].window, 16);
  EXPECT_EQ(plan->kv_layout.groups[1].kind, cache::KvKind::kFull);
  EXPECT_GT(plan->stages[0].weight_bytes, 700'000);
  EXPECT_LT(plan->stages[0].weight_bytes, static_cast<int64_t>(file.bytes().size()));
  const auto more_rows = model_memory(*reader, *backend_, {.context_tokens = 100, .batch_tokens_max = 16});
  ASSERT_TRUE(more_rows.has_value());
  EXPECT_GT(more_rows->stages[0].scratch_bytes, plan->stages[0].scratch_bytes);
}

// Compressed rows cost their share of a position, and what they are made from lies in windows.
TEST_F(ModelTest, MemoryPlanOfDeepSeekV4) {
  const EditedFile file("deepseek4.gguf");  // ratios 0, 0, 4, 128; rows of 64, of the index, too
  const auto reader = gguf::Reader::from_bytes(file.bytes());
  ASSERT_TRUE(reader.has_value());
  const ModelOptions options{.context_tokens = 256, .kv_type = kernels::KvType::kF16, .batch_tokens_max = 8};
  const auto plan = model_memory(*reader, *backend_, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().text();
  const auto runner = load_model(*reader, *backend_, options);
  ASSERT_TRUE(runner.has_value()) << runner.error().text();
  const cache::KvLayout& layout = (*runner)->kv_layout();
  ASSERT_EQ(layout.groups.size(), plan->kv_layout.groups.size());
  int32_t seen = 0;
  for (size_t i = 0; i < layout.groups.size(); ++i) {
    const cache::KvGroup& group = layout.groups[i];
    const int64_t bytes = layout.page_bytes(group);
    EXPECT_EQ(bytes, plan->kv_layout.page_bytes(plan->kv_layout.groups[i]));
    if (group.kind == cache::KvKind::kFull) {
      EXPECT_EQ(bytes, 8 * 64 * 2 + 8 * 64 * 2 + 64 * 2) << "eight rows, eight of the index, one";
    } else if (group.window == 32) {
      EXPECT_EQ(bytes, int64_t{4} * 32 * 64 * 2);
    } else if (group.window == 8) {
      EXPECT_EQ(bytes, int64_t{4} * 32 * 128 * 4) << "values and scores of both, twice as wide, float32";
    } else {
      EXPECT_EQ(group.window, 128);
      EXPECT_EQ(bytes, int64_t{2} * 32 * 64 * 4);
    }
    ++seen;
  }
  EXPECT_EQ(seen, 4);
}

TEST_F(ModelTest, EncodersAreNotSteered) {
  const EditedFile file("bert.gguf");
  const auto reader = gguf::Reader::from_bytes(file.bytes());
  const auto embedder = load_embedder(*reader, *backend_, {.control_vectors = {.file = "some.f32"}});
  ASSERT_FALSE(embedder.has_value());
  EXPECT_EQ(embedder.error().code, Code::kUnsupported);
  EXPECT_NE(embedder.error().text().find("some.f32"), std::string::npos);
}

TEST_F(ModelTest, AStepOnABrokenDeviceFails) {
  const auto path = std::filesystem::path(test_data()) / "models" / "llama.gguf";
  const auto file = gguf::Reader::open(path).value();
  BrokenBackend backend;
  const auto runner = load_model(file, backend, {.context_tokens = 64, .batch_tokens_max = 8}).value();
  cache::PagePool pool = cache::PagePool::create(backend, runner->kv_layout(), pages_of_each(*runner, 1)).value();
  cache::PageTable pages;
  ASSERT_TRUE(pool.extend(pages, 2));
  const TokenId tokens[] = {TokenId{1}, TokenId{2}};
  for (const LogitsWanted wanted : {LogitsWanted::kNone, LogitsWanted::kLast, LogitsWanted::kHiddenAll}) {
    const BatchSlice slice{SequenceId{}, 0, 2, 0, &pages, wanted};
    const auto view = runner->step({tokens, {&slice, 1}, &pool});
    ASSERT_FALSE(view.has_value());
    EXPECT_EQ(view.error().message, "the device is gone");
  }
  // One of two devices is enough.
  for (const bool first : {false, true}) {
    kernels::Backend& before = first ? backend : *backend_;
    kernels::Backend& last = first ? *backend_ : backend;
    const PipelineStage stages[] = {{&before, 1}, {&last, 0}};
    const auto split = load_model(file, stages, {.context_tokens = 64, .batch_tokens_max = 8}).value();
    kernels::DeviceMemory* const devices[] = {&before, &last};
    cache::PagePool pages_of_both =
        cache::PagePool::create(devices, split->kv_layout(), pages_of_each(*split, 1)).value();
    cache::PageTable table;
    ASSERT_TRUE(pages_of_both.extend(table, 2));
    const BatchSlice slice{SequenceId{}, 0, 2, 0, &table, LogitsWanted::kLast};
    const auto view = split->step({tokens, {&slice, 1}, &pages_of_both});
    ASSERT_FALSE(view.has_value());
    EXPECT_EQ(view.error().message, "the device is gone");
  }
  const auto encoder_file = gguf::Reader::open(std::filesystem::path(test_data()) / "models" / "bert.gguf").value();
  const auto encoder = load_embedder(encoder_file, backend, {}).value();
  const EmbedText text{tokens};
  std::vector<float> out(encoder->ability().dimensions);
  EXPECT_EQ(encoder->embed({&text, 1}, Pooling::kMean, out).error().message, "the device is gone");
}

TEST_F(ModelTest, ModelsAreRefusedWhereTheirOperationsAreMissing) {
  BrokenBackend backend;  // which has none but those of every model
  for (const char* name :
       {"deepseek2.gguf", "deepseek2-nomla.gguf", "deepseek32.gguf", "deepseek4.gguf", "qwen35.gguf", "mamba2.gguf"}) {
    const auto file = gguf::Reader::open(std::filesystem::path(test_data()) / "models" / name).value();
    for (const Error& error : {load_model(file, backend, {}).error(), model_memory(file, backend, {}).error()}) {
      EXPECT_EQ(error.code, Code::kUnsupported) << name;
      EXPECT_NE(error.message.find("broken has no "), std::string::npos) << error.message;
      EXPECT_NE(error.message.find("--gpu-layers 0"), std::string::npos) << error.message;
    }
  }
}

}  // namespace
}  // namespace cairn::model
