// Gemma: norms that the checkpoint has less one (except Gemma 4), and four of them in a layer since Gemma 2.
#include <fmt/format.h>

#include <algorithm>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

bool change_gemma_tensor(Conversion& /*conversion*/, SourceTensor& source) {
  if (source.part == "lm_head") return true;  // the table of tokens is the output
  if (source.part.ends_with("norm") && source.suffix == ".weight") add_one(source);
  return false;
}

void set_gemma_keys(Conversion& conversion) { conversion.metadata().set("tokenizer.ggml.add_space_prefix", false); }

void set_gemma2_keys(Conversion& conversion) {
  set_gemma_keys(conversion);
  conversion.copy_number("attn_logit_softcapping", {"attn_logit_softcapping"});
  conversion.copy_number("final_logit_softcapping", {"final_logit_softcapping"});
  conversion.copy_integer("attention.sliding_window", {"sliding_window"});
}

// Configs of Gemma 3 leave out what is the default of transformers.
void set_gemma3_keys(Conversion& conversion) {
  set_gemma_keys(conversion);
  const ModelConfig& config = conversion.config();
  conversion.set("context_length", config.integer_or({"max_position_embeddings"}, 131'072));
  conversion.set("attention.head_count", config.integer_or({"num_attention_heads"}, 8));
  conversion.set("attention.head_count_kv", config.integer_or({"num_key_value_heads"}, 4));
  conversion.set("attention.key_length", config.integer_or({"head_dim"}, 256));
  conversion.set("attention.value_length", config.integer_or({"head_dim"}, 256));
  conversion.set("attention.layer_norm_rms_epsilon", config.number_or({"rms_norm_eps"}, 1e-6));
  conversion.set("rope.freq_base", conversion.rope().full.number_or({"rope_theta"}, 1'000'000.0));
  conversion.copy_number("final_logit_softcapping", {"final_logit_softcapping"});
  if (config.integer_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6) != 1) {
    conversion.copy_integer("attention.sliding_window", {"sliding_window"});
  }
}

// The matrices that sentence-transformers puts behind the pooling: modules 2_Dense and 3_Dense. They are in files of
// their own, which the tensors of the conversion outlive only as copies.
void add_dense_modules(Conversion& conversion) {
  for (const int number : {2, 3}) {
    const auto path = conversion.folder() / fmt::format("{}_Dense", number) / "model.safetensors";
    std::error_code missing;
    if (!std::filesystem::exists(path, missing)) continue;
    const auto file = Checkpoint::open_file(path);
    if (!file) return conversion.config().refuse(file.error().code, file.error().message);
    const StoredTensor* weight = file->find("linear.weight");
    if (weight == nullptr || weight->shape.size() != 2 || weight->elements() == 0) {
      return conversion.config().refuse(Code::kCorruptFile,
                                        fmt::format("{}: there is no matrix linear.weight", path.string()));
    }
    const int64_t in = weight->shape[1], out = weight->shape[0];
    std::vector<float> values(static_cast<size_t>(in * out));
    stored_rows(*file, *weight, in)->read(0, out, values.data());
    conversion.add(fmt::format("dense_{}.weight", number), {in, out}, reshaped(constant_row(std::move(values)), in));
    conversion.set(fmt::format("dense_{}_feat_in", number), in);
    conversion.set(fmt::format("dense_{}_feat_out", number), out);
  }
}

void set_gemma_embedding_keys(Conversion& conversion) {
  set_gemma3_keys(conversion);
  add_dense_modules(conversion);
  set_pooling(conversion);
}

void set_gemma4_keys(Conversion& conversion) {
  set_gemma3_keys(conversion);
  const ModelConfig& config = conversion.config();
  const int64_t shared = config.integer_or({"num_kv_shared_layers"}, 0);
  conversion.set("attention.shared_kv_layers", shared);
  conversion.set("embedding_length_per_layer_input", config.integer_or({"hidden_size_per_layer_input"}, 0));
  const std::vector<bool> windowed = layers_of_type(conversion, "sliding_attention");
  conversion.set("attention.sliding_window_pattern", windowed);
  const int64_t full_length = config.integer({"global_head_dim"}), windowed_length = config.integer({"head_dim"});
  conversion.set("attention.key_length", full_length);
  conversion.set("attention.value_length", full_length);
  conversion.set("attention.key_length_swa", windowed_length);
  conversion.set("attention.value_length_swa", windowed_length);
  conversion.copy_integer("expert_feed_forward_length", {"expert_intermediate_size", "moe_intermediate_size"});
  if (config.boolean_or({"use_double_wide_mlp"}, false)) {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < conversion.layers(); ++i) {
      lengths.push_back(config.integer({"intermediate_size"}) * (i < conversion.layers() - shared ? 1 : 2));
    }
    conversion.set("feed_forward_length", std::move(lengths));
  }
  if (config.has({"num_global_key_value_heads"})) {
    std::vector<int64_t> heads;
    for (const bool is_windowed : windowed) {
      heads.push_back(config.integer({is_windowed ? "num_key_value_heads" : "num_global_key_value_heads"}));
    }
    conversion.set("attention.head_count_kv", std::move(heads));
  }
  conversion.set("rope.dimension_count", full_length);
  conversion.set("rope.dimension_count_swa", windowed_length);
  // "Proportional" rope of the full layers: pairs behind the share that is turned get a factor that stops them.
  const double share = conversion.rope().full.number_or({"partial_rotary_factor"}, 0.25);
  const auto turned = static_cast<int64_t>(static_cast<double>(full_length) * share / 2.0);
  std::vector<float> factors(static_cast<size_t>(full_length / 2), 1e30f);
  std::fill_n(factors.begin(), std::min(turned, full_length / 2), 1.0f);
  conversion.add("rope_freqs.weight", {full_length / 2}, constant_row(std::move(factors)));
}

bool change_gemma4_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part == "lm_head") return true;
  if (source.part == "experts.gate_up_proj") {
    conversion.add(source, "ffn_gate_up_exps.weight");
    return true;
  }
  return false;
}

constexpr std::string_view kGemmaClasses[] = {"GemmaForCausalLM"};
constexpr std::string_view kGemma2Classes[] = {"Gemma2ForCausalLM"};
constexpr std::string_view kGemma3Classes[] = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"};
constexpr std::string_view kGemmaEmbeddingClasses[] = {"Gemma3TextModel"};
constexpr std::string_view kGemma4Classes[] = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration",
                                               "Gemma4UnifiedForConditionalGeneration"};

constexpr NameRow kGemma2Names[] = {{"post_attention_layernorm", "post_attention_norm"}};
constexpr NameRow kGemma4Names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"layer_scalar", "layer_output_scale"},
    {"router.proj", "ffn_gate_inp"},
    {"router.scale", "ffn_gate_inp.scale."},
    {"router.per_expert_scale", "ffn_down_exps.scale."},
    {"experts.down_proj", "ffn_down_exps"},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
};

constexpr Family kGemmaFamilies[] = {
    {.classes = kGemmaClasses, .architecture = "gemma", .keys = set_gemma_keys, .tensor = change_gemma_tensor},
    {.classes = kGemma2Classes,
     .architecture = "gemma2",
     .keys = set_gemma2_keys,
     .tensor = change_gemma_tensor,
     .names = kGemma2Names},
    {.classes = kGemma3Classes,
     .architecture = "gemma3",
     .keys = set_gemma3_keys,
     .tensor = change_gemma_tensor,
     .names = kGemma2Names},
    {.classes = kGemmaEmbeddingClasses,
     .architecture = "gemma-embedding",
     .keys = set_gemma_embedding_keys,
     .tensor = change_gemma_tensor,
     .names = kGemma2Names},
    {.classes = kGemma4Classes,
     .architecture = "gemma4",
     .keys = set_gemma4_keys,
     .tensor = change_gemma4_tensor,
     .names = kGemma4Names},
};

}  // namespace

std::span<const Family> gemma_families() { return kGemmaFamilies; }

}  // namespace cairn::convert
