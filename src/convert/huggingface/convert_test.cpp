#include "convert/huggingface/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "convert/huggingface/safetensors.h"
#include "convert/huggingface/vocabulary.h"
#include "gguf/reader.h"

namespace cairn::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

// Collects tensors, and writes them as a safetensors file.
class TensorFile {
 public:
  void add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape, const std::string& bytes) {
    header_[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
  }
  // Element i is first + i.
  void add_floats(const std::string& name, std::vector<int64_t> shape, float first) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) {
      const float value = first + static_cast<float>(i);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    add(name, "F32", std::move(shape), bytes);
  }
  std::string bytes() const {
    const std::string header = header_.dump();
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data_;
  }

 private:
  json header_ = json::object();
  std::string data_;
};

constexpr int64_t kWidth = 32, kTokens = 12;

json tiny_tokenizer() {
  json vocab, added = json::array();
  const char* texts[] = {"<s>", "</s>", "a", "b", "c", "ab", "abc", "Ġ"};
  for (int i = 0; i < 8; ++i) vocab[texts[i]] = i;
  added.push_back({{"id", 0}, {"content", "<s>"}, {"special", true}});
  added.push_back({{"id", 1}, {"content", "</s>"}, {"special", true}});
  added.push_back({{"id", 8}, {"content", "<think>"}, {"special", false}});
  return {{"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"use_regex", true}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {json{"a", "b"}, "ab c"}}}}};
}

class ConvertFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("convert-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    config_ = {{"architectures", {"LlamaForCausalLM"}},
               {"hidden_size", kWidth},
               {"intermediate_size", 64},
               {"max_position_embeddings", 128},
               {"num_attention_heads", 2},
               {"num_key_value_heads", 1},
               {"num_hidden_layers", 1},
               {"rms_norm_eps", 1e-5},
               {"rope_theta", 10000.0},
               {"vocab_size", kTokens},
               {"eos_token_id", {1, 7}}};
    tokenizer_config_ = {{"bos_token", "<s>"}, {"chat_template", "{{ messages }}"}};
    tensors_.add_floats("model.embed_tokens.weight", {kTokens, kWidth}, 0);
    tensors_.add_floats("model.norm.weight", {kWidth}, 1);
    tensors_.add_floats("model.layers.0.self_attn.q_proj.weight", {32, kWidth}, 0);
    tensors_.add_floats("model.layers.0.self_attn.k_proj.bias", {16}, 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path out() const { return folder_ / "out.gguf"; }
  Result<ConvertReport> convert(const ConvertOptions& options = {.threads = 2}) {
    write_text(folder_ / "config.json", config_.dump());
    write_text(folder_ / "tokenizer.json", tiny_tokenizer().dump());
    write_text(folder_ / "tokenizer_config.json", tokenizer_config_.dump());
    write_text(folder_ / "model.safetensors", tensors_.bytes());
    return convert_folder(folder_, out(), options);
  }
  std::string failure() {
    const auto done = convert();
    EXPECT_FALSE(done.has_value());
    EXPECT_FALSE(fs::exists(out()));
    return done.has_value() ? "" : done.error().text();
  }
  static std::vector<float> floats(const gguf::Reader& file, const std::string& name) {
    const gguf::Tensor* tensor = file.find_tensor(name);
    if (tensor == nullptr) return {};
    std::vector<float> values(tensor->bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }

  fs::path folder_;
  json config_, tokenizer_config_;
  TensorFile tensors_;
};

TEST_F(ConvertFolder, WritesTheKeysOfTheConfigAndOfTheTokenizer) {
  const auto done = convert();
  ASSERT_TRUE(done.has_value()) << done.error().text();
  EXPECT_EQ(done->mix, QuantizeMix::kF32);
  const auto file = gguf::Reader::open(out());
  ASSERT_TRUE(file.has_value()) << file.error().text();
  const gguf::Metadata& keys = file->metadata();
  EXPECT_EQ(keys.string("general.architecture").value(), "llama");
  EXPECT_EQ(keys.integer("llama.block_count").value(), 1);
  EXPECT_EQ(keys.integer("llama.embedding_length").value(), kWidth);
  EXPECT_EQ(keys.integer("llama.rope.dimension_count").value(), 16);
  EXPECT_FLOAT_EQ(static_cast<float>(keys.number("llama.attention.layer_norm_rms_epsilon").value()), 1e-5f);
  EXPECT_EQ(keys.string("tokenizer.ggml.model").value(), "gpt2");
  EXPECT_EQ(keys.string("tokenizer.ggml.pre").value(), "gpt-2");
  EXPECT_EQ(keys.string("tokenizer.chat_template").value(), "{{ messages }}");
  EXPECT_EQ(keys.integer("tokenizer.ggml.bos_token_id").value(), 0);
  EXPECT_EQ(keys.integer("tokenizer.ggml.eos_token_id").value(), 1);  // the first of those in the config
  EXPECT_THAT(keys.strings("tokenizer.ggml.merges").value(), ElementsAre("a b", "ab c"));
  const auto tokens = keys.strings("tokenizer.ggml.tokens").value();
  ASSERT_EQ(tokens.size(), static_cast<size_t>(kTokens));
  EXPECT_EQ(tokens[8], "<think>");
  EXPECT_EQ(tokens[11], "[PAD11]");
  EXPECT_THAT(keys.integers("tokenizer.ggml.token_type").value(), ElementsAre(3, 3, 1, 1, 1, 1, 1, 1, 4, 5, 5, 5));
}

TEST_F(ConvertFolder, InterleavesTheHalvesOfHeads) {
  ASSERT_TRUE(convert().has_value());
  const auto file = gguf::Reader::open(out()).value();
  // Row r of 16 in a head: halves 0..7 and 8..15 become neighbours.
  const auto queries = floats(file, "blk.0.attn_q.weight");
  ASSERT_EQ(queries.size(), 1024u);
  for (int head = 0; head < 2; ++head) {
    for (int row = 0; row < 16; ++row) {
      const int source = head * 16 + row / 2 + row % 2 * 8;
      EXPECT_EQ(queries[static_cast<size_t>(head * 16 + row) * kWidth], static_cast<float>(source * kWidth));
    }
  }
  EXPECT_THAT(floats(file, "blk.0.attn_k.bias"), ElementsAre(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
}

TEST_F(ConvertFolder, Fp8WeightsGetTheirScales) {
  // 0x38 is 1.0 in E4M3, 0x40 is 2.0, 0xB8 is -1.0.
  std::string codes(32 * 32, '\x38');
  codes[1] = '\x40';
  codes[2] = '\xB8';
  const float scale = 3.0f;
  tensors_.add("model.layers.0.mlp.up_proj.weight", "F8_E4M3", {32, 32}, codes);
  tensors_.add("model.layers.0.mlp.up_proj.weight_scale_inv", "F32", {1, 1},
               std::string(reinterpret_cast<const char*>(&scale), sizeof scale));
  const auto done = convert();
  ASSERT_TRUE(done.has_value()) << done.error().text();
  const auto values = floats(gguf::Reader::open(out()).value(), "blk.0.ffn_up.weight");
  ASSERT_EQ(values.size(), 1024u);
  EXPECT_EQ(values[0], 3.0f);
  EXPECT_EQ(values[1], 6.0f);
  EXPECT_EQ(values[2], -3.0f);
}

TEST_F(ConvertFolder, Mxfp4ExpertsStayAsTheyAre) {
  config_["architectures"] = {"GptOssForCausalLM"};
  config_["sliding_window"] = 16;
  TensorFile file;
  file.add_floats("model.embed_tokens.weight", {kTokens, kWidth}, 0);
  // Two rows (gate and up alternate) of one block for one expert: neighbours 2i, 2i + 1 in a byte's low and high half.
  std::string blocks;
  for (int row = 0; row < 2; ++row) {
    for (int i = 0; i < 16; ++i) blocks += static_cast<char>(i * 17);
  }
  file.add("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", {1, 2, 1, 16}, blocks);
  file.add("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", {1, 2, 1}, "\x7f\x80");
  tensors_ = file;
  const auto done = convert({.mix = QuantizeMix::kQ8_0, .threads = 1});
  ASSERT_TRUE(done.has_value()) << done.error().text();
  const auto made = gguf::Reader::open(out()).value();
  const gguf::Tensor* gate = made.find_tensor("blk.0.ffn_gate_exps.weight");
  const gguf::Tensor* up = made.find_tensor("blk.0.ffn_up_exps.weight");
  ASSERT_TRUE(gate != nullptr && up != nullptr);
  EXPECT_EQ(gate->type, TensorType::kMXFP4);
  EXPECT_EQ(static_cast<uint8_t>(gate->bytes[0]), 0x7f);
  EXPECT_EQ(static_cast<uint8_t>(up->bytes[0]), 0x80);
  // Elements 2i and 2i + 1 are i. Here, element i is in the low half of byte i, and element i + 16 in the high one.
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(static_cast<uint8_t>(gate->bytes[static_cast<size_t>(1 + i)]), i / 2 | (i / 2 + 8) << 4);
  }
}

TEST_F(ConvertFolder, SplitsFilesThatReadersPutTogether) {
  const auto done = convert({.split_bytes = 2000, .threads = 1});
  ASSERT_TRUE(done.has_value()) << done.error().text();
  ASSERT_GT(done->files.size(), 1u);
  EXPECT_FALSE(fs::exists(out()));
  const auto file = gguf::Reader::open(done->files[0]);
  ASSERT_TRUE(file.has_value()) << file.error().text();
  EXPECT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(floats(*file, "output_norm.weight")[3], 4.0f);
}

TEST_F(ConvertFolder, TheBytesDoNotDependOnThreads) {
  const auto bytes = [&](int threads) {
    EXPECT_TRUE(convert({.mix = QuantizeMix::kQ8_0, .threads = threads}).has_value());
    std::ifstream file(out(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(bytes(1), bytes(3));
}

TEST_F(ConvertFolder, SaysWhatItDoesNotKnow) {
  tensors_.add_floats("model.layers.0.mlp.new_proj.weight", {2, 2}, 0);
  EXPECT_THAT(failure(), HasSubstr("model.layers.0.mlp.new_proj.weight"));
  config_["architectures"] = {"NoSuchForCausalLM"};
  EXPECT_THAT(failure(), testing::AllOf(HasSubstr("NoSuchForCausalLM"), HasSubstr("Qwen3ForCausalLM")));
}

TEST_F(ConvertFolder, SaysWhatIsWrongWithTheConfig) {
  config_["hidden_size"] = "wide";
  EXPECT_THAT(failure(), HasSubstr("\"hidden_size\" is something else, but must be a whole number"));
  config_["hidden_size"] = kWidth;
  config_["quantization_config"] = {{"quant_method", "gptq"}};
  EXPECT_THAT(failure(), HasSubstr("gptq"));
}

TEST_F(ConvertFolder, AWeightThatIsNoNumberIsNamed) {
  const float bad = NAN;
  tensors_.add("lm_head.weight", "F32", {1, 1}, std::string(reinterpret_cast<const char*>(&bad), sizeof bad));
  EXPECT_THAT(failure(), testing::AllOf(HasSubstr("output.weight"), HasSubstr("damaged")));
}

TEST_F(ConvertFolder, AdaptersBecomePairsOfMatrices) {
  ASSERT_TRUE(convert().has_value());
  const fs::path adapter = folder_ / "adapter";
  fs::create_directories(adapter);
  write_text(adapter / "adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
  TensorFile file;
  file.add_floats("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", {2, kWidth}, 0);
  file.add_floats("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", {32, 2}, 0);
  write_text(adapter / "adapter_model.safetensors", file.bytes());
  ASSERT_TRUE(is_adapter_folder(adapter));
  const auto done = convert_adapter(adapter, folder_, folder_ / "adapter.gguf", {.threads = 1});
  ASSERT_TRUE(done.has_value()) << done.error().text();
  const auto made = gguf::Reader::open(folder_ / "adapter.gguf").value();
  EXPECT_EQ(made.metadata().string("general.type").value(), "adapter");
  EXPECT_EQ(made.metadata().number("adapter.lora.alpha").value(), 4);
  const gguf::Tensor* first = made.find_tensor("blk.0.attn_q.weight.lora_a");
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(first->shape, ElementsAre(kWidth, 2));
  const auto second = floats(made, "blk.0.attn_q.weight.lora_b");
  ASSERT_EQ(second.size(), 64u);
  EXPECT_EQ(second[2], 16.0f);  // row 1 is row 8 of the checkpoint, as of the model's own queries
}

TEST(Safetensors, DamagedHeadersAreRefused) {
  TensorFile file;
  file.add_floats("a", {2, 2}, 0);
  const std::string good = file.bytes();
  const auto parse = [](const std::string& text) { return parse_safetensors(std::as_bytes(std::span(text))); };
  ASSERT_TRUE(parse(good).has_value());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(parse(good.substr(0, length)).has_value()) << length;
  }
  TensorFile other;
  other.add("a", "F32", {3}, "1234");
  EXPECT_THAT(parse(other.bytes()).error().text(), HasSubstr("its shape and type need 12"));
  TensorFile unknown;
  unknown.add("a", "F3", {1}, "1");
  EXPECT_THAT(parse(unknown.bytes()).error().text(), HasSubstr("F3"));
  const uint64_t brackets = 1 << 20;
  const std::string deep = std::string(reinterpret_cast<const char*>(&brackets), 8) + std::string(brackets, '[');
  EXPECT_THAT(parse(deep).error().text(), HasSubstr("nested deeper than 64 levels"));
}

TEST(PreTokenizerName, FindsPublishedPatterns) {
  const auto name = [](const std::string& pattern, bool ignore_merges, std::string_view preferred) {
    const json tokenizer = {
        {"pre_tokenizer",
         {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}}, {{"type", "ByteLevel"}, {"use_regex", false}}}}}},
        {"normalizer", {{"type", preferred == "qwen2" ? "NFC" : "None"}}},
        {"model", {{"ignore_merges", ignore_merges}}}};
    return pre_tokenizer_name(tokenizer, preferred);
  };
  const std::string endings = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}";
  const std::string rest = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  EXPECT_EQ(name(endings + "{1,3}" + rest, true, "").value(), "llama-bpe");
  EXPECT_EQ(name(endings + "{1,3}" + rest, false, "glm4").value(), "glm4");
  EXPECT_EQ(name(endings + rest, false, "qwen2").value(), "qwen2");
  EXPECT_THAT(name("no such pattern", false, "").error().text(), HasSubstr("--pre"));
}

TEST(SentencePiece, DamagedModelsAreRefused) {
  // One piece: field 1 with the text "a" (1), the score 0 (2) and the kind 1 (3).
  const std::string good = std::string("\x0a\x0a\x0a\x01") + "a" + std::string("\x15\0\0\0\0\x18\x01", 7);
  const auto read = [](const std::string& text) { return read_sentencepiece(std::as_bytes(std::span(text)), 4); };
  const auto vocabulary = read(good);
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().text();
  EXPECT_EQ(vocabulary->tokens[0], "a");
  EXPECT_EQ(vocabulary->kinds[1], TokenKind::kUnused);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(read(good.substr(0, length)).has_value()) << length;
}

}  // namespace
}  // namespace cairn::convert
