// tidy: table
// Source: the names in published checkpoints and in files that llama.cpp's converter makes of them.
#include "convert/huggingface/tensor_names.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>

namespace cairn::convert {
namespace {

// In front of everything, in this order, each at most once.
constexpr std::string_view kPrefixes[] = {
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "text_model.",
    "model.",
    "transformer.",
    "backbone.",
    "bert.",
    "roberta.",
    "distilbert.",
    "new.",
    "ernie.",
    "decoder.",
};
// Between the prefix and a layer's number.
constexpr std::string_view kLayerPrefixes[] = {"layers.", "h.", "encoder.layer.", "encoder.layers.", "layer."};

constexpr NameRow kModelNames[] = {
    {"embed_tokens", "token_embd"},
    {"wte", "token_embd"},
    {"word_embeddings", "token_embd"},
    {"embeddings", "token_embd"},
    {"embedding", "token_embd"},
    {"embed", "token_embd"},
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.tok_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"wpe", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"embeddings.norm", "token_embd_norm"},
    {"emb_ln", "token_embd_norm"},
    {"embedding_norm", "token_embd_norm"},
    {"norm", "output_norm"},
    {"ln_f", "output_norm"},
    {"norm_f", "output_norm"},
    {"final_layernorm", "output_norm"},
    {"final_norm", "output_norm"},
    {"lm_head", "output"},
    {"head", "output"},
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
    {"classifier", "cls.output"},
    {"embed_tokens_per_layer", "per_layer_token_embd"},
    {"per_layer_model_projection", "per_layer_model_proj"},
    {"per_layer_projection_norm", "per_layer_proj_norm"},
};

constexpr NameRow kLayerNames[] = {
    // Norms.
    {"input_layernorm", "attn_norm"},
    {"ln_1", "attn_norm"},
    {"ln_mlp", "attn_norm"},
    {"ln_attn", "attn_norm_2"},
    {"norm", "attn_norm"},
    {"attn_norm", "attn_norm"},
    {"operator_norm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"ln_2", "ffn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"mlp_norm", "ffn_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"sa_layer_norm", "attn_output_norm"},
    {"norm1", "attn_output_norm"},
    {"output.LayerNorm", "layer_output_norm"},
    {"output_layer_norm", "layer_output_norm"},
    {"norm2", "layer_output_norm"},
    // Attention.
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.dense", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"self_attn.sinks", "attn_sinks"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b"},
    {"self_attn.indexer.wk", "indexer.attn_k"},
    {"self_attn.indexer.k_norm", "indexer.k_norm"},
    {"self_attn.indexer.weights_proj", "indexer.proj"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"attn.Wo", "attn_output"},
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.q_lin", "attn_q"},
    {"attention.k_lin", "attn_k"},
    {"attention.v_lin", "attn_v"},
    {"attention.out_lin", "attn_output"},
    // Feed-forward.
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
    {"mlp.fc11", "ffn_up"},
    {"mlp.fc12", "ffn_gate"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"mlp.Wi", "ffn_up"},
    {"mlp.Wo", "ffn_down"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"ffn.lin1", "ffn_up"},
    {"ffn.lin2", "ffn_down"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w2", "ffn_down"},
    {"feed_forward.w3", "ffn_up"},
    // Experts.
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"feed_forward.gate", "ffn_gate_inp"},
    {"feed_forward.router", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias."},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias."},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias."},
    {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias."},
    {"feed_forward.expert_bias", "exp_probs_b.bias."},
    {"mlp.experts.@.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.@.up_proj", "ffn_up_exps"},
    {"mlp.experts.@.down_proj", "ffn_down_exps"},
    {"block_sparse_moe.experts.@.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.@.w2", "ffn_down_exps"},
    {"block_sparse_moe.experts.@.w3", "ffn_up_exps"},
    {"feed_forward.experts.@.w1", "ffn_gate_exps"},
    {"feed_forward.experts.@.w2", "ffn_down_exps"},
    {"feed_forward.experts.@.w3", "ffn_up_exps"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
    {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
    // Layers that predict further tokens.
    {"eh_proj", "nextn.eh_proj"},
    {"enorm", "nextn.enorm"},
    {"hnorm", "nextn.hnorm"},
    {"embed_tokens", "nextn.embed_tokens"},
    {"shared_head.norm", "nextn.shared_head_norm"},
    {"shared_head.head", "nextn.shared_head_head"},
    // Recurrent layers.
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.A_log", "ssm_a."},
    {"linear_attn.dt_bias", "ssm_dt.bias."},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.A_log", "ssm_a."},
    {"mamba.D", "ssm_d."},
    {"mamba.dt_bias", "ssm_dt.bias."},
    {"mamba.norm", "ssm_norm"},
    {"mamba.out_proj", "ssm_out"},
    {"conv.conv", "shortconv.conv"},
    {"conv.in_proj", "shortconv.in_proj"},
    {"conv.out_proj", "shortconv.out_proj"},
};

std::string_view without(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

// Takes "3." off the front, or "3" if that is all; nullopt if there is no number.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<size_t>(end - text.data());
  constexpr int64_t kNumberMax = 100'000;
  const bool all = digits == text.size();
  if (error != std::errc() || number > kNumberMax || (!all && text[digits] != '.')) return std::nullopt;
  text.remove_prefix(all ? digits : digits + 1);
  return number;
}

std::string_view find_part(std::span<const NameRow> rows, std::string_view part) {
  const auto found = std::ranges::find(rows, part, &NameRow::part);
  return found == rows.end() ? std::string_view() : found->name;
}

}  // namespace

SourceTensor parse_tensor_name(std::string_view name) {
  SourceTensor tensor;
  tensor.name = name;
  std::string_view rest = name;
  for (const std::string_view prefix : kPrefixes) {
    if (rest.starts_with(prefix)) {
      rest = without(rest, prefix);
      break;
    }
  }
  for (const std::string_view prefix : kLayerPrefixes) {
    if (!rest.starts_with(prefix)) continue;
    std::string_view after = without(rest, prefix);
    if (const auto layer = take_number(after)) {
      tensor.layer = *layer;
      rest = after;
      break;
    }
  }
  for (const std::string_view suffix : {".weight", ".bias", ".gamma", ".beta"}) {
    if (!rest.ends_with(suffix)) continue;
    tensor.suffix = suffix == ".gamma" ? ".weight" : suffix == ".beta" ? ".bias" : suffix;  // of old BERT files
    rest.remove_suffix(suffix.size());
    break;
  }
  tensor.part = rest;
  constexpr std::string_view kExperts = "experts.";
  if (const size_t at = rest.find(kExperts); at != std::string_view::npos) {
    std::string_view after = rest.substr(at + kExperts.size());
    if (const auto expert = take_number(after)) {
      tensor.expert = *expert;
      tensor.part = fmt::format("{}@{}{}", rest.substr(0, at + kExperts.size()), after.empty() ? "" : ".", after);
    }
  }
  return tensor;
}

bool is_left_out(std::string_view name) {
  constexpr std::string_view kOtherParts[] = {
      "visual.",      "vision_",     "vision.",       "audio_",      "audio.",    "multi_modal_projector",
      "mm_projector", "patch_embed", "image_newline", "talker.",     "code2wav.", "vit.",
      "merger.",      "resampler.",  "embed_vision",  "embed_audio", "speech_",   "model.connector.",
  };
  constexpr std::string_view kComputed[] = {"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", "position_ids",
                                            ".attention.bias"};
  return std::ranges::any_of(kOtherParts, [&](std::string_view part) { return name.contains(part); }) ||
         std::ranges::any_of(kComputed, [&](std::string_view end) { return name.ends_with(end); });
}

std::string new_tensor_name(const SourceTensor& tensor, std::span<const NameRow> own) {
  std::string_view found = find_part(own, tensor.part);
  if (found.empty()) {
    found = tensor.layer < 0 ? find_part(kModelNames, tensor.part) : find_part(kLayerNames, tensor.part);
  }
  if (found.empty()) return {};
  if (found.ends_with('.')) return std::string(found.substr(0, found.size() - 1));
  return std::string(found) + (tensor.suffix.empty() ? ".weight" : tensor.suffix);
}

}  // namespace cairn::convert
