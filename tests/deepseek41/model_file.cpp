#include "deepseek41/model_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "gguf/reader.h"

namespace cairn::deepseek41 {
namespace {

constexpr int64_t kWidth = 64, kStreams = 4, kHeads = 4, kHead = 64, kRope = 16, kQueryRank = 32, kGroups = 2;
constexpr int64_t kOutputRank = 32, kWindow = 8, kIndexHeads = 8, kIndexDim = 32, kIndexRows = 4;
constexpr int64_t kExperts = 8, kUsed = 3, kExpertWidth = 32, kContext = 256;
constexpr int64_t kStages = 2, kDraftExperts = 6, kDraftUsed = 2, kMarkovRank = 16, kNoise = 7;
const std::vector<uint64_t> kTargets = {5, 6, 7};
constexpr int64_t kTableHeads = 2, kOrder = 4, kRowDim = 32;
// Layers 2 and 4 make compressed rows; 6 chooses among the candidates of 4.
const std::vector<uint64_t> kRatios = {0, 0, 2, 2, 1, 1, 1, 1};
const std::vector<uint64_t> kEngramLayers = {1, 3};
const std::vector<uint64_t> kPrimes = {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157};
const std::vector<uint64_t> kMultipliers = {76632096046245, 4839876093313,  35959672319349, 73987337458391,
                                            67716810739261, 51510806800915, 30921347202721, 82619226485591};

struct MadeTensor {
  std::string name;
  std::vector<int64_t> shape;
  double mean = 0;
  double spread = 0;
  bool fp8 = false;
};

int64_t elements(const MadeTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

class Tensors {
 public:
  explicit Tensors(const FileOptions& options) : options_(options) {}

  std::vector<MadeTensor> all() {
    if (options_.head == Head::kNone || options_.head == Head::kBeside) add_model();
    if (options_.head != Head::kNone) add_head();
    return std::move(tensors_);
  }

 private:
  void add_model() {
    add("token_embd.weight", {kWidth, kVocabulary}, 0, 1);
    for (size_t layer = 0; layer < kRatios.size(); ++layer) add_layer(layer);
    add("output_norm.weight", {kWidth}, 1, 0.2);
    add("output.weight", {kWidth, kVocabulary}, 0, 0.2);
  }

  void add_head() {
    const std::string first = "mtp.0.", last = fmt::format("mtp.{}.", kStages - 1);
    add(first + "main_proj.weight", {std::ssize(kTargets) * kWidth, kWidth}, 0, 0.1);
    add(first + "main_norm.weight", {kWidth}, 1, 0.2);
    for (int64_t stage = 0; stage < kStages; ++stage) {
      const std::string blk = fmt::format("mtp.{}.", stage);
      add_streams(blk);
      add_attention(blk);
      add_feed_forward(blk, kDraftExperts);
    }
    add(last + "norm.weight", {kWidth}, 1, 0.2);
    add(last + "markov_head.markov_w1.weight", {kMarkovRank, kVocabulary}, 0, 0.5);
    add(last + "markov_head.markov_w2.weight", {kMarkovRank, kVocabulary}, 0, 0.5);
    add(last + "confidence_head.proj.weight", {kWidth + kMarkovRank, 1}, 0, 0.2);
  }

  void add(const std::string& name, std::vector<int64_t> shape, double mean, double spread, bool fp8 = false) {
    if (name == options_.left_out) return;
    if (name == options_.misshapen) --shape.back();
    tensors_.push_back({name, std::move(shape), mean, spread, fp8});
  }

  void add_streams(const std::string& blk) {
    constexpr int64_t kShares = kStreams * (2 + kStreams);
    for (const char* part : {"hc_attn", "hc_ffn"}) {
      add(blk + part + "_fn.weight", {kStreams * kWidth, kShares}, 0, 0.1);
      add(blk + part + "_base.weight", {kShares}, 0, 0.5);
      add(blk + part + "_scale.weight", {3}, 0.7, 0.2);
    }
  }

  void add_attention(const std::string& blk) {
    add(blk + "attn_norm.weight", {kWidth}, 1, 0.2);
    add(blk + "attn_q_a.weight", {kWidth, kQueryRank}, 0, 0.15);
    add(blk + "attn_q_a_norm.weight", {kQueryRank}, 1, 0.2);
    add(blk + "attn_q_b.weight", {kQueryRank, kHeads * kHead}, 0, 0.3);
    add(blk + "attn_kv.weight", {kWidth, kHead}, 0, 0.15);
    add(blk + "attn_kv_a_norm.weight", {kHead}, 1, 0.2);
    add(blk + "attn_sinks.weight", {kHeads}, 0, 0.5);
    add(blk + "attn_output_a.weight", {kHeads / kGroups * kHead, kGroups * kOutputRank}, 0, 0.1);
    add(blk + "attn_output_b.weight", {kGroups * kOutputRank, kWidth}, 0, 0.2);
  }

  void add_layer(size_t layer) {
    const std::string blk = fmt::format("blk.{}.", layer);
    add_streams(blk);
    add_attention(blk);
    const bool makes_rows = layer == 2 || layer == 4;
    if (makes_rows) {
      add(blk + "attn_compressor_kv.weight", {kWidth, kHead}, 0, 0.15);
      if (kRatios[layer] > 1) add(blk + "attn_compressor_gate.weight", {kWidth, kHead}, 0, 0.3);
      add(blk + "attn_compressor_norm.weight", {kHead}, 1, 0.2);
      add(blk + "indexer.attn_k.weight", {kHead, kIndexDim}, 0, 0.2);
      add(blk + "indexer.k_norm.weight", {kIndexDim}, 1, 0.2);
    }
    if (makes_rows || layer == 6) {
      add(blk + "indexer.attn_q_b.weight", {kQueryRank, kIndexHeads * kIndexDim}, 0, 0.2);
      add(blk + "indexer.proj.weight", {kWidth, kIndexHeads}, 0, 0.2);
    }
    add_feed_forward(blk, kExperts);
    for (size_t i = 0; i < kEngramLayers.size(); ++i) {
      if (kEngramLayers[i] == layer) add_engram(blk, i);
    }
  }

  void add_feed_forward(const std::string& blk, int64_t experts) {
    add(blk + "ffn_norm.weight", {kWidth}, 1, 0.2);
    add(blk + "ffn_gate_inp.weight", {kWidth, experts}, 0, 0.3);
    add(blk + "exp_probs_b.bias", {experts}, 0, 0.3);
    add(blk + "exp_probs_b_vl.bias", {experts}, 0, 0.3);
    add(blk + "ffn_gate_exps.weight", {kWidth, kExpertWidth, experts}, 0, 0.3);
    add(blk + "ffn_up_exps.weight", {kWidth, kExpertWidth, experts}, 0, 0.3);
    add(blk + "ffn_down_exps.weight", {kExpertWidth, kWidth, experts}, 0, 0.3);
    add(blk + "ffn_gate_shexp.weight", {kWidth, kExpertWidth}, 0, 0.3);
    add(blk + "ffn_up_shexp.weight", {kWidth, kExpertWidth}, 0, 0.3);
    add(blk + "ffn_down_shexp.weight", {kExpertWidth, kWidth}, 0, 0.3);
  }

  void add_engram(const std::string& blk, size_t engram) {
    constexpr int64_t kRows = kTableHeads * (kOrder - 1);
    const auto first = kPrimes.begin() + static_cast<int64_t>(engram) * kRows;
    const auto rows = static_cast<int64_t>(std::accumulate(first, first + kRows, uint64_t{0}));
    const bool fp8 = options_.fp8_tables;
    add(blk + "engram_embd.weight", {fp8 ? kRowDim + kRowDim / 32 : kRowDim, rows}, 0, 1, fp8);
    add(blk + (fp8 ? "engram_kv.weight" : "engram_wkv.weight"), {kRows * kRowDim, (kStreams + 1) * kWidth}, 0, 0.1);
    add(blk + (fp8 ? "engram_q_norm.weight" : "engram_q.weight"), {kWidth, kStreams}, 1, 0.2);
    add(blk + (fp8 ? "engram_k_norm.weight" : "engram_k.weight"), {kWidth, kStreams}, 1, 0.2);
  }

  const FileOptions& options_;
  std::vector<MadeTensor> tensors_;
};

void set_numbers(gguf::Writer& writer, const FileOptions& options) {
  const bool config = options.config_names;
  const auto integer = [&](const char* first, const char* second, int64_t value) {
    writer.set_integer(options.architecture + "." + (config ? second : first), gguf::ValueType::kU32, value);
  };
  const auto number = [&](const char* first, const char* second, double value) {
    writer.set_number(options.architecture + "." + (config ? second : first), gguf::ValueType::kF32, value);
  };
  integer("embedding_length", "hidden_size", kWidth);
  integer("vocab_size", "vocab_size", kVocabulary);
  integer("context_length", "max_position_embeddings", kContext);
  integer("block_count", "num_hidden_layers", static_cast<int64_t>(kRatios.size()));
  integer("hyper_connection.count", "hc_mult", kStreams);
  integer("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", 20);
  number("hyper_connection.epsilon", "hc_eps", 1e-6);
  number("attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-20);
  integer("attention.head_count", "num_attention_heads", kHeads);
  integer("attention.head_count_kv", "num_key_value_heads", 1);
  integer("attention.key_length", "head_dim", kHead);
  integer("rope.dimension_count", "qk_rope_head_dim", kRope);
  integer("attention.sliding_window", "sliding_window", kWindow);
  integer("attention.q_lora_rank", "q_lora_rank", kQueryRank);
  integer("attention.output_lora_rank", "o_lora_rank", kOutputRank);
  integer("attention.output_group_count", "o_groups", kGroups);
  integer("attention.indexer.head_count", "index_n_heads", kIndexHeads);
  integer("attention.indexer.key_length", "index_head_dim", kIndexDim);
  integer("attention.indexer.top_k", "index_topk", kIndexRows);
  integer("attention.indexer.candidate_blocks", "attention.indexer.candidate_blocks", 3);
  integer("attention.indexer.candidate_block_size", "attention.indexer.candidate_block_size", 2);
  integer("expert_count", "n_routed_experts", kExperts);
  integer("expert_used_count", "num_experts_per_tok", kUsed);
  integer("expert_feed_forward_length", "moe_intermediate_size", kExpertWidth);
  integer("expert_shared_count", "n_shared_experts", 1);
  number("expert_weights_scale", "routed_scaling_factor", 1.5);
  number("swiglu_clamp_exp", "swiglu_limit", 10);
  number("rope.freq_base", "rope_theta", 10'000);
  number("attention.compress_rope_freq_base", "compress_rope_theta", 160'000);
  number("rope.scaling.factor", "rope_scaling.factor", 16);
  number("rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", 32);
  number("rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", 1);
  integer("rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings", 65'536);
}

void set_engrams(gguf::Writer& writer, const std::string& prefix) {
  set_integers(writer, prefix + "layer_ids", gguf::ValueType::kU32, kEngramLayers);
  writer.set_integer(prefix + "head_count", gguf::ValueType::kU32, kTableHeads);
  writer.set_integer(prefix + "key_length", gguf::ValueType::kU32, kRowDim);
  writer.set_integer(prefix + "max_ngram_size", gguf::ValueType::kU32, kOrder);
  writer.set_integer(prefix + "pad_id", gguf::ValueType::kU32, 2);
  std::vector<uint64_t> classes;
  for (uint64_t token = 0; token < kVocabulary; ++token) classes.push_back((token * 7 + 5) % 61);
  set_integers(writer, prefix + "token_map", gguf::ValueType::kU32, classes);
  set_integers(writer, prefix + "primes", gguf::ValueType::kU32, kPrimes);
  set_integers(writer, prefix + "multipliers", gguf::ValueType::kU64, kMultipliers);
}

void set_head(gguf::Writer& writer, Head head) {
  const bool dflash = head == Head::kDflash;
  const std::string prefix = dflash ? "dflash." : "deepseek41.dspark.";
  const auto integer = [&](const std::string& key, int64_t value) {
    writer.set_integer(key, gguf::ValueType::kU32, value);
  };
  integer(prefix + "block_size", kBlock);
  integer(dflash ? "tokenizer.ggml.mask_token_id" : prefix + "noise_token_id", kNoise);
  set_integers(writer, prefix + (dflash ? "target_layers" : "target_layer_ids"), gguf::ValueType::kU32, kTargets);
  integer(prefix + (dflash ? "expert_count" : "n_routed_experts"), kDraftExperts);
  integer(prefix + (dflash ? "expert_used_count" : "num_experts_per_tok"), kDraftUsed);
  if (dflash) integer(prefix + "hyper_connection.count", kStreams);
}

/// llama.cpp's name of a tensor of the head.
std::string dflash_name(const std::string& name) {
  const std::string last = fmt::format("mtp.{}.", kStages - 1);
  const std::pair<std::string, std::string> others[] = {{"mtp.0.main_proj", "fc"},
                                                        {"mtp.0.main_norm", "enc.output_norm"},
                                                        {last + "norm", "output_norm"},
                                                        {last + "markov_head.markov_w1", "markov_w1"},
                                                        {last + "markov_head.markov_w2", "markov_w2"},
                                                        {last + "confidence_head.proj", "conf_proj"}};
  for (const auto& [from, to] : others) {
    if (name == from + ".weight") return to + ".weight";
  }
  return "blk." + name.substr(4);
}

// Numbers of few distinct exponents: an E4M3 byte with any sign and fraction, a scale near one.
std::vector<std::byte> fp8_bytes(const MadeTensor& tensor, std::mt19937& random) {
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < tensor.shape[1]; ++row) {
    for (int64_t i = 0; i < tensor.shape[0]; ++i) {
      const uint32_t scale = 125 + random() % 4, number = random() % 256;
      const bool finite = (number & 127) != 127;
      bytes.push_back(static_cast<std::byte>(i >= kRowDim ? scale : (finite ? number & ~32U : 0)));
    }
  }
  return bytes;
}

}  // namespace

std::vector<TokenId> text_of(size_t length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < length; ++i) tokens.push_back(TokenId{static_cast<int32_t>(random() % kVocabulary)});
  return tokens;
}

void set_integers(gguf::Writer& writer, const std::string& key, gguf::ValueType type,
                  const std::vector<uint64_t>& values) {
  std::vector<std::byte> bytes;
  const size_t size = type == gguf::ValueType::kU64 ? 8 : 4;
  for (const uint64_t value : values) {
    const auto at = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), at, at + size);
  }
  gguf::Array array;
  array.type = type;
  array.size = values.size();
  array.numbers = bytes;
  writer.set(key, gguf::Value{gguf::ValueType::kArray, array});
}

ModelFile::ModelFile(const FileOptions& options) {
  static std::atomic<int> number = 0;
  path_ = std::filesystem::temp_directory_path() / fmt::format("cairn41.{}.{}.gguf", ::getpid(), number++);
  auto writer = gguf::Writer::create(path_);
  EXPECT_TRUE(writer.has_value());
  const Head head = options.head;
  if (head == Head::kNone || head == Head::kBeside) {
    writer->set("general.architecture", options.architecture);
    set_numbers(*writer, options);
    const std::string prefix = options.architecture + ".";
    set_integers(*writer, prefix + (options.config_names ? "compress_ratios" : "attention.compress_ratios"),
                 gguf::ValueType::kU32, kRatios);
    set_engrams(*writer, prefix + "engram.");
  } else {
    writer->set("general.architecture", head == Head::kDflash ? "dflash" : "deepseek41-dspark");
  }
  if (head != Head::kNone) set_head(*writer, head);
  options.keys(*writer);
  const std::vector<MadeTensor> tensors = Tensors(options).all();
  for (const MadeTensor& tensor : tensors) {
    const std::string name = head == Head::kDflash ? dflash_name(tensor.name) : tensor.name;
    writer->declare(name, tensor.fp8 ? TensorType::kI8 : TensorType::kF32, tensor.shape);
  }
  for (const MadeTensor& tensor : tensors) {
    std::seed_seq seed(tensor.name.begin(), tensor.name.end());
    std::mt19937 random(seed);
    if (tensor.fp8) {
      EXPECT_TRUE(writer->write(fp8_bytes(tensor, random)).has_value());
      continue;
    }
    std::normal_distribution<float> normal(static_cast<float>(tensor.mean), static_cast<float>(tensor.spread));
    std::vector<float> values(elements(tensor));
    for (float& value : values) value = normal(random);
    EXPECT_TRUE(writer->write(std::as_bytes(std::span(values))).has_value());
  }
  EXPECT_TRUE(writer->finish().has_value());
}

}  // namespace cairn::deepseek41
