// The tensors of each architecture. Names and dimensions are those of llama.cpp's files (gguf-py's tensor names).
#include "synth/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn::synth {
namespace {

class Builder {
 public:
  explicit Builder(const Shape& shape)
      : shape_(shape), width_(shape.integer("embedding_length")), heads_(shape.integer("attention.head_count")) {}

  std::vector<TensorPlan> build() {
    const int64_t vocabulary = shape_.integer("vocab_size");
    if (shape_.architecture() == "gemma4") {
      add("rope_freqs.weight", {shape_.integer("rope.dimension_count") / 2}, Role::kRopeFactors);
    }
    matrix("token_embd", {width_, vocabulary});
    if (shape_.integer("embedding_length_per_layer_input") > 0) add_per_layer_table(vocabulary);
    const bool is_v4 = shape_.architecture() == "deepseek4";
    const int64_t layers = shape_.integer("block_count");
    for (layer_ = 0; layer_ < layers; ++layer_) {
      prefix_ = fmt::format("blk.{}.", layer_);
      if (is_v4) {
        add_mixing();
        add_v4_attention();
        add_v4_rows();
      } else if (is_v41()) {
        add_mixing();
        add_v4_attention();
        add_v41_rows();
        add_engram();
      } else if (is_delta_attention(layer_)) {
        add_kimi_delta_attention();
      } else if (shape_.architecture() == "deepseek2" || is_kimi_linear()) {
        add_latent_attention();
      } else if (is_delta_net(layer_)) {
        add_gated_delta_net();
      } else if (is_short_convolution(layer_)) {
        add_short_convolution();
      } else if (is_nemotron_h()) {
        add_nemotron_h_layer();
        continue;
      } else if (shape_.architecture() == "gemma4") {
        add_gemma4_attention();
      } else {
        add_attention();
      }
      add_feed_forward();
      if (shape_.architecture() == "gemma4") add_gemma4_end();
      if (layer_ >= layers - shape_.integer("nextn_predict_layers")) add_prediction();
    }
    prefix_.clear();
    norm(is_lfm2() ? "token_embd_norm" : "output_norm", width_);
    if (!shape_.tied_output) matrix("output", {width_, vocabulary});
    if (is_v4) add_output_mixing("output_hc");
    if (is_v41()) add_dspark(vocabulary);
    return std::move(tensors_);
  }

 private:
  void add(std::string_view name, std::vector<int64_t> shape, Role role) {
    const TensorType type = role == Role::kExpertIds ? TensorType::kI32 : TensorType::kF32;
    tensors_.push_back({fmt::format("{}{}", prefix_, name), std::move(shape), role, type, 0});
  }
  void matrix(std::string_view name, std::vector<int64_t> shape) {
    add(fmt::format("{}.weight", name), std::move(shape), Role::kMatrix);
  }
  void norm(std::string_view name, int64_t width) { add(fmt::format("{}.weight", name), {width}, Role::kNorm); }

  void bias(std::string_view name, std::vector<int64_t> shape) {
    add(fmt::format("{}.bias", name), std::move(shape), Role::kBias);
  }

  bool is_qwen35() const { return shape_.architecture().starts_with("qwen35"); }
  bool is_v41() const { return shape_.architecture() == "deepseek41"; }
  bool is_lfm2() const { return shape_.architecture() == "lfm2moe"; }
  bool is_kimi_linear() const { return shape_.architecture() == "kimi-linear"; }
  bool is_delta_attention(int64_t layer) const {
    return is_kimi_linear() && shape_.integers("attention.head_count_kv")[static_cast<size_t>(layer)] == 0;
  }
  bool is_nemotron_h() const { return shape_.architecture() == "nemotron_h_moe"; }
  bool is_delta_net(int64_t layer) const {
    return is_qwen35() && (layer + 1) % shape_.integer("full_attention_interval") != 0;
  }
  bool is_short_convolution(int64_t layer) const {
    return is_lfm2() && shape_.integers("attention.head_count_kv")[static_cast<size_t>(layer)] == 0;
  }

  void add_gated_delta_net() {
    const int64_t heads = shape_.integer("ssm.time_step_rank");
    const int64_t inner = shape_.integer("ssm.inner_size");
    const int64_t channels = inner + 2 * shape_.integer("ssm.group_count") * shape_.integer("ssm.state_size");
    norm("attn_norm", width_);
    matrix("attn_qkv", {width_, channels});
    matrix("attn_gate", {width_, inner});
    matrix("ssm_beta", {width_, heads});
    matrix("ssm_alpha", {width_, heads});
    matrix("ssm_conv1d", {shape_.integer("ssm.conv_kernel"), channels});
    add("ssm_dt.bias", {heads}, Role::kBias);
    add("ssm_a", {heads}, Role::kRate);
    norm("ssm_norm", inner / heads);
    matrix("ssm_out", {inner, width_});
  }

  void add_kimi_delta_attention() {
    const int64_t head = shape_.integer("kda.head_dim"), inner = heads_ * head;
    norm("attn_norm", width_);
    for (const char* part : {"q", "k", "v"}) {
      matrix(fmt::format("attn_{}", part), {width_, inner});
      matrix(fmt::format("ssm_conv1d_{}", part), {shape_.integer("ssm.conv_kernel"), 1, inner});
    }
    for (const char* part : {"f", "g"}) {
      matrix(fmt::format("ssm_{}_a", part), {width_, head});
      matrix(fmt::format("ssm_{}_b", part), {head, inner});
    }
    matrix("ssm_beta", {width_, heads_});
    add("ssm_dt.bias", {inner}, Role::kBias);
    add("ssm_a", {1, heads_}, Role::kRate);
    norm("ssm_norm", head);
    matrix("attn_output", {inner, width_});
  }

  // One thing alone, with one norm: experts, attention or a state.
  void add_nemotron_h_layer() {
    const auto layer = static_cast<size_t>(layer_);
    if (shape_.integers("feed_forward_length")[layer] > 0) {
      norm("attn_norm", width_);
      add_squared_relu_experts();
    } else if (shape_.integers("attention.head_count_kv")[layer] > 0) {
      add_attention();
    } else {
      norm("attn_norm", width_);
      add_mamba2();
    }
  }

  void add_squared_relu_experts() {
    const int64_t experts = shape_.integer("expert_count");
    const int64_t inner = shape_.integer("expert_feed_forward_length");
    const int64_t shared = shape_.integer("expert_shared_feed_forward_length");
    matrix("ffn_gate_inp", {width_, experts});
    add("exp_probs_b.bias", {experts}, Role::kBias);
    matrix("ffn_up_exps", {width_, inner, experts});
    matrix("ffn_down_exps", {inner, width_, experts});
    matrix("ffn_up_shexp", {width_, shared});
    matrix("ffn_down_shexp", {shared, width_});
  }

  void add_mamba2() {
    const int64_t heads = shape_.integer("ssm.time_step_rank");
    const int64_t inner = shape_.integer("ssm.inner_size");
    const int64_t groups = shape_.integer("ssm.group_count");
    const int64_t channels = inner + 2 * groups * shape_.integer("ssm.state_size");
    matrix("ssm_in", {width_, inner + channels + heads});
    matrix("ssm_conv1d", {shape_.integer("ssm.conv_kernel"), channels});
    bias("ssm_conv1d", {channels});
    add("ssm_dt.bias", {heads}, Role::kBias);
    add("ssm_a", {1, heads}, Role::kRate);
    add("ssm_d", {1, heads}, Role::kNorm);
    add("ssm_norm.weight", {inner / groups, groups}, Role::kNorm);
    matrix("ssm_out", {inner, width_});
  }

  void add_short_convolution() {
    norm("attn_norm", width_);
    matrix("shortconv.in_proj", {width_, 3 * width_});
    matrix("shortconv.conv", {shape_.integer("shortconv.l_cache"), width_});
    matrix("shortconv.out_proj", {width_, width_});
  }

  void add_attention() {
    const int64_t head = is_lfm2() ? width_ / heads_ : shape_.integer("attention.key_length");
    const int64_t value = is_lfm2() ? head : shape_.integer("attention.value_length");
    const std::vector<int64_t> kv = shape_.integers("attention.head_count_kv");
    const int64_t kv_heads = kv.size() > 1 ? kv[static_cast<size_t>(layer_)] : kv[0];
    norm("attn_norm", width_);
    matrix("attn_q", {width_, heads_ * head * (is_qwen35() ? 2 : 1)});
    matrix("attn_k", {width_, kv_heads * head});
    matrix("attn_v", {width_, kv_heads * value});
    matrix("attn_output", {heads_ * value, width_});
    if (shape_.architecture() == "gpt-oss") {
      bias("attn_q", {heads_ * head});
      bias("attn_k", {kv_heads * head});
      bias("attn_v", {kv_heads * value});
      bias("attn_output", {width_});
      add("attn_sinks.weight", {heads_}, Role::kBias);
    }
    if (!shape_.architecture().starts_with("qwen3") && !is_lfm2()) return;
    norm("attn_q_norm", head);
    norm("attn_k_norm", head);
  }

  // The small models have inputs for each layer, and keep a matrix of values where the others take keys for them.
  void add_gemma4_attention() {
    const bool window = shape_.integers("attention.sliding_window_pattern")[static_cast<size_t>(layer_)] != 0;
    const char* suffix = window ? "_swa" : "";
    const int64_t head = shape_.integer(fmt::format("attention.key_length{}", suffix));
    const int64_t value = shape_.integer(fmt::format("attention.value_length{}", suffix));
    const int64_t kv_heads = shape_.integers("attention.head_count_kv")[static_cast<size_t>(layer_)];
    norm("attn_norm", width_);
    matrix("attn_q", {width_, heads_ * head});
    norm("attn_q_norm", head);
    if (layer_ < shape_.integer("block_count") - shape_.integer("attention.shared_kv_layers")) {
      matrix("attn_k", {width_, kv_heads * head});
      norm("attn_k_norm", head);
      const bool small = shape_.integer("embedding_length_per_layer_input") > 0;
      if (window || small || head != value) matrix("attn_v", {width_, kv_heads * value});
    }
    matrix("attn_output", {heads_ * value, width_});
    norm("post_attention_norm", width_);
  }

  void add_gemma4_end() {
    norm("post_ffw_norm", width_);
    norm("layer_output_scale", 1);
    if (const int64_t experts = shape_.integer("expert_count"); experts > 0) {
      add_gated("", shape_.integer("feed_forward_length"), 0);
      add("ffn_gate_inp.scale", {width_}, Role::kNorm);
      add("ffn_down_exps.scale", {experts}, Role::kNorm);
      for (const char* name : {"post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"}) norm(name, width_);
    }
    const int64_t inputs = shape_.integer("embedding_length_per_layer_input");
    if (inputs == 0) return;
    matrix("inp_gate", {width_, inputs});
    matrix("proj", {inputs, width_});
    norm("post_norm", width_);
  }

  void add_per_layer_table(int64_t vocabulary) {
    const int64_t inputs = shape_.integer("embedding_length_per_layer_input");
    const int64_t all = inputs * shape_.integer("block_count");
    matrix("per_layer_token_embd", {all, vocabulary});
    matrix("per_layer_model_proj", {width_, all});
    norm("per_layer_proj_norm", inputs);
  }

  // Multi-head latent attention: keys and values of a token are one latent row, which each head's own matrices expand.
  void add_latent_attention() {
    const int64_t rank = shape_.integer("attention.q_lora_rank");
    const int64_t latent = shape_.integer("attention.kv_lora_rank");
    const int64_t rope = shape_.integer("rope.dimension_count");
    const int64_t key = shape_.integer("attention.key_length_mla");
    const int64_t value = shape_.integer("attention.value_length_mla");
    norm("attn_norm", width_);
    if (rank > 0) {
      matrix("attn_q_a", {width_, rank});
      norm("attn_q_a_norm", rank);
      matrix("attn_q_b", {rank, heads_ * key});
    } else {
      matrix("attn_q", {width_, heads_ * key});
    }
    matrix("attn_kv_a_mqa", {width_, latent + rope});
    norm("attn_kv_a_norm", latent);
    matrix("attn_k_b", {key - rope, latent, heads_});
    matrix("attn_v_b", {latent, value, heads_});
    matrix("attn_output", {heads_ * value, width_});
  }

  void add_mixing() {
    const int64_t streams = shape_.integer("hyper_connection.count");
    const int64_t mixes = streams * (2 + streams);  // into the sublayer, out of it, and between the streams
    for (const char* part : {"hc_attn", "hc_ffn"}) {
      matrix(fmt::format("{}_fn", part), {streams * width_, mixes});
      add(fmt::format("{}_base.weight", part), {mixes}, Role::kBias);
      add(fmt::format("{}_scale.weight", part), {3}, Role::kMixScale);
    }
  }

  void add_output_mixing(std::string_view name) {
    const int64_t streams = shape_.integer("hyper_connection.count");
    matrix(fmt::format("{}_fn", name), {streams * width_, streams});
    add(fmt::format("{}_base.weight", name), {streams}, Role::kBias);
    add(fmt::format("{}_scale.weight", name), {1}, Role::kMixScale);
  }

  // deepseek4: the tensors of an MTP module besides those of a layer.
  void add_prediction() {
    matrix("nextn.eh_proj", {2 * width_, width_});
    norm("nextn.enorm", width_);
    norm("nextn.hnorm", width_);
    norm("nextn.shared_head_norm", width_);
    add_output_mixing("nextn.hc_head");
  }

  void add_v4_attention() {
    const int64_t rank = shape_.integer("attention.q_lora_rank");
    const int64_t head = shape_.integer("attention.key_length");
    const int64_t groups = shape_.integer("attention.output_group_count");
    const int64_t output_rank = shape_.integer("attention.output_lora_rank");
    norm("attn_norm", width_);
    matrix("attn_q_a", {width_, rank});
    norm("attn_q_a_norm", rank);
    matrix("attn_q_b", {rank, heads_ * head});
    matrix("attn_kv", {width_, head});
    norm("attn_kv_a_norm", head);
    add("attn_sinks.weight", {heads_}, Role::kBias);
    const int64_t group_inputs = heads_ / groups * head;
    if (shape_.flat_output_a) {
      matrix("attn_output_a", {group_inputs, groups * output_rank});
    } else {
      matrix("attn_output_a", {group_inputs, output_rank, groups});
    }
    matrix("attn_output_b", {groups * output_rank, width_});
  }

  void add_v4_rows() {
    const int64_t ratio = shape_.integers("attention.compress_ratios")[static_cast<size_t>(layer_)];
    if (ratio == 0) return;
    add_compressor("attn_compressor", shape_.integer("attention.key_length"), ratio);
    if (ratio != kOverlapRatio) return;
    add_index_query();
    add_compressor("indexer_compressor", shape_.integer("attention.indexer.key_length"), ratio);
  }

  void add_index_query() {
    const int64_t heads = shape_.integer("attention.indexer.head_count");
    matrix("indexer.attn_q_b",
           {shape_.integer("attention.q_lora_rank"), heads * shape_.integer("attention.indexer.key_length")});
    matrix("indexer.proj", {width_, heads});
  }

  // deepseek41: a row of a single position is its projection, for which no gate is needed.
  void add_v41_rows() {
    const bool makes_rows = shape_.has("kv_source_layer_ids", layer_);
    if (makes_rows) {
      const int64_t head = shape_.integer("attention.key_length");
      const int64_t index = shape_.integer("attention.indexer.key_length");
      matrix("attn_compressor_kv", {width_, head});
      if (shape_.integers("attention.compress_ratios")[static_cast<size_t>(layer_)] > 1) {
        matrix("attn_compressor_gate", {width_, head});
      }
      norm("attn_compressor_norm", head);
      matrix("indexer.attn_k", {head, index});
      norm("indexer.k_norm", index);
    }
    if (makes_rows || shape_.has("index_source_layer_ids", layer_)) add_index_query();
  }

  void add_engram() {
    const std::vector<int64_t> layers = shape_.integers("engram.layer_ids");
    const auto found = std::ranges::find(layers, layer_);
    if (found == layers.end()) return;
    const int64_t rows = (shape_.integer("engram.max_ngram_size") - 1) * shape_.integer("engram.head_count");
    const int64_t row = shape_.integer("engram.key_length");
    const int64_t streams = shape_.integer("hyper_connection.count");
    const std::vector<int64_t> primes = shape_.integers("engram.primes");
    const auto first = primes.begin() + (found - layers.begin()) * rows;
    add("engram_embd.weight", {row, std::accumulate(first, first + rows, int64_t{0})}, Role::kTable);
    matrix("engram_wkv", {rows * row, (streams + 1) * width_});
    add("engram_q.weight", {width_, streams}, Role::kNorm);
    add("engram_k.weight", {width_, streams}, Role::kNorm);
  }

  // deepseek41: the drafting head, layers that see their windows alone, with experts of their own number.
  void add_dspark(int64_t vocabulary) {
    const int64_t stages = shape_.integer("dspark.stage_count"), rank = shape_.integer("dspark.markov_rank");
    for (int64_t stage = 0; stage < stages; ++stage) {
      prefix_ = fmt::format("mtp.{}.", stage);
      if (stage == 0) {
        matrix("main_proj", {std::ssize(shape_.integers("dspark.target_layer_ids")) * width_, width_});
        norm("main_norm", width_);
      }
      add_mixing();
      add_v4_attention();
      norm("ffn_norm", width_);
      add_experts(shape_.integer("dspark.n_routed_experts"));
      if (stage + 1 < stages) continue;
      norm("norm", width_);
      matrix("markov_head.markov_w1", {rank, vocabulary});
      matrix("markov_head.markov_w2", {rank, vocabulary});
      matrix("confidence_head.proj", {width_ + rank, 1});
    }
    prefix_.clear();
  }

  void add_compressor(std::string_view name, int64_t head, int64_t ratio) {
    const int64_t row = ratio == kOverlapRatio ? 2 * head : head;
    matrix(fmt::format("{}_kv", name), {width_, row});
    matrix(fmt::format("{}_gate", name), {width_, row});
    matrix(fmt::format("{}_ape", name), {row, ratio});
    norm(fmt::format("{}_norm", name), head);
  }

  void add_feed_forward() {
    const bool is_gpt_oss = shape_.architecture() == "gpt-oss";
    norm(is_gpt_oss || is_qwen35() ? "post_attention_norm" : "ffn_norm", width_);
    const int64_t experts = shape_.integer("expert_count");
    if (experts == 0 || layer_ < shape_.integer("leading_dense_block_count")) {
      return add_gated("", shape_.integer("feed_forward_length"), 0);
    }
    add_experts(experts);
  }

  void add_experts(int64_t experts) {
    const int64_t own = shape_.integer("expert_feed_forward_length");
    const int64_t inner = own > 0 ? own : shape_.integer("feed_forward_length");
    matrix("ffn_gate_inp", {width_, experts});
    if (layer_ < shape_.integer("hash_layer_count")) {
      const int64_t vocabulary = shape_.integer("vocab_size");
      add("ffn_gate_tid2eid.weight", {shape_.integer("expert_used_count"), vocabulary}, Role::kExpertIds);
    } else if (shape_.integer("expert_gating_func") > 1) {  // another function than softmax
      add("exp_probs_b.bias", {experts}, Role::kBias);
    }
    if (shape_.architecture() == "gemma4") {
      matrix("ffn_gate_up_exps", {width_, 2 * inner, experts});
      matrix("ffn_down_exps", {inner, width_, experts});
      return;
    }
    add_gated("_exps", inner, experts);
    if (shape_.architecture() == "gpt-oss") {
      bias("ffn_gate_inp", {experts});
      bias("ffn_gate_exps", {inner, experts});
      bias("ffn_up_exps", {inner, experts});
      bias("ffn_down_exps", {width_, experts});
    }
    const int64_t shared = shape_.integer("expert_shared_count");
    if (shared > 0) add_gated("_shexp", shared * inner, 0);
    if (const int64_t width = shape_.integer("expert_shared_feed_forward_length"); width > 0) {
      add_gated("_shexp", width, 0);
      add("ffn_gate_inp_shexp.weight", {width_}, Role::kBias);
    }
  }

  void add_gated(std::string_view suffix, int64_t inner, int64_t experts) {
    const auto part = [&](std::string_view name, int64_t columns, int64_t rows) {
      std::vector<int64_t> shape = {columns, rows};
      if (experts > 0) shape.push_back(experts);
      matrix(fmt::format("{}{}", name, suffix), std::move(shape));
    };
    part("ffn_gate", width_, inner);
    part("ffn_up", width_, inner);
    part("ffn_down", inner, width_);
  }

  const Shape& shape_;
  int64_t width_;
  int64_t heads_;
  int64_t layer_ = 0;
  std::string prefix_;
  std::vector<TensorPlan> tensors_;
};

}  // namespace

int64_t TensorPlan::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::vector<TensorPlan> tensors_of(const Shape& shape) { return Builder(shape).build(); }

}  // namespace cairn::synth
